"""Tensors as dtype, shape and bytes, for other processes, and digests of tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from npu_assay.conformance.common.describing import type_name

Packed = tuple[str, tuple[int, ...], bytes]
"""A tensor's dtype, shape, and numbers in row-major order."""


def digest(outputs: Sequence[Any]) -> str:
    """The sha256 of outputs' dtypes, shapes and numbers; all NaN have the same bits in it."""
    found = hashlib.sha256()
    for x in outputs:
        if not isinstance(x, torch.Tensor):
            found.update(type_name(x).encode())
            continue
        plain = x.detach().contiguous()
        if plain.is_floating_point():
            plain = torch.where(plain.isnan(), torch.full_like(plain, torch.nan), plain)
        found.update(f"{x.dtype}{tuple(x.shape)}".encode() + _numbers(plain))
    return found.hexdigest()


def pack(x: torch.Tensor) -> Packed:
    """A tensor in the form that `unpack` reads."""
    return str(x.dtype).removeprefix("torch."), tuple(x.shape), _numbers(x)


def unpack(packed: Packed) -> torch.Tensor:
    """The tensor that `pack` was given."""
    dtype, shape, numbers = packed
    kind = getattr(torch, dtype)
    if not numbers:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(bytearray(numbers), dtype=kind).reshape(shape)


def _numbers(x: torch.Tensor) -> bytes:
    return x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
