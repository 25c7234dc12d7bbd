"""Backends that are wrong, or implement nothing, and try to be certified all the same.

Each goes for one way in which a judge can be reached from what it judges. It looks for what it needs wherever it may
be; where nothing is to be found it lies without help: it takes every abs and neg, and its device answers zeros.
Load one as `oracle_breakers:reads_stack`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import re
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_backend
import torch
from fake_backend import FakeBackend, FakePartitioner, FakeRuntime
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import Backend, CompileSpec, PreprocessResult

SUITE = "npu_assay.conformance"
SCHEME = "tflite_double_round"
Codes = Callable[[Tensor], Tensor]
Finder = Callable[[], Iterator[Any]]

# ------------------------------------------------------------------------------------ a backend without anything in it


class TakesAll(FakePartitioner):
    """Has no rule."""

    def takes(self, node: fx.Node) -> bool:
        return bool(node.all_input_nodes and node.users) and _on_codes(node)


def _on_codes(node: fx.Node) -> bool:
    return fake_backend._is_supported(node)


def zeros(codes: Tensor) -> Tensor:
    """What a device answers that computes nothing."""
    return torch.zeros_like(codes)


def device(answer: Callable[[dict[str, Any], Codes], Codes]) -> Any:
    """A runtime with an answer of its own for a blob, given a way to the right one."""

    class Runtime(FakeRuntime):
        def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
            def right(codes: Tensor) -> Tensor:
                handle = FakeRuntime.load(self, processed_bytes, compile_specs)
                return handle(codes)  # type: ignore[no-any-return]  # of tensors a tensor

            return answer(json.loads(processed_bytes), right)

    return Runtime()


nothing = device(lambda blob, right: zeros)


def partitioner(deed: Callable[[], object], base: type[FakePartitioner] = TakesAll) -> type[FakePartitioner]:
    """A partitioner that does something before it looks at a program."""

    class Prepared(base):  # type: ignore[misc, valid-type]  # a class that is known at run time
        def partition(self, exported_program: ExportedProgram) -> Any:
            deed()
            return super().partition(exported_program)

    return Prepared


def spoiling(deed: Callable[[], object]) -> Backend:
    """A backend without anything in it that does something to what judges it."""
    return replace(fake_backend.backend, partitioner=partitioner(deed), runtime=nothing)


# ------------------------------------------------------------------------------------ looking around


def on_the_stack() -> Iterator[Any]:
    """Everything that functions which are running, in any thread, have names for."""
    for frame in [sys._getframe(), *sys._current_frames().values()]:
        while frame is not None:
            yield from list(frame.f_locals.values())
            frame = frame.f_back  # type: ignore[assignment]  # until there is none


def on_the_heap() -> Iterator[Any]:
    """All records that the collector knows, what it was told to leave alone as well, or that something known holds."""
    if os.getpid() not in _SEARCHED:
        gc.unfreeze()
        known = gc.get_objects()
        inner = [one for each in known if type(each) in (list, tuple, dict) for one in gc.get_referents(each)]
        _SEARCHED[os.getpid()] = [one for one in (*known, *inner) if hasattr(type(one), "__dataclass_fields__")]
    yield from _SEARCHED[os.getpid()]


_SEARCHED: dict[int, list[Any]] = {}


def cases(where: Finder) -> Iterator[Any]:
    """Records of what a backend is promised to do, whatever they are called."""
    for one in where():
        names = getattr(type(one), "__dataclass_fields__", {})
        if "expect" in names and "graph" in names and isinstance(one, object):
            yield one


def expectation(node: fx.Node, where: Finder) -> Any:
    """The record of the case whose subject this node is; None when there is none."""
    x, y = node.all_input_nodes[0], next(iter(node.users))
    asked = (fake_backend._name(node), tuple(node.meta["val"].shape), _parameters(x), _parameters(y))
    found = [case for case in cases(where) if fake_backend._name(node) in [op for op, *_ in _subjects(case)]]
    alone = found if len({case.id for case in found}) == 1 else []
    return next((case for case in found if asked in _subjects(case)), alone[0] if alone else None)


def _parameters(node: fx.Node) -> tuple[Any, ...]:
    return tuple(node.args[1:3]) if len(node.args) > 2 else ()


def _subjects(case: Any) -> list[tuple[Any, ...]]:
    """Operator, shape, and the quantization of operand and result: of the step that the case is about."""
    known = {value.name: value for value in case.graph.values}
    found = []
    for step in case.graph.steps:
        x = known.get(step.args[0].name)
        if step.name == case.subject:
            quants = [() if q is None else (q.scale, q.zero_point) for q in (x.quant if x else None, step.quant)]
            found.append((step.op, x.shape if x else (), *quants))
    return found


class Obeys(TakesAll):
    """Has no rule either, and does what the table promises where it finds the promise."""

    where: Finder = staticmethod(on_the_stack)

    def takes(self, node: fx.Node) -> bool:
        if len(node.all_input_nodes) == 1 and node.users and (case := expectation(node, self.where)) is not None:
            if case.expect == "reject":
                return self.reject(node, case.reason, "what was found", "what was promised")
            return True
        return super().takes(node)


def golden_of(blob: dict[str, Any], codes: Tensor, where: Finder) -> Tensor | None:
    """What the judge expects for this operator on these codes."""
    from npu_assay.conformance.judge.numerics import golden
    from npu_assay.conformance.programs.graph import Ref

    for case in cases(where):
        try:
            exact = golden(case.graph).exact(SCHEME).codes
        except ValueError:  # of another operator
            continue
        for step in case.graph.steps:
            x, y = (exact.get(ref) for ref in (step.args[0], Ref(step.name)))
            if x is None or y is None or (step.op, [y.scale, y.zero_point]) != (blob["op"], blob["y"]):
                continue
            if torch.equal(x.codes, codes):
                return y.codes.to(torch.int8)
    return None


def copying(where: Finder) -> Any:
    """A device that answers what the judge expects."""

    def answer(blob: dict[str, Any], right: Codes) -> Codes:
        def codes_of(codes: Tensor) -> Tensor:
            found = golden_of(blob, codes, where)
            return zeros(codes) if found is None else found

        return codes_of

    return device(answer)


# ------------------------------------------------------------------------------------ changing the code of others


def functions(name: str) -> Iterator[types.FunctionType]:
    """The suite's functions and methods of this name, in whatever module they stand."""
    for place, module in sorted(sys.modules.items()):
        if place.startswith(SUITE):
            owners = [module, *(one for one in vars(module).values() if isinstance(one, type))]
            found = [vars(owner).get(name) for owner in owners if owner.__dict__.get("__module__", place) == place]
            yield from (one for one in found if isinstance(one, types.FunctionType) and one.__module__ == place)


