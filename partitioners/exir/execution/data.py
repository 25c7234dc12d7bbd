"""Bytes of a program: those of tensors, those that delegates want stored, and how inputs and outputs nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.utils._pytree import TreeSpec, treespec_dumps

from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.execution.table import value_code
from npu_assay.partitioners.exir.pte.model import Buffer


def check_plain(tensor: torch.Tensor, where: str) -> None:
    """Refuse tensors whose elements do not lie in this machine's memory one by one. Raises ExirError."""
    kinds = {
        f"on device {tensor.device}": tensor.device.type != "cpu",
        "without data": isinstance(tensor, FakeTensor),
        "a nested tensor": tensor.is_nested,
        f"of layout {tensor.layout}": tensor.layout != torch.strided,
        "quantized": tensor.is_quantized,
        f"of type {tensor.dtype}": value_code(tensor.dtype) is None,
    }
    found = [kind for kind, is_so in kinds.items() if is_so]
    if found:
        raise ExirError("tensor that no program file can hold", found[0], "a dense one of plain numbers", where)


def tensor_bytes(tensor: torch.Tensor, dim_order: Sequence[int]) -> Buffer:
    """The elements, with the axes in this order in memory."""
    ordered = tensor.detach().resolve_conj().resolve_neg().permute(tuple(dim_order)).contiguous()
    if ordered.numel() == 0:
        return b""
    return memoryview(ordered.reshape(-1).view(torch.uint8).numpy().data).toreadonly()


def named_data(lowered: Any, where: str) -> dict[str, Buffer]:
    """Data that a delegate wants stored beside its blob, by name.

    A backend gives a mapping from name to bytes, or ExecuTorch's record of such data. Raises ExirError for others.
    """
    store = getattr(lowered, "named_data_store_output", None)
    if store is None:
        return {}
    if isinstance(store, Mapping) and all(isinstance(v, (bytes, memoryview)) for v in store.values()):
        return dict(store)
    entries, buffers = getattr(store, "pte_data", None), getattr(store, "buffers", None)
    if isinstance(entries, Mapping) and buffers is not None and not getattr(store, "external_data", None):
        return {key: buffers[entry.buffer_index].buffer for key, entry in entries.items()}
    raise ExirError("data store of an unknown form", type(store).__name__, "a mapping from name to bytes", where)


def merge(named: dict[str, Buffer], more: Mapping[str, Buffer]) -> None:
    """Add data by name. Raises ExirError for a name that has other data already."""
    for key, data in more.items():
        if key in named and named[key] != data:
            raise ExirError("different data of one name", key, "equal data", "named data")
        named[key] = data


def nesting(spec: TreeSpec | None) -> str:
    """How inputs or outputs nest, in JSON; "" for containers that have no JSON form."""
    if spec is None:
        return ""
    try:
        return treespec_dumps(spec)
    except NotImplementedError:
        return ""
