"""Backends that go for what crosses between their process and the judge: blobs, tensors, answers."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import fake_backend
import torch
from breaker_tools import Codes, device, exchange, once, partitioner, same_digest, zeros
from fake_backend import FakeBackend, FakePartitioner
from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import CompileSpec, PreprocessResult

# ------------------------------------------------------------------------------------ what crosses


def _guess(blob: dict[str, Any], right: Codes) -> Codes:
    """It is known what to compute only where it was compiled."""
    _patch_digests()
    return right if (blob["op"], os.getpid()) in _COMPILED else zeros


_patch_digests = once(lambda: exchange("digest", same_digest))


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
"""The right answer of the device, by its wrong one."""


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
    partitioner=partitioner(once(_mend_by_torch), FakePartitioner),
    runtime=device(_noise),
)
