"""Out variants: for an operator that makes its results, the one that writes them into memory given to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from npu_assay.partitioners.exir.ops import EdgeOp, edge_op, with_outs

TENSOR_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})
"""Parameters that describe a result, which an out variant takes from the memory that it gets."""

# Torch has out variants of its own operators only. ExecuTorch's kernel library has these of others, named so.
QUANTIZED_OUTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "quantize_per_tensor.default": ("out", ("out",)),
    "quantize_per_tensor.tensor": ("Tensor_out", ("out",)),
    "quantize_per_channel.default": ("out", ("out",)),
    "quantize_per_token.default": ("out", ("out",)),
    "dequantize_per_tensor.default": ("out", ("out",)),
    "dequantize_per_tensor.tensor": ("Tensor_out", ("out",)),
    "dequantize_per_channel.default": ("out", ("out",)),
    "dequantize_per_token.default": ("out", ("out",)),
    "choose_qparams.tensor": ("Tensor_out", ("scale_out", "zero_point_out")),
    "choose_qparams_per_token_asymmetric.default": ("out", ("scale_out", "zero_point_out")),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a schema; `type` as torch prints it: Tensor, int, number, List[int], Optional[float], ..."""

    name: str
    type: str
    default: Any = None
    required: bool = True


@dataclass(frozen=True, slots=True)
class OutVariant:
    """An operator with parameters for its results.

    name, overload: as a kernel is registered, `aten::add` and `out`. target: what a graph calls. parameters: in the
    schema's order, those of the results last. outs: names of the results' parameters. as_list: whether there is one
    such parameter for a list of tensors. returned: how many values a call returns.
    """

    name: str
    overload: str
    target: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    outs: tuple[str, ...]
    as_list: bool = False
    returned: int = 1


def parameters_of(schema: torch.FunctionSchema) -> Iterator[Parameter]:
    """The schema's parameters, those of results included."""
    for a in schema.arguments:
        yield Parameter(a.name, str(a.type), a.default_value, not a.has_default_value())


@cache
def out_variant(name: str) -> OutVariant | None:
    """The out variant of the edge operator called `name`, or None when there is none."""
    namespace, packet, overload = name.split(".")
    if name in DIM_ORDER_OUTS:
        return _with_outs(edge_op(name), f"{namespace}::{packet}", "out", DIM_ORDER_OUTS[name], ("out",))
    op = edge_op(name)
    schema = op.schema
    if schema is None:
        return None
    if namespace == "quantized_decomposed":
        known = QUANTIZED_OUTS.get(f"{packet}.{overload}")
        if known is None:
            return None
        parameters = tuple(parameters_of(schema))
        if packet == "dequantize_per_tensor" and all(p.name != "out_dtype" for p in parameters):
            parameters += (Parameter("out_dtype", "Optional[int]", None, False),)
        return _with_outs(op, f"{namespace}::{packet}", known[0], parameters, known[1])
    functional = op._op
    assert isinstance(functional, OpOverload)  # it has a schema
    found = with_outs(functional) or with_outs(functional, TENSOR_OPTIONS)
    return None if found is None else _from_torch(found)


DIM_ORDER_OUTS: dict[str, tuple[Parameter, ...]] = {
    "dim_order_ops._clone_dim_order.default": (
        Parameter("self", "Tensor"),
        Parameter("non_blocking", "bool", False, False),
        Parameter("dim_order", "Optional[List[int]]", None, False),
    ),
    "dim_order_ops._to_dim_order_copy.default": (
        Parameter("self", "Tensor"),
        Parameter("non_blocking", "bool", False, False),
        Parameter("dim_order", "Optional[List[int]]", None, False),
    ),
    "dim_order_ops._empty_dim_order.default": (
        Parameter("size", "List[int]"),
        Parameter("dim_order", "Optional[List[int]]", None, False),
    ),
}


def _with_outs(
    op: EdgeOp, name: str, overload: str, parameters: Sequence[Parameter], outs: tuple[str, ...]
) -> OutVariant:
    """An out variant made of an operator that has none in torch: it computes, then copies."""
    takes = {p.name for p in parameters}
    dtype_from_out = "dtype" not in takes and op.__name__.startswith("dim_order_ops")

    def run(*args: Any, **kwargs: Any) -> Any:
        given = [kwargs.pop(out) for out in outs]
        if dtype_from_out:
            kwargs["dtype"] = given[0].dtype
        if kwargs.get("out_dtype", ()) is None:
            del kwargs["out_dtype"]
        results = op(*args, **kwargs)
        for out, result in zip(given, results if len(outs) > 1 else (results,), strict=True):
            out.resize_(result.shape).copy_(result)
        return tuple(given) if len(outs) > 1 else given[0]

    target = EdgeOp(f"{name.replace('::', '.')}.{overload}", run)
    every = (*parameters, *(Parameter(out, "Tensor") for out in outs))
    return OutVariant(name, overload, target, every, outs, returned=len(outs))


def _from_torch(op: OpOverload) -> OutVariant:
    schema = op._schema
    outs = [a for a in schema.arguments if a.is_out]
    as_list = str(outs[0].type) == "List[Tensor]"
    return OutVariant(
        schema.name,
        schema.overload_name,
        op,
        tuple(parameters_of(schema)),
        tuple(a.name for a in outs),
        as_list,
        len(schema.returns),
    )


@cache
def plain(op: OpOverload) -> OutVariant:
    """An operator that is called as it is, such as `aten.sym_size.int` or `aten.copy_.default`."""
    schema = op._schema
    return OutVariant(
        schema.name, schema.overload_name, op, tuple(parameters_of(schema)), (), returned=len(schema.returns)
    )
