"""Edge dialect operators: one cached object per ATen overload, named as the vendors' tables name it.

An edge operator prints as ``aten.add.Tensor`` and gives its nodes the name ``aten_add_tensor``.
Compare operators by name (`target_name`), never by identity: the same code then also reads graphs
whose targets are plain `torch.ops` overloads or another implementation's edge operators.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import torch

# Importing the module registers torch.ops.quantized_decomposed.*.
import torch.ao.quantization.fx._decomposed
from torch._ops import OpOverload

QUANTIZE_PER_TENSOR = "quantized_decomposed.quantize_per_tensor.default"
QUANTIZE_PER_CHANNEL = "quantized_decomposed.quantize_per_channel.default"
DEQUANTIZE_PER_TENSOR = "quantized_decomposed.dequantize_per_tensor.default"
DEQUANTIZE_PER_CHANNEL = "quantized_decomposed.dequantize_per_channel.default"
QUANTIZE = frozenset({QUANTIZE_PER_TENSOR, QUANTIZE_PER_CHANNEL})
DEQUANTIZE = frozenset({DEQUANTIZE_PER_TENSOR, DEQUANTIZE_PER_CHANNEL})
# Quantization whose parameters are computed by the program, and weights with a scale per group.
CHOOSE_QPARAMS_PER_TENSOR = "quantized_decomposed.choose_qparams.tensor"
CHOOSE_QPARAMS_PER_TOKEN = "quantized_decomposed.choose_qparams_per_token_asymmetric.default"
QUANTIZE_PER_TENSOR_DYNAMIC = "quantized_decomposed.quantize_per_tensor.tensor"
QUANTIZE_PER_TOKEN = "quantized_decomposed.quantize_per_token.default"
DEQUANTIZE_PER_TENSOR_DYNAMIC = "quantized_decomposed.dequantize_per_tensor.tensor"
DEQUANTIZE_PER_TOKEN = "quantized_decomposed.dequantize_per_token.default"
DEQUANTIZE_PER_GROUP = "quantized_decomposed.dequantize_per_channel_group.default"
CHOOSE_QPARAMS = frozenset({CHOOSE_QPARAMS_PER_TENSOR, CHOOSE_QPARAMS_PER_TOKEN})
QUANTIZE_DYNAMIC = frozenset({QUANTIZE_PER_TENSOR_DYNAMIC, QUANTIZE_PER_TOKEN})
DEQUANTIZE_DYNAMIC = frozenset({DEQUANTIZE_PER_TENSOR_DYNAMIC, DEQUANTIZE_PER_TOKEN})
GETITEM = "getitem"
CALL_DELEGATE = "executorch_call_delegate"


class EdgeOp:
    """An operator of the edge dialect; calling it runs the wrapped function.

    `_op` is the wrapped `torch._ops.OpOverload`, or a plain function for the `dim_order_ops`
    operators, which torch does not have.
    """

    __module__ = "npu_assay.partitioners.exir.ops"

    def __init__(self, name: str, op: Callable[..., Any]) -> None:
        self.__name__ = self.__qualname__ = name
        self._op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __repr__(self) -> str:
        return self.__name__

    def __deepcopy__(self, memo: dict[int, Any]) -> EdgeOp:
        return self

    def __getattr__(self, name: str) -> Any:
        # What an edge operator does not have itself (name(), tags, namespace, ...), it has from torch's.
        if name.startswith("__") or "_op" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._op, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (edge_op, (self.__name__,))

    def to_out_variant(self) -> OpOverload:
        """The torch operator that writes the same result into memory given by name.

        Raises ValueError when torch has none.
        """
        found = with_outs(self._op) if isinstance(self._op, OpOverload) else None
        if found is None:
            raise ValueError(f"{self.__name__} has no out variant")
        return found

    @property
    def _schema(self) -> torch.FunctionSchema:
        """The ATen schema. Raises AttributeError for a `dim_order_ops` operator, which has none."""
        if self.schema is None:
            raise AttributeError(f"{self.__name__} has no schema")
        return self.schema

    @property
    def schema(self) -> torch.FunctionSchema | None:
        """The ATen schema, or None for a `dim_order_ops` operator."""
        return self._op._schema if isinstance(self._op, OpOverload) else None


def with_outs(op: OpOverload, without: Collection[str] = ()) -> OpOverload | None:
    """The overload of the same packet that has the same parameters, but for some, and takes the results' memory.

    `aten.add.out` for `aten.add.Tensor`; None when torch has none.
    """
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if a.name not in without]
    # By `getattr`, as `__getattr__` makes overloads anew, in the place of those that others hold already.
    for overload in (getattr(op.overloadpacket, name) for name in op.overloadpacket.overloads()):
        found = [(a.name, str(a.type)) for a in overload._schema.arguments if not a.is_out]
        if found == wanted and len(found) < len(overload._schema.arguments):
            variant: OpOverload = overload
            return variant
    return None


def dim_order_format(dim_order: list[int] | None, rank: int) -> torch.memory_format:
    """Memory format of a dim order (axes from outermost to innermost); None keeps the input's.

    Raises ValueError for an order that is neither contiguous nor channels-last.
    """
    if dim_order is None:
        return torch.preserve_format
    if list(dim_order) == list(range(rank)):
        return torch.contiguous_format
    if list(dim_order) == [0, *range(2, rank), 1]:
        return torch.channels_last if rank == 4 else torch.channels_last_3d
    raise ValueError(f"dim_order {dim_order} of a rank-{rank} tensor is neither contiguous nor channels-last")


def _clone_dim_order(
    x: torch.Tensor, *, non_blocking: bool = False, dim_order: list[int] | None = None
) -> torch.Tensor:
    return torch.clone(x, memory_format=dim_order_format(dim_order, x.dim()))


def _to_dim_order_copy(
    x: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    dim_order: list[int] | None = None,
) -> torch.Tensor:
    return x.to(dtype or x.dtype, copy=True, memory_format=dim_order_format(dim_order, x.dim()))


def _empty_dim_order(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    dim_order: list[int] | None = None,
) -> torch.Tensor:
    order = None if dim_order is None else dim_order_format(dim_order, len(size))
    return torch.empty(size, dtype=dtype, memory_format=order)


_DIM_ORDER_OPS: dict[str, Callable[..., Any]] = {
    "dim_order_ops._clone_dim_order.default": _clone_dim_order,
    "dim_order_ops._empty_dim_order.default": _empty_dim_order,
    "dim_order_ops._to_dim_order_copy.default": _to_dim_order_copy,
}


def is_dim_order_op(name: str) -> bool:
    """Whether it is the name of one of the operators that state dim orders."""
    return name in _DIM_ORDER_OPS


def find_overload(name: str) -> OpOverload | None:
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, OpOverload) else None


@cache
def edge_op(name: str) -> EdgeOp:
    """The edge operator called `name` ("namespace.operator.overload"); the same object every time.

    Raises ValueError when torch has no such operator.
    """
    if name in _DIM_ORDER_OPS:
        return EdgeOp(name, _DIM_ORDER_OPS[name])
    found = find_overload(name)
    if found is None:
        raise ValueError(f"no operator {name!r}: {_wanted(name)}")
    return EdgeOp(name, found)


def _wanted(name: str) -> str:
    """What an unknown operator's name should be, or who should have registered it."""
    namespace = name.partition(".")[0]
    if name.count(".") == 2 and namespace not in ("aten", "prims", "dim_order_ops"):
        return f"nothing in this process registers it with torch: import the package that defines {namespace!r}"
    return "expected namespace.operator.overload, e.g. aten.add.Tensor"


def to_edge_op(target: OpOverload) -> EdgeOp:
    """The edge operator of a `torch.ops` overload."""
    return edge_op(to_edge_op_name(target))


def target_name(target: Any) -> str:
    """The table name of a node's target, whatever kind of object the target is.

    `aten.add.Tensor` for edge operators (ours or ExecuTorch's) and for torch overloads alike;
    the bare function name for builtins (`getitem`) and higher-order operators.
    """
    if isinstance(target, EdgeOp):
        return target.__name__
    if isinstance(target, OpOverload):
        return to_edge_op_name(target)
    if target is operator.getitem:
        return GETITEM
    if isinstance(target, str):
        return target
    return str(getattr(target, "__name__", target))


def to_edge_op_name(target: OpOverload) -> str:
    """`aten.add.Tensor` for `torch.ops.aten.add.Tensor`."""
    return str(target)


_WORD = re.compile("(?<=[a-z])(?=[A-Z])")


def node_name(name: str) -> str:
    """The graph node name of an edge operator, as torch.fx writes it.

    `aten.add.Tensor` -> `aten_add_tensor`, `aten.sum.dim_IntList` -> `aten_sum_dim_int_list`.
    """
    return _WORD.sub("_", name.replace(".", "_")).lower()
