"""A runtime that is not trusted, and what it does besides answering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from npu_assay.conformance.packed import digest
from npu_assay.partitioners.exir import CompileSpec, Runtime


class Elsewhere(Protocol):
    """Another process, with the runtime and without what compilers left behind."""

    def elsewhere(self, blob: bytes, specs: Sequence[CompileSpec], inputs: Sequence[Tensor]) -> tuple[str, str | None]:
        """The digest of what a blob gives there, or why there is none."""


def same(a: Tensor, b: Tensor) -> bool:
    """Equal, where NaN equals NaN."""
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))


def _alike(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether two answers are the same, as far as they are tensors; what is none fails anyhow."""
    return len(some) == len(others) and all(
        type(a) is type(b) and (not isinstance(a, Tensor) or (a.dtype == b.dtype and same(a, b)))
        for a, b in zip(some, others, strict=True)
    )


@dataclass(frozen=True)
class _Loaded:
    """What a runtime made of a blob, and the blob."""

    handle: Any
    blob: bytes
    specs: tuple[CompileSpec, ...]


@dataclass
class Watched:
    """A runtime that is not trusted: notes when it changes its inputs, or answers the same question differently.

    elsewhere: a process to ask as well that has nothing but the blob.
    """

    inner: Runtime
    elsewhere: Elsewhere | None = None
    changed: bool = False
    wavering: bool = False
    bound: str = ""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> _Loaded:
        return _Loaded(self.inner.load(processed_bytes, compile_specs), processed_bytes, tuple(compile_specs))

    def execute(self, loaded: _Loaded, inputs: Sequence[Tensor]) -> list[Tensor]:
        given = [tensor.clone() for tensor in inputs]
        kept = self._once(loaded.handle, inputs, given)
        again = self._once(loaded.handle, inputs, given)
        self.wavering |= not _alike(kept, again)
        if self.elsewhere is not None:
            self._ask(self.elsewhere, loaded, given, kept)
        return kept

    def _once(self, handle: Any, inputs: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
        """Copies of the outputs, made before anything else: a thread of the backend may go on writing them."""
        outputs = [x.clone() if isinstance(x, Tensor) else x for x in self.inner.execute(handle, inputs)]
        for before, after in zip(given, inputs, strict=True):
            if not same(before, after):
                self.changed = True
                after.copy_(before)  # other cases, and this one's golden, have the same tensors
        return outputs

    def _ask(self, elsewhere: Elsewhere, loaded: _Loaded, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        found, refused = elsewhere.elsewhere(loaded.blob, loaded.specs, inputs)
        if refused is not None:
            self.bound = f"does not run in a process that did not compile it: {refused}"
        elif found != digest(outputs):
            self.bound = "gives other outputs in a process that did not compile it"
