"""Static int8 and int16 on Ethos-U: ATen operators on codes, by `npu_assay.reference.arithmetic.tosa`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tosa
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.integer.operand import Given, IntegerError, QTensor, Rule, require
from npu_assay.reference.operators.home import ByName
from npu_assay.reference.operators.lookup import home


def _operands(given: Given, *names: str) -> list[QTensor]:
    found = [given[name] for name in names if given[name] is not None]
    for x in found:
        require(isinstance(x, QTensor), "operand", type(x).__name__, "codes")
    return found


def _binary(function: Callable[..., Tensor], second: str = "other") -> Rule:
    """A function of two operands on codes."""

    def rule(given: Given, y: Affine) -> Tensor:
        a, b = _operands(given, "self", second)
        require(given.get("alpha", 1) == 1, "sum", f"alpha = {given.get('alpha')}", "alpha = 1")
        return function(a.codes, b.codes, a.affine, b.affine, y)

    return rule


def _unary(function: Callable[[Tensor, Affine, Affine], Tensor]) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        (x,) = _operands(given, "self")
        return function(x.codes, x.affine, y)

    return rule


def _extreme(function: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    return _binary(lambda *operands: tosa.extreme(function, *operands))


abs_, neg = _unary(tosa.abs_), _unary(tosa.neg)
add, sub, mul = _binary(tosa.add), _binary(tosa.sub), _binary(tosa.mul)
matmul = _binary(tosa.matmul, "mat2")
maximum, minimum = _extreme(torch.maximum), _extreme(torch.minimum)


def clamp_tensor(given: Given, y: Affine) -> Tensor:
    pairs = [(x.codes, x.affine) for x in _operands(given, "self", "min", "max")]
    limits = (("min", torch.maximum), ("max", torch.minimum))
    return tosa.limited(pairs, [function for name, function in limits if given[name] is not None], y)


def _limits(lower: str | float, upper: str | float) -> Rule:
    """relu and its kin: limits are numbers, or the names of the arguments that hold them."""

    def rule(given: Given, y: Affine) -> Tensor:
        (x,) = _operands(given, "self")
        named = (given[limit] if isinstance(limit, str) else limit for limit in (lower, upper))
        low, high = (None if limit is None else float(limit) for limit in named)
        return tosa.clamp(x.codes, low, high, x.affine, y)

    return rule


relu, hardtanh, clamp = _limits(0.0, math.inf), _limits("min_val", "max_val"), _limits("min", "max")


def mean(given: Given, y: Affine) -> Tensor:
    return _total(given, y, mean=True)


def total(given: Given, y: Affine) -> Tensor:
    return _total(given, y, mean=False)


def _total(given: Given, y: Affine, *, mean: bool) -> Tensor:
    (x,) = _operands(given, "self")
    return tosa.total(x.codes, _dims(given["dim"], x.codes.dim()), given["keepdim"], x.affine, y, mean=mean)


def _dims(dim: Any, rank: int) -> list[int]:
    listed = [dim] if isinstance(dim, int) else list(dim or ())
    return [axis % max(1, rank) for axis in listed] or list(range(rank))


def _reduced(function: Callable[..., Tensor]) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        (x,) = _operands(given, "self")
        codes = function(x.codes.long(), _dims(given["dim"], x.codes.dim()), given["keepdim"])
        return tosa.requantised(codes.to(x.codes.dtype), x.affine, y)

    return rule


amax, amin = _reduced(torch.amax), _reduced(torch.amin)


def cumsum(given: Given, y: Affine) -> Tensor:
    (x,) = _operands(given, "self")
    return tosa.cumsum(x.codes, given["dim"], x.affine, y)


def _requantised(x: QTensor, y: Affine) -> Tensor:
    return tosa.requantised(x.codes, x.affine, y)


def cat(given: Given, y: Affine) -> Tensor:
    return torch.cat([_requantised(piece, y) for piece in given["tensors"]], given["dim"])


def copy(given: Given, y: Affine) -> Tensor:
    """The second operand, repeated to the shape of the first."""
    x, source = _operands(given, "self", "src")
    return _requantised(source, y).expand(x.codes.shape).contiguous()


def pad(given: Given, y: Affine) -> Tensor:
    """Padding with a number's code, or with the tensor's own elements."""
    (x,) = _operands(given, "self")
    mode, number = given.get("mode", "constant"), given.get("value") or 0.0
    if mode == "constant" and not x.affine.qmin - 0.5 <= number / x.affine.scale + x.zero_point <= x.affine.qmax + 0.5:
        wide = _requantised(x, y).long()  # the number may be a code of the result's
        return torch.constant_pad_nd(wide, list(given["pad"]), tosa.code_of(float(number), y))
    if mode == "constant":
        held = Affine(x.affine.scale, x.zero_point, *tosa.range_of(x.codes))
        moved = torch.constant_pad_nd(x.codes.long(), list(given["pad"]), tosa.code_of(float(number), held))
    else:
        moved = aten("aten.pad.default")(x.codes.double(), list(given["pad"]), mode)
    return tosa.requantised(moved.to(x.codes.dtype), x.affine, y)


def where(given: Given, y: Affine) -> Tensor:
    a, b = (_requantised(x, y) for x in _operands(given, "self", "other"))
    return torch.where(given["condition"] != 0, a, b)


def masked_fill(given: Given, y: Affine) -> Tensor:
    (x,) = _operands(given, "self")
    filled = torch.where(given["mask"] != 0, tosa.code_of(float(given["value"]), y), _requantised(x, y))
    return filled.to(x.codes.dtype)


@ByName
def moved(op: str) -> Rule:
    """Elements of the first operand, which lie one after the other, at other places; indices are whole numbers."""

    def rule(given: Given, y: Affine) -> Tensor:
        first, *rest = given
        x = given[first]
        require(isinstance(x, QTensor), op, type(x).__name__, "codes")
        arguments = {name: given[name] for name in rest if name not in _FORMS}
        return tosa.requantised(aten(op)(x.codes.contiguous(), **arguments), x.affine, y)

    return rule


_FORMS = frozenset(
    {"memory_format", "dim_order", "non_blocking", "dtype", "layout", "device", "pin_memory", "implicit"}
)


@ByName
def split(op: str) -> Callable[[Given, Affine], tuple[Tensor, ...]]:
    def rule(given: Given, y: Affine) -> tuple[Tensor, ...]:
        (x,) = _operands(given, "self")
        arguments = {name: item for name, item in given.items() if name != "self"}
        return tuple(tosa.requantised(part, x.affine, y) for part in aten(op)(x.codes, **arguments))

    return rule


def index_put(given: Given, y: Affine) -> Tensor:
    x, values = _operands(given, "self", "values")
    require(not given["accumulate"], "index_put", "accumulate", "none")
    indices = [index if index.dtype == torch.bool else index.long() for index in given["indices"]]
    made: Tensor = torch.index_put(_requantised(x, y), indices, _requantised(values, y))
    return made


@ByName
def full(op: str) -> Rule:
    """What holds numbers only: their codes."""

    def rule(given: Given, y: Affine) -> Tensor:
        arguments = {name: item for name, item in given.items() if name not in _FORMS and name != "requires_grad"}
        if "self" in arguments:
            arguments["self"] = arguments["self"].codes.float()
        return tosa.quantised(aten(op)(**arguments).to(torch.float32), y)

    return rule


# ------------------------------------------------------------------------------------ results that are no codes


def run_plain(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """An operator whose results are booleans or integers; of integers, or a comparison of codes.

    Comparisons of codes first take both to the smaller scale; with a number it is float32 reals that count. Empty
    when the result is not exact.
    """
    codes = [x for x in args if isinstance(x, QTensor)]
    if codes:
        own = home(op)
        return _compared(op, codes, args) if own is not None and own.compares else ()
    if any(isinstance(x, Tensor) and x.is_floating_point() for x in args):
        return ()
    try:
        result = aten(op)(*[list(x) if isinstance(x, tuple) else x for x in args], **kwargs)
    except (TypeError, RuntimeError) as error:
        raise IntegerError(f"{op}: {error}") from error
    outputs = (result,) if isinstance(result, Tensor) else tuple(result)
    return () if any(y.is_floating_point() for y in outputs) else outputs


def _compared(op: str, codes: Sequence[QTensor], args: Sequence[Any]) -> tuple[Tensor, ...]:
    if len(codes) == 2:
        numbers, _ = tosa.common([x.codes for x in codes], [x.affine for x in codes])
        return (aten(op)(*numbers),)
    return (aten(op)(tosa.reals_of(codes[0].codes, codes[0].affine), *args[1:]),)
