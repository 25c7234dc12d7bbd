"""How each ATen operator of a table looks in an edge program, after `to_edge`.

One function per family of operators that `to_edge` rewrites (views become copies, splits become
split_with_sizes_copy, 1-D pools become 2-D pools); every other operator is written as it is, with its
arguments in the form in which torch's dispatcher hands them on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import fx

from npu_assay.conformance.common.memory import keep
from npu_assay.partitioners.exir.ops import dim_order_format, edge_op

Args = Sequence[Any]
Kwargs = Mapping[str, Any]


class Emit(Protocol):
    """Appends one operator application to a graph and returns its node."""

    def __call__(self, op: str, args: Args, kwargs: Kwargs, /) -> fx.Node: ...


class Scalar(Protocol):
    """Makes the node of a number that `to_edge` lifts to a 0-d constant."""

    def __call__(self, number: float, /) -> fx.Node: ...


Output = Callable[[int], fx.Node]  # index -> node of that output
Form = Callable[[Emit, Scalar, str, Args, Kwargs], Output]


# ------------------------------------------------------------------------------------ arguments


Parameter = tuple[str, str, int | None, bool, bool, Any]


@keep(4096)
def _parameters(op: str) -> tuple[Parameter, ...]:
    """(name, type, fixed list length, keyword only, has default, default) of each schema argument."""
    schema = edge_op(op).schema
    return () if schema is None else tuple(map(_parameter, schema.arguments))


def _parameter(argument: Any) -> Parameter:
    kind, default = str(argument.type), argument.default_value
    return argument.name, kind, argument.N, argument.kwarg_only, argument.has_default_value(), default


def _same(value: Any, default: Any) -> bool:
    """Equal and of the same type, also inside lists: a 0.0 is not the default 0."""
    if isinstance(value, list) and isinstance(default, list):
        return len(value) == len(default) and all(map(_same, value, default))
    return type(value) is type(default) and bool(value == default)


def _coerced(value: Any, kind: str, length: int | None) -> Any:
    """A number for a list argument is repeated; a whole number for a float argument becomes a float."""
    if value is None or isinstance(value, fx.Node):
        return value
    if length is not None and isinstance(value, int):
        return [value] * length
    if kind in ("List[int]", "Optional[List[int]]") and isinstance(value, int):
        return [value]
    if "List[float]" in kind:
        return [float(item) for item in value]
    if kind in ("float", "Optional[float]"):
        return float(value)
    return value


def normalise(op: str, args: Args, kwargs: Kwargs) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as torch's dispatcher passes them on: bound by name, defaults at the end left out.

    Raises TypeError for arguments that the operator's schema does not have.
    """
    parameters = _parameters(op)
    positional: list[Any] = []
    defaults: list[Any] = []
    named = dict(kwargs)
    keywords: dict[str, Any] = {}
    for index, (name, kind, length, keyword_only, optional, default) in enumerate(parameters):
        given = not keyword_only and index < len(args)
        if not given and name not in named and not optional:
            raise TypeError(f"{op}: argument {name!r} is missing")
        value = args[index] if given else named.pop(name, default)
        value = _coerced(value, kind, length)
        if not keyword_only:
            positional.append(value)
            defaults.append(optional and _same(value, _coerced(default, kind, length)))
        elif not (optional and _same(value, default)):
            keywords[name] = value
    if named or len(args) > len(positional):
        raise TypeError(f"{op}: unexpected arguments {sorted(named) or list(args[len(positional) :])}")
    while defaults and defaults[-1]:
        positional.pop(), defaults.pop()
    return positional, keywords


# ------------------------------------------------------------------------------------ forms


def _single(node: fx.Node) -> Output:
    return lambda index: node


def _items(emit: Emit, node: fx.Node) -> Output:
    """All items at once, as torch's tracer unpacks them; the writer drops those that stay unused."""
    return [emit("getitem", (node, index), {}) for index in range(len(node.meta["val"]))].__getitem__


