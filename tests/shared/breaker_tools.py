"""How a backend would get at what judges it: by the stack, the heap, and the code of functions."""

from __future__ import annotations

import gc
import json
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import fake_backend
import torch
from fake_backend import FakePartitioner, FakeRuntime
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import Backend, CompileSpec

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
    """The answers of a device that computes nothing."""
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
    for innermost in [sys._getframe(), *sys._current_frames().values()]:
        frame: FrameType | None = innermost
        while frame is not None:
            yield from list(frame.f_locals.values())
            frame = frame.f_back


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
    """The record of the case whose operator this node is; None for a node of no case."""
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
    """The codes that the judge expects of this operator on these codes."""
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


def do_nothing(*_: Any, **__: Any) -> None:
    return None


def always_true(*_: Any, **__: Any) -> bool:
    return True


def same_digest(*_: Any, **__: Any) -> str:
    return "0" * 64


def _cleared(result: Any) -> Any:
    import sys
    from dataclasses import replace

    status = "unspecified" if result.expect == "unspecified" else "pass"
    clean = replace(result, verdict=result.expect, failures=(), status=status)
    return sys.modules["oracle_breakers"]._ORIGINALS["to_line"](clean)


def once(deed: Callable[[], object]) -> Callable[[], None]:
    done = set[int]()

    def again() -> None:
        if os.getpid() not in done:
            done.add(os.getpid())
            deed()

    return again


def patch_judge() -> None:
    exchange("judge", _no_failures)
    exchange("tag_failures", _no_failures)
    exchange("check_delegate", do_nothing)


def patch_encoder() -> None:
    exchange("to_line", _cleared)
