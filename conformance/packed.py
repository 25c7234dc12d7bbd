"""Tensors as text, and digests of them: what goes between processes that do not trust each other with objects."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

import torch

Packed = tuple[str, list[int], str]
"""A tensor's type, shape and numbers."""


def digest(outputs: Sequence[Any]) -> str:
    """Of outputs' types, shapes and numbers, where NaN is NaN whatever its bits."""
    found = hashlib.sha256()
    for x in outputs:
        if not isinstance(x, torch.Tensor):
            found.update(type(x).__name__.encode())
            continue
        plain = x.detach().contiguous()
        if plain.is_floating_point():
            plain = torch.where(plain.isnan(), torch.full_like(plain, torch.nan), plain)
        found.update(f"{x.dtype}{tuple(x.shape)}".encode() + _numbers(plain))
    return found.hexdigest()


def packed(x: torch.Tensor) -> Packed:
    """A tensor as `unpacked` takes it."""
    return str(x.dtype).removeprefix("torch."), list(x.shape), text_of(_numbers(x))


def unpacked(dtype: str, shape: Sequence[int], numbers: str) -> torch.Tensor:
    """The tensor, in memory as torch aligns it."""
    kind = getattr(torch, dtype)
    if not numbers:
        return torch.empty(tuple(shape), dtype=kind)
    return torch.frombuffer(bytearray(data_of(numbers)), dtype=kind).reshape(tuple(shape)).clone()


def text_of(data: bytes) -> str:
    """Bytes as they go into a line of JSON."""
    return base64.b64encode(data).decode("ascii")


def data_of(text: str) -> bytes:
    """The bytes again."""
    return base64.b64decode(text)


def _numbers(x: torch.Tensor) -> bytes:
    return x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
