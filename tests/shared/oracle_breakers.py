"""Backends that are wrong, or implement nothing, and try to be certified all the same.

Each goes for one way in which a judge can be reached from what it judges. It looks for what it needs wherever it may
be; where nothing is to be found it lies without help: it takes every abs and neg, and its device answers zeros.
Load one as `oracle_breakers:reads_stack`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_backend
import torch
from breaker_tools import (
    SCHEME,
    Codes,
    Finder,
    Obeys,
    TakesAll,
    always_true,
    cases,
    copying,
    device,
    do_nothing,
    exchange,
    on_the_heap,
    on_the_stack,
    once,
    partitioner,
    patch_encoder,
    patch_judge,
    spoiling,
    zeros,
)
from breakers_of_answers import claims_shapes as claims_shapes
from breakers_of_answers import mirrors as mirrors
from breakers_of_answers import patches_crossing as patches_crossing
from breakers_of_answers import patches_torch as patches_torch
from breakers_of_answers import repeats_first_answer as repeats_first_answer
from fake_backend import FakeBackend, FakePartitioner
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import CompileSpec, PreprocessResult

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


patches_judge = spoiling(once(patch_judge))
patches_encoder = spoiling(once(patch_encoder))
reads_expectation = replace(fake_backend.backend, partitioner=Obeys)
reads_golden = replace(fake_backend.backend, partitioner=Obeys, details=CompilesGolden, runtime=device(_looks_up))
compiles_golden = replace(fake_backend.backend, details=CompilesGolden, runtime=device(_looks_up))
patches_equality = replace(
    fake_backend.backend,
    partitioner=partitioner(once(lambda: exchange("same", always_true)), FakePartitioner),
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
    exchange("end_copies", do_nothing)
    patch_encoder()


collects = replace(fake_backend.backend, partitioner=Collects, runtime=copying(on_the_heap))
reads_processes = replace(fake_backend.backend, partitioner=ReadsProcesses)
takes_over = spoiling(_take_over)
rewrites_memory = spoiling(once(_rewrite_memory))
kills_judge = spoiling(_stop(signal.SIGKILL))
stops_judge = spoiling(_stop(signal.SIGSTOP))
answers_from_a_copy = spoiling(once(_answer_from_a_copy))

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
