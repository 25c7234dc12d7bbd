"""A backend's compiler, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec
from npu_assay.partitioners.exir.errors import BackendError

Method = TypeVar("Method", bound=Callable[..., Any])


def enforcedmethod(func: Method) -> Method:
    """Mark a method that every concrete subclass has to implement, as a decorator. Returns the method itself.

    In a class of `abc` a subclass without it cannot be instantiated (TypeError), with `abstractmethod` beside it or
    not. Compilers are never instantiated: `to_backend` refuses those without it, see `unimplemented`.
    """
    marked: Any = func
    marked.__enforcedmethod__ = True
    marked.__isabstractmethod__ = True
    return func


def unimplemented(cls: type) -> list[str]:
    """The names of the enforced methods that the class does not implement."""
    return sorted(getattr(cls, "__abstractmethods__", ()))


@dataclass(frozen=True)
class PreprocessResult:
    """What a backend's compiler returns: the blob its runtime loads, and optional debug data.

    data_store_output: data that a program file stores beside the blob, by name; equal data of several methods are
    stored once.
    """

    processed_bytes: bytes = b""
    debug_handle_map: dict[int, tuple[int, ...]] | None = None
    data_store_output: Any = None


class BackendDetails(ABC):
    """A backend's compiler. Subclass it directly; the class name is the backend id."""

    @staticmethod
    @enforcedmethod
    @abstractmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compile one delegated subgraph (edge dialect) to bytes."""

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: Mapping[str, Sequence[ExportedProgram]],
        compile_specs: Mapping[str, Sequence[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Compile all delegates of several methods at once: by method name, in the order of their calls.

        `compile_specs` has a list of CompileSpec for each program. By default each program is compiled on its own; a
        backend that lets delegates share data overrides this.
        """
        return {
            method: [cls.preprocess(p, s) for p, s in zip(programs, compile_specs[method], strict=True)]
            for method, programs in edge_programs.items()
        }


class NoCompiler(BackendDetails):
    """The compiler of a backend without one: its partitioner can tag programs, but nothing can be compiled."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Raises BackendError."""
        raise BackendError("missing compiler", "none", "a backend with a compiler", "preprocess")


def compilers() -> list[type[BackendDetails]]:
    """The compilers that have been imported, in that order; each is found by its class name."""
    return [details for details in BackendDetails.__subclasses__() if details is not NoCompiler]