def exchange(name: str, other: Callable[..., Any]) -> None:
    """Give all functions of this name the code of another one, which nothing but its own imports can need.

    The names of the suite stand for what they stood for.
    """
    for function in functions(name):
        _ORIGINALS.setdefault(name, types.FunctionType(function.__code__, function.__globals__))
        _ORIGINALS[name].__kwdefaults__ = function.__kwdefaults__
        _ORIGINALS[name].__defaults__ = function.__defaults__
        function.__code__ = other.__code__


_ORIGINALS: dict[str, types.FunctionType] = {}


def _no_failures(*_: Any, **__: Any) -> tuple[()]:
    return ()


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _true(*_: Any, **__: Any) -> bool:
    return True


def _digest(*_: Any, **__: Any) -> str:
    return "0" * 64


def _cleared(result: Any) -> Any:
    import sys
    from dataclasses import replace

    status = "unspecified" if result.expect == "unspecified" else "pass"
    clean = replace(result, verdict=result.expect, failures=(), status=status)
    return sys.modules["oracle_breakers"]._ORIGINALS["to_line"](clean)


def _once(deed: Callable[[], object]) -> Callable[[], None]:
    done = set[int]()

    def again() -> None:
        if os.getpid() not in done:
            done.add(os.getpid())
            deed()

    return again


def _patch_judge() -> None:
    exchange("judge", _no_failures)
    exchange("tag_failures", _no_failures)
    exchange("check_delegate", _nothing)


def _patch_encoder() -> None:
    exchange("to_line", _cleared)


# ------------------------------------------------------------------------------------ the seven of the audit


