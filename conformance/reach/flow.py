"""The steps from a model to a running program, as a vendor documents them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.backend.loading import load_object
from npu_assay.partitioners.exir import Backend, run_program, to_edge_transform_and_lower

PLAIN = ("fp32", "fp16", "integers")
"""Precisions that need no quantizer."""
STATIC = ("", "int8", "static_int8", "int8_per_channel", "static_int8_per_channel")
DYNAMIC = "dynamic_int8"
"""The precisions of `Backend.quantizer`, whose weights are per channel ("": rows without a precision are int8), and of
`Backend.dynamic_quantizer`."""


class NoWay(LookupError):
    """The vendor documents no step for this precision."""


@dataclass(frozen=True)
class Lowered:
    """A lowered program. targets: its operators, by name, delegates left out; delegates: how many there are.

    handle: what `run` takes.
    """

    targets: tuple[str, ...]
    delegates: int
    handle: Any


def setting(kind: str, settings: Mapping[str, Any], lacking: str) -> Any:
    """The quantizer's setting for a precision; None if that needs no quantizer. Raises NoWay if there is no setting."""
    if kind not in (*PLAIN, *settings):
        raise NoWay(f"{lacking} for {kind or 'int8'}")
    return settings.get(kind)


class Flow(Protocol):
    """A vendor's steps. An error that they raise is the outcome of the case.

    strict: whether the vendor's documents call `torch.export` with strict=True; some quantizers read metadata that only
    strict mode writes.
    """

    strict: ClassVar[bool]

    def quantizer(self, kind: str) -> Any:
        """The quantizer of a precision; None if that needs none. Raises NoWay if there is none."""

    def lower(self, program: ExportedProgram, options: Mapping[str, Any]) -> Lowered:
        """Lower a program: edge dialect, partitioner with its options, compiler, and all other steps before a file."""

    def run(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor] | None:
        """The outputs; None if no runtime is there to run the program."""


@dataclass(frozen=True)
class OwnFlow:
    """The steps of this project's export API, with a backend's partitioner and quantizer."""

    backend: Backend
    strict: ClassVar[bool] = False

    def quantizer(self, kind: str) -> Any:
        makers = {**dict.fromkeys(STATIC, self.backend.quantizer), DYNAMIC: self.backend.dynamic_quantizer}
        known = {name: make for name, make in makers.items() if make is not None}
        make = setting(kind, known, f"found no quantizer of {self.backend.name}")
        return None if make is None else make()

    def lower(self, program: ExportedProgram, options: Mapping[str, Any]) -> Lowered:
        backend, name = self.backend, self.backend.details.__name__
        manager = to_edge_transform_and_lower(
            program, backend.passes, [backend.partitioner(**options)], details={name: backend.details}
        )
        lowered = manager.exported_program()
        return Lowered(*operators_of(lowered), lowered)

    def run(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor] | None:
        return run_program(handle, list(inputs), {self.backend.details.__name__: self.backend.runtime})


def operators_of(program: ExportedProgram) -> tuple[tuple[str, ...], int]:
    """Operators of a lowered program by name, and how many delegates it has."""
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    names = [str(getattr(node.target, "_op", node.target)).removeprefix("torch.ops.") for node in calls]
    delegates = [name for name in names if "executorch_call_delegate" in name]
    return tuple(name for name in names if name not in delegates), len(delegates)


def flow_of(backend: Backend) -> Flow:
    """The backend's own steps, or those of this project. Raises UsageError if `Backend.flow` does not exist."""
    if backend.flow is None:
        return OwnFlow(backend)
    made: Any = load_object("flow", backend.flow)
    flow: Flow = made(backend)
    return flow
