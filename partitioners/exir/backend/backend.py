"""The `Backend` that a vendor gives to the suite, and its parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch

from npu_assay.partitioners.exir.backend.backend_details import BackendDetails, NoCompiler
from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec
from npu_assay.partitioners.exir.errors import BackendError


class Runtime(Protocol):
    """A device, real or simulated, that executes what `preprocess` wrote.

    A handle whose attribute `inputs` is a sequence says by its length how many inputs the blob takes.
    """

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        """Parse and check the blob once; the handle is what `execute` takes."""

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run a loaded blob. Inputs and outputs are in the order of the delegated subgraph.

        Inputs stay as they are, and so do outputs when it runs again: a program, or a user, may still need them.
        """


class NoRuntime:
    """The runtime of a backend without one: its programs can be compiled but not run."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        """Raises BackendError."""
        raise BackendError("missing runtime", "none", "a backend with a runtime", "load")

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Raises BackendError."""
        raise BackendError("missing runtime", "none", "a backend with a runtime", "execute")


@runtime_checkable
class NamedDataRuntime(Protocol):
    """A runtime that can also load a blob which only names some of its data."""

    def load_named(
        self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec], named_data: Mapping[str, bytes]
    ) -> Any:
        """As `Runtime.load`; `named_data` has the program's named data, which it stores apart from blobs."""


@dataclass(frozen=True)
class Rejection:
    """Why a partitioner rejects a node: the constraint's id (`code`), what it found, and the constraint in words."""

    node: str
    target: str
    code: str
    found: str
    sentence: str


class ConstantPass(ABC):
    """A pass that also reads constants. Tensors that it attaches to the module, for get_attr, become buffers."""

    @abstractmethod
    def __call__(self, module: torch.fx.GraphModule, constants: Mapping[str, torch.Tensor]) -> Any:
        """Edit the module. `constants` holds parameters and buffers that are never written, by placeholder name."""


@dataclass(frozen=True)
class BlobCheck:
    """A further tool that can refuse a compiled blob, such as the vendor's own compiler.

    distribution: the package that it needs. refusal: returns why it refuses a blob, or "" if it accepts it.
    """

    distribution: str
    refusal: Callable[[bytes, Sequence[CompileSpec]], str]


Pass = Callable[[torch.fx.GraphModule], Any] | ConstantPass


@dataclass(frozen=True)
class Backend:
    """A backend under test. Register it in the entry-point group `npu_assay.backends`.

    One without a runtime, or without a compiler and a runtime, can be certified as far as it goes:
    `assay certify --level compiles`, `--level tags`.

    `partitioner` makes a fresh Partitioner, from the keyword arguments that a case's options name (none for most
    cases); when it has an attribute `rejections` (a list of `Rejection`, refilled by every call of `partition`),
    the suite checks the reasons as well.
    `passes` are the edge passes that the vendor's flow runs before partitioning; they must keep
    the program's meaning and copy `node.meta` to the nodes that replace a node.
    `quantizer` makes its quantizer for PT2E, `dynamic_quantizer` one for dynamic quantization.
    `distributions` are the installed packages that it uses; a certificate states their versions.
    `stands_in` maps the name of a part that is not the vendor's own to a sentence about what replaces it; a
    certificate states it with the versions.
    `blob_checks` are tools, by name, that a run can ask for (`assay certify --with-NAME`).
    `blob_operators` names the operators in a compiled blob, in their order, for `assay inspect`.
    `processes` is how many child processes it may keep from case to case, such as a simulator that it talks to;
    any other process that a case leaves running is a failure.
    `flow` names the vendor's own steps from an nn.Module to a running program, as `module:attribute`, for
    `assay reach`; without it they are those of this export API.
    `faults` names the catalogue of broken copies of the backend, as `module:attribute`, for `assay mutate`.
    """

    name: str
    table: str
    partitioner: Callable[..., Any]
    details: type[BackendDetails] = NoCompiler
    runtime: Runtime = field(default_factory=NoRuntime)
    quantizer: Callable[[], Any] | None = None
    passes: Sequence[Pass] = field(default=())
    distributions: Sequence[str] = field(default=())
    blob_checks: Mapping[str, BlobCheck] = field(default_factory=dict)
    blob_operators: Callable[[bytes], Sequence[str]] | None = None
    processes: int = 0
    faults: str | None = None
    dynamic_quantizer: Callable[[], Any] | None = None
    flow: str | None = None
    stands_in: Mapping[str, str] = field(default_factory=dict)