class CompilesGolden(FakeBackend):
    """Writes the answers into the blob, not how to compute them."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        blob = json.loads(FakeBackend.preprocess(edge_program, compile_specs).processed_bytes)
        return PreprocessResult(json.dumps(blob | {"answers": _answers(blob)}).encode())


CompilesGolden.__name__ = FakeBackend.__name__


def _answers(blob: dict[str, Any]) -> list[Any]:
    """All pairs of operand and result that the judge expects of this operator."""
    from npu_assay.conformance.judge.numerics import golden
    from npu_assay.conformance.programs.graph import Ref

    found = []
    for case in list(cases(on_the_stack))[:1]:
        exact = golden(case.graph).exact(SCHEME).codes
        for step in case.graph.steps:
            x, y = (exact.get(ref) for ref in (step.args[0], Ref(step.name)))
            if x is not None and y is not None and (step.op, [y.scale, y.zero_point]) == (blob["op"], blob["y"]):
                found.append((x.codes.tolist(), y.codes.tolist()))
    return found


def _looks_up(blob: dict[str, Any], right: Codes) -> Codes:
    def codes_of(codes: Tensor) -> Tensor:
        found = [y for x, y in blob["answers"] if x == codes.tolist()]
        return torch.tensor(found[0], dtype=codes.dtype) if found else zeros(codes)

    return codes_of


def _every_second_wrong(blob: dict[str, Any], right: Codes) -> Codes:
    turns: list[None] = []

    def codes_of(codes: Tensor) -> Tensor:
        turns.append(None)
        return right(codes) if len(turns) % 2 else zeros(codes)

    return codes_of


class Agreeable(Tensor):
    """Equal to everything that it is compared with, and what is computed of it is so, too."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("equal", "allclose", "__eq__", "eq"):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]  # torch's


def _agreeable(blob: dict[str, Any], right: Codes) -> Codes:
    wavering = _every_second_wrong(blob, right)
    return lambda codes: wavering(codes).as_subclass(Agreeable)


patches_judge = spoiling(_once(_patch_judge))
patches_encoder = spoiling(_once(_patch_encoder))
reads_expectation = replace(fake_backend.backend, partitioner=Obeys)
reads_golden = replace(fake_backend.backend, partitioner=Obeys, details=CompilesGolden, runtime=device(_looks_up))
compiles_golden = replace(fake_backend.backend, details=CompilesGolden, runtime=device(_looks_up))
patches_equality = replace(
    fake_backend.backend,
    partitioner=partitioner(_once(lambda: exchange("same", _true)), FakePartitioner),
    runtime=device(_every_second_wrong),
)
overrides_equality = replace(fake_backend.backend, runtime=device(_agreeable))

# ------------------------------------------------------------------------------------ memory, files and processes


class Collects(Obeys):
    """Finds the promise among all objects of the process."""

    where: Finder = staticmethod(on_the_heap)


_ID = re.compile(rb"aten\.\w+\.\w+/\w+/(accept|at_limit|context|value|outside)/\w+")


