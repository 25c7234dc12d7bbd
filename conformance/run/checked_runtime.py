"""A runtime that is not trusted, and what it does besides answering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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


INPUTS = "the runtime changed the tensors that it was given"
OUTPUTS = "the runtime changed outputs that it had returned before"


@dataclass
class CheckedRuntime:
    """A runtime that is not trusted: notes what it writes besides outputs, and tells what it was given and answered.

    `wrote` has INPUTS, or OUTPUTS: results that it answered an earlier call with, which may still be needed.
    """

    inner: Runtime
    handed: Callable[[Handed], None]
    wrote: list[str] = field(default_factory=list)
    _returned: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> _Loaded:
        return _Loaded(self.inner.load(processed_bytes, compile_specs), processed_bytes, tuple(compile_specs))

    def execute(self, loaded: _Loaded, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Copies of the outputs, made before anything else: a thread of the backend may go on writing them."""
        given = [tensor.clone() for tensor in inputs]
        answered = list(self.inner.execute(loaded.handle, inputs))
        outputs = [x.clone() if isinstance(x, Tensor) else x for x in answered]
        for before, after in zip(given, inputs, strict=True):
            if not same(before, after):
                self.wrote.append(INPUTS)
                after.copy_(before)  # other cases have the same tensors
        if not all(same(*pair) for pair in self._returned):
            self.wrote.append(OUTPUTS)
        self._returned += [pair for pair in zip(answered, outputs, strict=True) if _on_host(pair[0])]
        specs = tuple((spec.key, bytes(spec.value)) for spec in loaded.specs)
        self.handed(Handed(loaded.blob, specs, tuple(given), tuple(outputs)))
        return outputs


def _on_host(x: object) -> bool:
    """Whether it is a plain tensor, whose numbers can be compared; an untrusted backend may return anything."""
    return type(x) is Tensor and x.layout is torch.strided and x.device.type == "cpu"