def _as_is(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    node = emit(op, *normalise(op, args, kwargs))
    return _items(emit, node) if isinstance(node.meta["val"], tuple) else _single(node)


def _arithmetic(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    """add, sub, mul and div: a number becomes a lifted constant."""
    beside = [item.meta["val"] for item in args[:2] if isinstance(item, fx.Node)]
    whole = op != "aten.div.Tensor" and not any(val.is_floating_point() for val in beside)
    lifted = [
        item
        if isinstance(item, fx.Node)
        else _lifted(emit, scalar, item, torch.result_type(beside[0], item) if whole else torch.float32)
        for item in args[:2]
    ]
    return _as_is(emit, scalar, op, [*lifted, *args[2:]], kwargs)


def _lifted(emit: Emit, scalar: Scalar, number: float, dtype: torch.dtype) -> fx.Node:
    """A number's constant; a whole number becomes an int64 constant that is converted to what is computed in."""
    node = scalar(number)
    if isinstance(number, float) or node.meta["val"].dtype == dtype:
        return node
    keywords = {"dtype": dtype, "dim_order": []}
    return emit("dim_order_ops._to_dim_order_copy.default", (node,), keywords)


def _squeeze(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    """squeeze, squeeze.dim and squeeze.dims: always the list form."""
    x, *rest = normalise(op, args, kwargs)[0]
    dims = rest[0] if rest else list(range(len(x.meta["val"].shape)))
    return _single(emit("aten.squeeze_copy.dims", (x, dims if isinstance(dims, list) else [dims]), {}))


def _unsqueeze(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    return _single(emit("aten.unsqueeze_copy.default", *normalise(op, args, kwargs)))


def _split(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    """Every split: chunk sizes written out, then one getitem per chunk that is used."""
    x, size, *dim = normalise(op, args, kwargs)[0]
    length = x.meta["val"].shape[dim[0] if dim else 0]
    if isinstance(size, int):
        size = [min(size, length - start) for start in range(0, length, size)]
    return _items(emit, emit("aten.split_with_sizes_copy.default", (x, size, *dim), {}))


def _max_pool2d(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    """max_pool2d computes its indices too; only the values are taken."""
    return _items(emit, emit("aten.max_pool2d_with_indices.default", normalise(op, args, kwargs)[0], {}))


def _pool1d(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    """A 1-D pool is a 2-D pool of height 1 between unsqueeze and squeeze."""
    x, kernel, *rest = normalise(op, args, kwargs)[0]
    stride = rest[0] if rest and rest[0] else kernel
    neutral = (0, 1)  # the height's padding and dilation
    tail = [[neutral[i], *item] if isinstance(item, list) else item for i, item in enumerate(rest[1:])]
    lists = [[1, *kernel], [1, *stride], *tail]
    image = emit("aten.unsqueeze_copy.default", (x, -2), {})
    if op == "aten.max_pool1d.default":
        name = "aten.max_pool2d_with_indices.default"
        pooled = _items(emit, emit(name, *normalise(name, (image, *lists), {})))(0)
    else:
        pooled = emit("aten.avg_pool2d.default", *normalise("aten.avg_pool2d.default", (image, *lists), {}))
    return _single(emit("aten.squeeze_copy.dims", (pooled, [-2]), {}))


def _dim_order_copy(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    return _single(emit(op, args, {key: value for key, value in kwargs.items() if value is not None}))


FORMS: Mapping[str, Form] = {
    "aten.add.Tensor": _arithmetic,
    "aten.sub.Tensor": _arithmetic,
    "aten.mul.Tensor": _arithmetic,
    "aten.div.Tensor": _arithmetic,
    "aten.squeeze.default": _squeeze,
    "aten.squeeze.dim": _squeeze,
    "aten.squeeze.dims": _squeeze,
    "aten.unsqueeze.default": _unsqueeze,
    "aten.split.default": _split,
    "aten.split.Tensor": _split,
    "aten.split_with_sizes.default": _split,
    "aten.max_pool2d.default": _max_pool2d,
    "aten.max_pool1d.default": _pool1d,
    "aten.avg_pool1d.default": _pool1d,
    "dim_order_ops._clone_dim_order.default": _dim_order_copy,
    "dim_order_ops._to_dim_order_copy.default": _dim_order_copy,
}


def edge_form(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs, *, whole: bool = False) -> Output:
    """Write `op` as `to_edge` would, or as it is when told not to decompose it; returns output index -> node."""
    form = _as_is if whole else FORMS.get(op, _as_is)
    return form(emit, scalar, op, [typed(item) for item in args], {key: typed(item) for key, item in kwargs.items()})


def layer_in_parts(emit: Emit, scalar: Scalar, op: str, args: Args, kwargs: Kwargs) -> Output:
    """Write a linear layer on matrices as `to_edge` does when nobody wants it whole."""
    x, weight, *bias = args
    turned = emit("aten.permute_copy.default", (weight, [1, 0]), {})
    given = (*(each for each in bias if each is not None), x, turned)
    return _single(emit("aten.addmm.default" if len(given) == 3 else "aten.mm.default", given, {}))


_REALS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
TYPES: Mapping[str, Any] = {str(each).removeprefix("torch."): each for each in (*_REALS, *_INTEGERS, *_FORMATS)}


def typed(argument: Any) -> Any:
    """torch's dtype or memory format for its name (plain data has names only); everything else stays."""
    return TYPES.get(argument, argument) if isinstance(argument, str) else argument


# ------------------------------------------------------------------------------------ ATen form


def returns_many(op: str) -> bool:
    """Whether the operator returns several tensors."""
    schema = edge_op(op).schema
    if schema is None:
        return False
    return len(schema.returns) > 1 or "List" in str(schema.returns[0].type)


def returns_indices(op: str, index: int) -> bool:
    """Whether a result is indices, by its name in torch's schema or by the operator's name; indices are never codes.

    What judges a backend has this from the operator's home, which the process of the backend must not load.
    """
    schema = edge_op(op).schema
    if index != 1 or schema is None or len(schema.returns) != 2:
        return False
    return bool(schema.returns[1].name == "indices" or "_with_indices" in op)


def aten_form(graph: fx.Graph, op: str, args: Args, kwargs: Kwargs) -> fx.Node:
    """The operator as a torch module calls it; a copy with a dim order is one with a memory format."""
    args, kwargs = [typed(item) for item in args], {key: typed(item) for key, item in kwargs.items()}
    if op not in DIM_ORDER_COPIES:
        return graph.call_function(edge_op(op)._op, tuple(args), kwargs)
    order = kwargs.get("dim_order")
    layout = dim_order_format(order, 0 if order is None else len(order))
    rest = {key: item for key, item in kwargs.items() if key != "dim_order"}
    return graph.call_function(DIM_ORDER_COPIES[op], tuple(args), {**rest, "memory_format": layout})


DIM_ORDER_COPIES: Mapping[str, Any] = {
    "dim_order_ops._clone_dim_order.default": torch.ops.aten.clone.default,
    "dim_order_ops._to_dim_order_copy.default": torch.ops.aten._to_copy.default,
}