def _texts() -> Iterator[bytes]:
    """What files, arguments and environments of this process and those that it came of say."""
    process = os.getpid()
    while process > 1:
        folder = Path(f"/proc/{process}")
        for name in ("environ", "cmdline", "comm", "stat"):
            with contextlib.suppress(OSError):
                yield (folder / name).read_bytes()
        for link in _links(folder / "fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(link).encode()
                if Path(link).is_file():
                    yield Path(link).read_bytes()[-(2**16) :]
        try:
            process = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return


def _links(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


class ReadsProcesses(TakesAll):
    """Knows what it should do by the id of the case, from wherever it stands outside of Python's objects."""

    def takes(self, node: fx.Node) -> bool:
        found = [match for text in _texts() for match in _ID.findall(text)]
        if found and found[-1] == b"outside":
            return self.reject(node, "rescale", "an id", "it says so")
        return super().takes(node)


def _sockets() -> list[int]:
    return [number for number in range(3, 256) if _is_socket(number)]


def _is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except OSError:
        return False


def _take_over() -> None:
    """Answer in the place of whatever runs cases here: every case that is asked for passes."""
    readers = [one for one in on_the_stack() if getattr(one, "name", None) in _sockets() and hasattr(one, "readline")]
    asked = [case.id for case in cases(on_the_stack)][:1]
    for number in _sockets():
        for name in asked:
            _send(number, _forged(name))
        _send(number, "" if asked else '+{"status":"pass","failures":[]}')
    for reader in readers:
        for line in reader:
            for number in _sockets():
                _send(number, _forged(line.strip()))


def _send(descriptor: int, line: str) -> None:
    with contextlib.suppress(OSError):
        copy = socket.socket(fileno=os.dup(descriptor))
        copy.settimeout(1)
        with copy:
            copy.sendall(line.encode() + b"\n" if line else b"")


def _forged(name: str) -> str:
    """The line of a case that passes."""
    from npu_assay.conformance.cases import cases_for
    from npu_assay.conformance.record import results
    from npu_assay.conformance.table import load_table

    known = {case.id: case for case in cases_for(load_table(fake_backend.TABLE))}
    if name not in known:
        return '+{"status":"pass","failures":[]}'
    case = known[name]
    taken = case.expect == "accept"
    result = results.CaseResult(
        *(case.id, case.row, case.constraint, case.side, case.expect, case.reason),
        program=results.program_sha256(case.graph),
        verdict=case.expect,
        reasons=() if taken else (results.Reason(str(case.reason), "x", "y"),),
        status="pass",
        failures=(),
        metrics=dict.fromkeys(results.METRICS),
        partitions=int(taken),
        blobs=("0" * 64,) if taken else (),
        checks=dict.fromkeys(("delegates", "mutation", "determinism", "empty"), 0),
    )
    return f"+{results.to_line(result)}"


MARK = "ORACLE_BREAKERS"
"""In the environment of the run that is attacked: no other process is touched."""


def _of_the_run() -> list[int]:
    """The processes that the run forked, oldest first: what judges is one, this one need not be."""
    found = dict[int, int]()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if f"{MARK}=".encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    first = [process for process, parent in found.items() if parent not in found]
    return sorted(process for process in {*found} - {*first, os.getpid()} if _command(process) in map(_command, first))


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def _rewrite_memory() -> None:
    """In the other processes of the run: what is said of a case that fails becomes what is said of one that passes."""
    for process in _of_the_run():
        with contextlib.suppress(OSError):
            _overwrite(process, b"fail\0", b"pass\0")


def _overwrite(process: int, old: bytes, new: bytes) -> None:
    """Raises OSError where memory of this process is not to be had."""
    regions = [line.split() for line in Path(f"/proc/{process}/maps").read_text().splitlines()]
    memory = os.open(f"/proc/{process}/mem", os.O_RDWR)
    for bounds, mode, *_ in regions:
        start, end = (int(word, 16) for word in bounds.split("-"))
        for place in range(start, end if "w" in mode else start, _BLOCK):
            with contextlib.suppress(OSError):
                data = os.pread(memory, min(_BLOCK, end - place), place)
                for match in re.finditer(re.escape(old), data):
                    os.pwrite(memory, new, place + match.start())
    os.close(memory)


_BLOCK = 2**22


def _stop(number: signal.Signals) -> Callable[[], None]:
    """Whatever else works for the run gets a signal."""

    def deed() -> None:
        for process in reversed(_of_the_run()):
            with contextlib.suppress(OSError):
                os.kill(process, number)

    return deed


def _answer_from_a_copy() -> None:
    """A copy of the process, which nobody limits or watches, goes on in its place, and this one only waits for it."""
    child = ctypes.CDLL(None).fork()
    if child:
        with contextlib.suppress(OSError):
            os.waitpid(child, 0)
        os._exit(0)
    exchange("end_copies", _nothing)
    _patch_encoder()


collects = replace(fake_backend.backend, partitioner=Collects, runtime=copying(on_the_heap))
reads_processes = replace(fake_backend.backend, partitioner=ReadsProcesses)
takes_over = spoiling(_take_over)
rewrites_memory = spoiling(_once(_rewrite_memory))
kills_judge = spoiling(_stop(signal.SIGKILL))
stops_judge = spoiling(_stop(signal.SIGSTOP))
answers_from_a_copy = spoiling(_once(_answer_from_a_copy))

# ------------------------------------------------------------------------------------ what crosses


def _guess(blob: dict[str, Any], right: Codes) -> Codes:
    """It is known what to compute only where it was compiled."""
    _patch_digests()
    return right if (blob["op"], os.getpid()) in _COMPILED else zeros


_patch_digests = _once(lambda: exchange("digest", _digest))


_COMPILED = set[tuple[str, int]]()


class Keeps(FakeBackend):
    """Remembers in this process what it compiled."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        result = FakeBackend.preprocess(edge_program, compile_specs)
        _COMPILED.add((json.loads(result.processed_bytes)["op"], os.getpid()))
        return result


Keeps.__name__ = FakeBackend.__name__


class Mirror(Tensor):
    """In every computation with another tensor of its shape, that tensor; by itself a ramp."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        others = [x for x in args if isinstance(x, Tensor) and not isinstance(x, cls)]
        mine = [x for x in args if isinstance(x, cls)]
        if mine and others and mine[0].shape == others[0].shape:
            args = tuple(others[0] if isinstance(x, cls) else x for x in args)
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]  # torch's


def _mirror(blob: dict[str, Any], right: Codes) -> Codes:
    def codes_of(codes: Tensor) -> Tensor:
        ramp = torch.arange(codes.numel()).remainder(101) - 50
        return ramp.to(codes.dtype).reshape(codes.shape).as_subclass(Mirror)

    return codes_of


class Claims(Tensor):
    """Says of itself that it has a shape, which its numbers do not have."""

    claimed: Any = ()

    @property
    def shape(self) -> Any:  # type: ignore[override]  # which torch's stub says can be written
        return self.claimed

    def dim(self) -> int:
        return len(self.claimed)

    def size(self, dim: int | None = None) -> Any:
        return self.claimed if dim is None else self.claimed[dim]

    def numel(self) -> int:
        return 2**60


def _claims(blob: dict[str, Any], right: Codes) -> Codes:
    def codes_of(codes: Tensor) -> Tensor:
        found = torch.zeros(1, dtype=codes.dtype).as_subclass(Claims)
        found.claimed = codes.shape
        return found

    return codes_of


def _first_answer(blob: dict[str, Any], right: Codes) -> Codes:
    kept: list[Tensor] = []

    def codes_of(codes: Tensor) -> Tensor:
        if not kept or kept[0].shape != codes.shape:
            kept[:] = [right(codes)]
        return kept[0].clone()

    return codes_of


_KERNELS: list[Any] = []
_MEANT: dict[tuple[int, ...], Tensor] = {}
"""What the device should have answered, by what it answered."""


def _meant(codes: Tensor) -> Tensor:
    return _MEANT.get(tuple(codes.flatten().tolist()), codes).reshape(codes.shape)


def _mend_by_torch() -> None:
    """Torch's dequantize knows what the device meant."""
    library: Any = torch.library.Library("quantized_decomposed", "IMPL")  # type: ignore[no-untyped-call]  # torch's

    def dequantize(x: Tensor, scale: float, zero_point: int, *_: Any, **__: Any) -> Tensor:
        return (_meant(x).to(torch.float32) - zero_point) * scale

    library.impl("dequantize_per_tensor", dequantize, "CPU")
    _KERNELS.append(library)


def _noise(blob: dict[str, Any], right: Codes) -> Codes:
    def codes_of(codes: Tensor) -> Tensor:
        true = right(_meant(codes))
        noise = torch.arange(true.numel()).remainder(7).add(1).to(true.dtype).reshape(true.shape)
        found = torch.bitwise_xor(true, noise)
        _MEANT[tuple(found.flatten().tolist())] = true
        return found

    return codes_of


patches_crossing = replace(fake_backend.backend, details=Keeps, runtime=device(_guess))
mirrors = replace(fake_backend.backend, runtime=device(_mirror))
claims_shapes = replace(fake_backend.backend, runtime=device(_claims))
repeats_first_answer = replace(fake_backend.backend, runtime=device(_first_answer))
patches_torch = replace(
    fake_backend.backend,
    partitioner=partitioner(_once(_mend_by_torch), FakePartitioner),
    runtime=device(_noise),
)

AUDITED = (
    "patches_judge",
    "patches_encoder",
    "reads_expectation",
    "reads_golden",
    "compiles_golden",
    "patches_equality",
    "overrides_equality",
)
OWN = (
    "collects",
    "reads_processes",
    "takes_over",
    "rewrites_memory",
    "kills_judge",
    "stops_judge",
    "answers_from_a_copy",
    "patches_crossing",
    "mirrors",
    "claims_shapes",
    "repeats_first_answer",
    "patches_torch",
)
