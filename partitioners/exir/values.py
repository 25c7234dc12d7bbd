"""The values in `node.meta["val"]`: tensors without data, computed by running operators on shapes alone."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensor, FakeTensorMode

from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, target_name

_CODES = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32})
_CPU = torch.device("cpu")


def fake_like(value: torch.Tensor, mode: FakeTensorMode, dtype: torch.dtype | None = None) -> FakeTensor:
    """A CPU tensor without data with `value`'s shape and strides."""
    dtype = value.dtype if dtype is None else dtype
    meta = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device="meta")
    return FakeTensor(mode, meta, _CPU)


def fake_mode_of(graph: fx.Graph) -> FakeTensorMode | None:
    """The mode of the first fake tensor among the graph's values, or None."""
    for node in graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (list, tuple)) else (values,):
            if isinstance(value, FakeTensor):
                return value.fake_mode
    return None


def arguments(node: fx.Node, value: Callable[[fx.Node], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The node's arguments with every node in them replaced by its value."""
    args: Any = fx.node.map_arg(node.args, value)
    kwargs: Any = fx.node.map_arg(node.kwargs, value) if node.kwargs else {}
    return args, kwargs


def node_value(node: fx.Node, mode: FakeTensorMode) -> Any:
    """The value of a call_function node, computed on the values of its arguments.

    Quantize and dequantize of dense tensors are elementwise, which is decided here: torch runs
    their decomposition operator by operator, at ten times the cost.
    """
    args, kwargs = arguments(node, lambda n: n.meta["val"])
    name = target_name(node.target)
    dtype = _elementwise_dtype(name, args, kwargs)
    if dtype is not None:
        return fake_like(args[0], mode, dtype)
    if node.target is operator.getitem:
        return args[0][args[1]]
    # Kernels in C++ do not all know open sizes; torch's Python dispatcher knows where to go instead.
    dispatcher = enable_python_dispatcher() if _is_open((*args, *kwargs.values())) else nullcontext()
    with mode, dispatcher:
        return node.target(*args, **kwargs)  # type: ignore[operator]  # call_function targets are callable


def _elementwise_dtype(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.dtype | None:
    """Result type of a quantize or dequantize in its usual spelling, else None. Raises ValueError for wrong codes."""
    if (name not in QUANTIZE and name not in DEQUANTIZE) or kwargs or len(args) < 6 or not _is_dense(args[0]):
        return None
    *_, low, high, codes = args
    if codes not in _CODES:
        return None
    if low < torch.iinfo(codes).min or high > torch.iinfo(codes).max:
        raise ValueError(f"codes {low}..{high} do not fit {codes}")
    if name in DEQUANTIZE and args[0].dtype != codes:
        raise ValueError(f"{args[0].dtype} tensor given, {codes} named")
    if name in QUANTIZE and args[0].dtype != torch.float32:
        return None
    return codes if name in QUANTIZE else torch.float32


def _is_open(values: Sequence[object]) -> bool:
    """Whether there is a tensor of dynamic shape among the arguments, or a symbolic size."""
    return any(
        _is_open(v)
        if isinstance(v, (list, tuple))
        else isinstance(v, torch.SymInt) or (isinstance(v, FakeTensor) and v._has_symbolic_sizes_strides)
        for v in values
    )


def _is_dense(value: object) -> bool:
    """Whether it is a tensor of static shape whose elements fill their memory."""
    return (
        isinstance(value, FakeTensor)
        and not value._has_symbolic_sizes_strides
        and torch._prims_common.is_non_overlapping_and_dense_or_false(value)
    )


def fill_values(
    graph: fx.Graph, tensors: Mapping[str, torch.Tensor] | None = None, mode: FakeTensorMode | None = None
) -> None:
    """Give every node that has none its `meta["val"]`.

    `tensors` holds a tensor per placeholder name; only shape, strides and type are used. Raises
    EdgeError for a placeholder without a tensor and for a node whose arguments its operator refuses.
    """
    tensors = {} if tensors is None else tensors
    mode = mode or fake_mode_of(graph) or FakeTensorMode()
    for node in graph.nodes:
        if "val" in node.meta or node.op in ("output", "get_attr"):
            continue
        if node.op == "placeholder":
            node.meta["val"] = _placeholder_value(node, tensors, mode)
        else:
            node.meta["val"] = checked_value(node, mode)


def _placeholder_value(node: fx.Node, tensors: Mapping[str, torch.Tensor], mode: FakeTensorMode) -> FakeTensor:
    if node.name not in tensors:
        raise EdgeError("placeholder of unknown shape", "no tensor for it", "meta['val'] or a tensor", node.name)
    return fake_like(tensors[node.name], mode)


def checked_value(node: fx.Node, mode: FakeTensorMode) -> Any:
    """`node_value`, with an EdgeError that names the node when its operator refuses the arguments."""
    try:
        return node_value(node, mode)
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        found = ", ".join(describe(a.meta["val"]) if isinstance(a, fx.Node) else repr(a) for a in node.args)
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise EdgeError(
            f"{target_name(node.target)} refuses its arguments ({reason})",
            f"({found})",
            "arguments that fit its schema",
            node.name,
        ) from error


def describe(value: object) -> str:
    """`float32[1, 8, 4, 4]` for a tensor, the type's name for anything else."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__
