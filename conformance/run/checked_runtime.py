"""A runtime that is not trusted, and what it does besides answering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from npu_assay.conformance.run.question import Handed
from npu_assay.partitioners.exir import CompileSpec, Runtime


def same(a: Tensor, b: Tensor) -> bool:
    """Equal, where NaN equals NaN."""
    if torch.equal(a, b) or not a.is_floating_point():
        return torch.equal(a, b)
    nan = a.isnan()
    return torch.equal(nan, b.isnan()) and torch.equal(a.masked_fill(nan, 0.0), b.masked_fill(nan, 0.0))


@dataclass(frozen=True)
class _Loaded:
    """What a runtime made of a blob, and the blob."""

    handle: Any
    blob: bytes
    specs: tuple[CompileSpec, ...]


@dataclass
class CheckedRuntime:
    """A runtime that is not trusted: notes when it changes its inputs, and tells what it was given and answered."""

    inner: Runtime
    handed: Callable[[Handed], None]
    changed: bool = False

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> _Loaded:
        return _Loaded(self.inner.load(processed_bytes, compile_specs), processed_bytes, tuple(compile_specs))

    def execute(self, loaded: _Loaded, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Copies of the outputs, made before anything else: a thread of the backend may go on writing them."""
        given = [tensor.clone() for tensor in inputs]
        outputs = [x.clone() if isinstance(x, Tensor) else x for x in self.inner.execute(loaded.handle, inputs)]
        for before, after in zip(given, inputs, strict=True):
            if not same(before, after):
                self.changed = True
                after.copy_(before)  # other cases have the same tensors
        specs = tuple((spec.key, bytes(spec.value)) for spec in loaded.specs)
        self.handed(Handed(loaded.blob, specs, tuple(given), tuple(outputs)))
        return outputs
