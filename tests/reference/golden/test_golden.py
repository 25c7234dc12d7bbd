"""The float golden: bounds hold, are not looser than they say, and the error bound of every scheme is its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from golden_programs import F64, IMAGE, inexact, numbers
from torch import Tensor

from npu_assay.reference import onnx_golden
from npu_assay.reference.golden import (
    OPERATORS,
    ZERO,
    Bounded,
    GoldenError,
    canonical,
    run,
    run_float32,
    values,
)
from npu_assay.reference.operators import HOMES, WITH_CASES
from npu_assay.reference.operators.home import REALS

OTHER = inexact(2, 2, 4, 6, 6)
POSITIVE = Bounded(IMAGE.value.abs() + 0.5, IMAGE.error)
FRACTION = Bounded(IMAGE.value.tanh() * 0.6, IMAGE.error)
MATRIX = inexact(4, 3, 5)
WHOLE = Bounded(numbers(3, 3, 5, spread=40.0).round())
SOME = Bounded(IMAGE.value.clamp_min(0), IMAGE.error)
TRUTH = Bounded((IMAGE.value > 0).to(F64))
INDICES = Bounded(torch.tensor([2, 0, 1, 2], dtype=F64))
KERNEL = inexact(6, 4, 4, 3, 2)
CHANNELS = inexact(8, 4)

USES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.abs.default", (IMAGE,), {}),
    ("aten.neg.default", (IMAGE,), {}),
    ("aten.relu.default", (IMAGE,), {}),
    ("aten.relu6.default", (IMAGE,), {}),
    ("aten.sigmoid.default", (IMAGE,), {}),
    ("aten.tanh.default", (IMAGE,), {}),
    ("aten.exp.default", (IMAGE,), {}),
    ("aten.hardtanh.default", (IMAGE,), {}),
    ("aten.hardtanh.default", (IMAGE, 0, 6), {}),
    ("aten.clamp.default", (IMAGE, 0, None), {}),
    ("aten.clamp.default", (IMAGE,), {"max": 1.5}),
    ("aten.leaky_relu.default", (IMAGE,), {}),
    ("aten.leaky_relu.default", (IMAGE, -1.5), {}),
    ("aten.prelu.default", (IMAGE, CHANNELS), {}),
    ("aten.prelu.default", (IMAGE, inexact(9, 1)), {}),
    ("aten._softmax.default", (IMAGE, 1, False), {}),
    ("aten.softmax.int", (IMAGE, -1), {}),
    ("aten.add.Tensor", (IMAGE, OTHER), {"alpha": -2}),
    ("aten.add.Tensor", (IMAGE, inexact(7, 4, 1, 1)), {}),
    ("aten.sub.Tensor", (IMAGE, OTHER), {}),
    ("aten.sub.Tensor", (IMAGE, 2), {}),
    ("aten.mul.Tensor", (IMAGE, OTHER), {}),
    ("aten.mul.Tensor", (IMAGE, IMAGE), {}),
    ("aten.div.Tensor", (IMAGE, OTHER), {}),
    ("aten.div.Tensor", (IMAGE, -3.0), {}),
    ("aten.mm.default", (MATRIX, inexact(10, 5, 7)), {}),
    ("aten.matmul.default", (IMAGE, inexact(11, 6, 2)), {}),
    ("aten.bmm.default", (inexact(12, 2, 3, 4), inexact(14, 2, 4, 5)), {}),
    ("aten.linear.default", (IMAGE, inexact(16, 3, 6), inexact(18, 3)), {}),
    ("aten.addmm.default", (inexact(20, 7), MATRIX, inexact(22, 5, 7)), {"alpha": -0.5, "beta": 2}),
    ("aten.convolution.default", (IMAGE, KERNEL, CHANNELS, [2, 1], [1, 0], [1, 2], False, [0, 0], 1), {}),
    ("aten.convolution.default", (IMAGE, inexact(24, 4, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 2), {}),
    ("aten.convolution.default", (IMAGE, KERNEL, CHANNELS, [2, 2], [1, 0], [1, 1], True, [1, 0], 1), {}),
    ("aten.conv2d.default", (IMAGE, KERNEL), {"padding": 1}),
    ("aten.conv1d.default", (inexact(26, 1, 4, 9), inexact(28, 2, 4, 3), None, [2]), {}),
    ("aten.adaptive_avg_pool2d.default", (IMAGE, [1, 1]), {}),
    ("aten.mean.dim", (IMAGE, [-1, -2], True), {"dtype": torch.float32}),
    ("aten.mean.dim", (IMAGE, None), {}),
    ("aten.upsample_bilinear2d.vec", (IMAGE, None, True, [2.0, 4.0]), {}),
    ("aten.upsample_nearest2d.vec", (IMAGE, [12, 9], None), {}),
    ("aten.cat.default", ((IMAGE, OTHER, IMAGE), -3), {}),
    ("aten.constant_pad_nd.default", (IMAGE, [1, 0, -1, 2], 2.5), {}),
    ("aten.clone.default", (IMAGE,), {"memory_format": "contiguous_format"}),
    ("dim_order_ops._clone_dim_order.default", (IMAGE,), {"dim_order": (0, 1, 2, 3)}),
    ("aten.permute_copy.default", (IMAGE, (0, -1, 1, 2)), {}),
    ("aten.permute.default", (IMAGE, (3, 2, 1, 0)), {}),
    ("aten.transpose.int", (IMAGE, 1, -1), {}),
    ("aten.transpose_copy.int", (IMAGE, 1, 2), {}),
    ("aten.slice_copy.Tensor", (IMAGE, -1, 1, 100, 2), {}),
    ("aten.slice.Tensor", (IMAGE, 1), {"start": -2}),
    ("aten.select_copy.int", (IMAGE, 1, 2), {}),
    ("aten.split.Tensor", (IMAGE, 3, 1), {}),
    ("aten.split_copy.Tensor", (IMAGE, 3, 1), {}),
    ("aten.split.default", (IMAGE, (1, 3), 1), {}),
    ("aten.split.sizes", (IMAGE, (1, 3), 1), {}),
    ("aten.split_with_sizes.default", (IMAGE, (1, 3), 1), {}),
    ("aten.split_with_sizes_copy.default", (IMAGE, (2, 4), -1), {}),
    ("aten.squeeze.default", (inexact(34, 1, 3, 1),), {}),
    ("aten.squeeze.dim", (inexact(34, 1, 3, 1), -1), {}),
    ("aten.squeeze.dims", (inexact(34, 1, 3, 1), (0, 1)), {}),
    ("aten.squeeze_copy.default", (inexact(34, 1, 3, 1),), {}),
    ("aten.squeeze_copy.dim", (inexact(34, 1, 3, 1), 0), {}),
    ("aten.squeeze_copy.dims", (inexact(34, 1, 3, 1), (0, 2)), {}),
    ("aten.unsqueeze.default", (IMAGE, -1), {}),
    ("aten.unsqueeze_copy.default", (IMAGE, 2), {}),
    ("aten.view.default", (IMAGE, (2, -1)), {}),
    ("aten.view_copy.default", (IMAGE, (8, 36)), {}),
    ("aten.reshape.default", (IMAGE, (8, -1)), {}),
    ("aten.flatten.using_ints", (IMAGE, 1), {}),
    ("aten.expand_copy.default", (inexact(36, 1, 3), (2, 3)), {}),
    ("aten.dropout.default", (IMAGE, 0.5, False), {}),
    ("aten.alias_copy.default", (IMAGE,), {}),
    ("aten.ceil.default", (IMAGE,), {}),
    ("aten.floor.default", (IMAGE,), {}),
    ("aten.sqrt.default", (POSITIVE,), {}),
    ("aten.rsqrt.default", (POSITIVE,), {}),
    ("aten.log.default", (POSITIVE,), {}),
    ("aten.elu.default", (IMAGE,), {}),
    ("aten.elu.default", (IMAGE, 2.5, 0.5, 3.0), {}),
    ("aten.gelu.default", (IMAGE,), {}),
    ("aten.gelu.default", (IMAGE,), {"approximate": "tanh"}),
    ("aten.hardswish.default", (IMAGE,), {}),
    ("aten.sin.default", (IMAGE,), {}),
    ("aten.cos.default", (IMAGE,), {}),
    ("aten.pow.Tensor_Scalar", (IMAGE, 2), {}),
    ("aten.maximum.default", (IMAGE, OTHER), {}),
    ("aten.minimum.default", (IMAGE, OTHER), {}),
    ("aten.acos.default", (FRACTION,), {}),
    ("aten.acosh.default", (Bounded(POSITIVE.value + 0.6, IMAGE.error),), {}),
    ("aten.asin.default", (FRACTION,), {}),
    ("aten.asinh.default", (IMAGE,), {}),
    ("aten.atan.default", (IMAGE,), {}),
    ("aten.atanh.default", (FRACTION,), {}),
    ("aten.celu.default", (IMAGE, 2.0), {}),
    ("aten.cosh.default", (IMAGE,), {}),
    ("aten.selu.default", (IMAGE,), {}),
    ("aten.pow.Tensor_Tensor", (IMAGE, Bounded(torch.full((1,), 2.0, dtype=F64))), {}),
    ("aten.remainder.Tensor", (IMAGE, Bounded(torch.full((), 0.75, dtype=F64))), {}),
    ("aten.copy.default", (IMAGE, inexact(42, 6)), {}),
    ("aten.index_put.default", (MATRIX, (Bounded((MATRIX.value > 0).to(F64)),), inexact(43, 1)), {}),
    ("aten.erf.default", (IMAGE,), {}),
    ("aten.erfinv.default", (FRACTION,), {}),
    ("aten.expm1.default", (IMAGE,), {}),
    ("aten.hardsigmoid.default", (IMAGE,), {}),
    ("aten.log10.default", (POSITIVE,), {}),
    ("aten.log1p.default", (POSITIVE,), {}),
    ("aten.reciprocal.default", (IMAGE,), {}),
    ("aten.remainder.Scalar", (IMAGE, 0.75), {}),
    ("aten.remainder.Scalar", (IMAGE, -1.5), {}),
    ("aten.round.default", (IMAGE,), {}),
    ("aten.sign.default", (IMAGE,), {}),
    ("aten.silu.default", (IMAGE,), {}),
    ("aten.sinh.default", (IMAGE,), {}),
    ("aten.tan.default", (IMAGE,), {}),
    *((f"aten.{name}.Tensor", (IMAGE, OTHER), {}) for name in ("eq", "ne", "ge", "gt", "le", "lt")),
    *((f"aten.{name}.Scalar", (IMAGE, 0.5), {}) for name in ("eq", "ne", "ge", "gt", "le", "lt")),
    *((f"aten.logical_{name}.default", (SOME, IMAGE), {}) for name in ("and", "or", "xor")),
    ("aten.logical_not.default", (SOME,), {}),
    ("aten.any.default", (SOME,), {}),
    ("aten.any.dim", (SOME, 1, True), {}),
    ("aten.any.dims", (SOME, [0, 2]), {}),
    *((f"aten.bitwise_{name}.Tensor", (WHOLE, WHOLE), {}) for name in ("and", "or", "xor")),
    *((f"aten.bitwise_{name}.Scalar", (WHOLE, 5), {}) for name in ("and", "or", "xor")),
    ("aten.bitwise_not.default", (WHOLE,), {}),
    ("aten.bitwise_left_shift.Tensor", (WHOLE, Bounded(torch.full((3, 5), 2.0, dtype=F64))), {}),
    ("aten.bitwise_right_shift.Tensor", (WHOLE, Bounded(torch.full((3, 5), 2.0, dtype=F64))), {}),
    ("aten.__lshift__.Scalar", (WHOLE, 3), {}),
    ("aten.__rshift__.Scalar", (WHOLE, 3), {}),
    ("aten.argmax.default", (WHOLE, 1), {}),
    ("aten.argmax.default", (MATRIX, 1), {}),
    ("aten.amax.default", (IMAGE, [1, -1]), {}),
    ("aten.amin.default", (IMAGE, [2], True), {}),
    ("aten.amin.default", (IMAGE,), {}),
    ("aten.clamp.Tensor", (IMAGE, inexact(40, 6), None), {}),
    ("aten.clamp.Tensor", (IMAGE, None, inexact(40, 6)), {}),
    ("aten.clamp.Tensor", (IMAGE, OTHER, inexact(40, 6)), {}),
    ("aten.cumsum.default", (IMAGE, 1), {}),
    ("aten.sum.dim_IntList", (IMAGE, [1, 3], True), {}),
    ("aten.div.Tensor_mode", (IMAGE, OTHER), {"rounding_mode": "floor"}),
    ("aten.div.Tensor_mode", (IMAGE, 0.75), {"rounding_mode": "trunc"}),
    ("aten.masked_fill.Scalar", (IMAGE, TRUTH, -2.0), {}),
    ("aten.where.self", (TRUTH, IMAGE, OTHER), {}),
    ("aten.where.self", (SOME, IMAGE, OTHER), {}),
    ("aten.pad.default", (IMAGE, [1, 2, 0, 1], "constant", 0.5), {}),
    ("aten.pad.default", (IMAGE, [1, 2, 0, 1], "reflect"), {}),
    ("aten.flip.default", (IMAGE, [1, 3]), {}),
    ("aten.repeat.default", (MATRIX, [2, 1, 3]), {}),
    ("aten.detach_copy.default", (IMAGE,), {}),
    ("aten.as_strided_copy.default", (MATRIX, [5, 3], [3, 1], 0), {}),
    ("aten.unfold_copy.default", (IMAGE, 2, 3, 2), {}),
    ("aten.embedding.default", (MATRIX, INDICES), {}),
    ("aten.gather.default", (MATRIX, 0, Bounded(INDICES.value.reshape(1, 4))), {}),
    ("aten.index_select.default", (MATRIX, 0, INDICES), {}),
    ("aten.index.Tensor", (MATRIX, (INDICES, INDICES)), {}),
    ("aten.index_put.default", (MATRIX, (Bounded(INDICES.value[:3]),), inexact(41, 3, 5)), {}),
    ("aten.arange.start_step", (0, 7, 2), {}),
    ("aten.eye.default", (3,), {}),
    ("aten.full.default", ([2, 3], 1.5), {}),
    ("aten.full_like.default", (MATRIX, 1.5), {}),
    ("aten.linspace.default", (0.0, 1.0, 5), {}),
    ("aten.scalar_tensor.default", (2.5,), {}),
    ("dim_order_ops._to_dim_order_copy.default", (IMAGE,), {"dim_order": (0, 1, 2, 3)}),
    ("quantized_decomposed.quantize_per_tensor.default", (IMAGE, 0.25, 3, -128, 127), {}),
    ("quantized_decomposed.dequantize_per_tensor.default", (IMAGE, 0.25, 3), {}),
]
IDS = [f"{index}-{op}" for index, (op, _, _) in enumerate(USES)]


TWICE = {"aten.sqrt.default", "aten.squeeze_copy.dim", "aten.transpose_copy.int"}
"""Operators whose cases are made from their homes, and that have uses here besides."""


def test_every_operator_has_a_use() -> None:
    """Those whose cases are made from their homes are in test_homes."""
    assert {canonical(op) for op, _, _ in USES} == OPERATORS - WITH_CASES.keys() | TWICE


def of_choices(op: str) -> bool:
    """Whether an operator compares, chooses, counts or looks up."""
    home = HOMES[canonical(op)]
    return str(home.golden).startswith("selection:") or home.result != REALS


@pytest.mark.parametrize(("op", "args", "kwargs"), USES, ids=IDS)
def test_onnx_says_the_same_where_it_has_the_operator(op: str, args: Any, kwargs: Any) -> None:
    exact = moved(args, lambda x: x.value)
    outputs = [y.value for y in run(op, exact, kwargs)]
    assert onnx_golden.disagreement(op, values(exact), outputs, kwargs) is None


def moved(argument: Any, push: Callable[[Bounded], Tensor]) -> Any:
    """An argument with its operands replaced by exact ones within their bounds."""
    if isinstance(argument, Bounded):
        return Bounded(push(argument))
    if isinstance(argument, list | tuple):
        return tuple(moved(item, push) for item in argument)
    return argument


@pytest.mark.parametrize(("op", "args", "kwargs"), USES, ids=IDS)
def test_outputs_of_inputs_within_their_bounds_are_within_theirs(op: str, args: Any, kwargs: Any) -> None:
    outputs = run(op, args, kwargs)
    generator = torch.Generator().manual_seed(1)
    for corner in range(6):

        def push(x: Bounded, corner: int = corner) -> Tensor:
            where = torch.rand(x.value.shape, generator=generator, dtype=F64) * 2 - 1
            return x.value + x.error * (where.sign() if corner % 2 else where)

        for y, other in zip(outputs, run(op, moved(args, push), kwargs), strict=True):
            assert bool(((other.value - y.value).abs() <= y.error + 1e-12 * y.magnitude).all())


@pytest.mark.parametrize(("op", "args", "kwargs"), USES, ids=IDS)
def test_exact_inputs_give_exact_outputs(op: str, args: Any, kwargs: Any) -> None:
    for y in run(op, moved(args, lambda x: x.value), kwargs):
        assert y.error is ZERO and y.exact


@pytest.mark.parametrize(("op", "args", "kwargs"), USES, ids=IDS)
def test_float32_arithmetic_is_within_its_bounds(op: str, args: Any, kwargs: Any) -> None:
    """The same operator by torch in float32, on inputs rounded to float32."""
    exact = moved(args, lambda x: x.value)
    outputs = run_float32(op, exact, kwargs)
    single = run(op, moved(exact, lambda x: x.value.to(torch.float32)), kwargs)
    assert single[0].value.dtype is torch.float32 or of_choices(op)  # booleans and whole numbers have no type
    for y, other in zip(outputs, single, strict=True):
        assert bool(((other.value.to(F64) - y.value).abs() <= y.error).all())


TERMS = 4096
LOST = torch.full((1, TERMS), 0.99 * 2.0**-24).index_fill_(1, torch.tensor(0), 1.0)
ONE_OUTPUT = torch.ones(1, TERMS)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten.linear.default", (LOST, ONE_OUTPUT, torch.zeros(1))),
        ("aten.linear.default", (LOST, ONE_OUTPUT)),
        ("aten.addmm.default", (torch.zeros(1), LOST, ONE_OUTPUT.T)),
        ("aten.mm.default", (LOST, ONE_OUTPUT.T)),
        ("aten.bmm.default", (LOST[None], ONE_OUTPUT.T[None])),
        ("aten.conv2d.default", (LOST.view(1, -1, 1, 1), ONE_OUTPUT.view(1, -1, 1, 1), torch.zeros(1))),
    ],
)
def test_a_sum_in_the_worst_order_is_within_the_bounds(op: str, args: tuple[Tensor, ...]) -> None:
    """From left to right a float32 sum of this row stays 1: every later term is less than half of its last digit."""
    in_order = torch.tensor(0.0)
    for term in LOST[0]:
        in_order += term
    assert in_order == 1
    (y,) = run_float32(op, tuple(map(Bounded, args)), {})
    off = (y.value - 1).abs()
    assert off > 2000 * 2.0**-24
    assert bool((off <= y.error).all()) and bool((y.error < 4 * off).all())


def test_float32_bounds_are_tight_enough_to_see_bfloat16() -> None:
    x, w = Bounded(numbers(1, 4, 64)), Bounded(numbers(2, 64, 4))
    (y,) = run_float32("aten.mm.default", (x, w), {})
    coarse = (x.value.to(torch.bfloat16) @ w.value.to(torch.bfloat16)).to(F64)
    assert bool(((coarse - y.value).abs() > y.error).all())


@pytest.mark.parametrize("op", ["aten._softmax.default", "aten.sigmoid.default", "aten.exp.default"])
def test_an_infinite_operand_is_exact(op: str) -> None:
    """As masks have it: bounds are numbers there, and those of the other elements what they are without it."""
    x = torch.tensor([[-torch.inf, 0.5, 1.0, -torch.inf]], dtype=F64)
    more = (-1, False) if "softmax" in op else ()
    (y,), (alone,) = (run_float32(op, (Bounded(each), *more), {}) for each in (x, x[:, 1:3]))
    assert y.value[0, [0, 3]].tolist() == [0.0, 0.0]
    assert bool((y.spread()[0, [0, 3]] < 1e-36).all())
    assert bool((y.spread()[:, 1:3] <= alone.spread() * 2).all())


def test_divisor_that_may_be_zero_has_no_bound() -> None:
    one = torch.ones(1, dtype=F64)
    (y,) = run("aten.div.Tensor", (Bounded(one), Bounded(one, one * 2)), {})
    assert torch.isinf(y.error).all()


def test_index_output_of_inexact_input_has_no_bound() -> None:
    assert torch.isinf(run("aten.max_pool2d_with_indices.default", (IMAGE, 2), {})[1].error).all()


@pytest.mark.parametrize("op", ["aten.cumprod.default", "nonsense", "aten.nothing.default"])
def test_unknown_operator_is_an_error(op: str) -> None:
    with pytest.raises(GoldenError, match="found '"):
        run(op, (IMAGE,), {})


def test_operands_that_do_not_fit_are_errors() -> None:
    with pytest.raises(GoldenError, match="found 3 slopes, expected 1 or 4"):
        run("aten.prelu.default", (IMAGE, Bounded(numbers(0, 3))), {})
    with pytest.raises(GoldenError, match="found NoneType"):
        run("aten.add.Tensor", (IMAGE, None), {})
