"""The exact-integer golden: every spelling reads as torch reads it, and every code is a legal rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.cases.families import BASELINES, baseline
from npu_assay.conformance.cases.make import bias_quant, quant, weight_quant
from npu_assay.conformance.judge.integer_golden import affine, exact_values
from npu_assay.reference import golden
from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.golden import Bounded, GoldenError
from npu_assay.reference.integer import IntegerError, QTensor, run

X = Affine(float32(0.05), 3)
Y = Affine(float32(0.13), -5)
PROBABILITY = Affine(1 / 256, -128)


def codes(seed: int, *shape: int, low: int = -128) -> Tensor:
    return torch.randint(low, 128, shape, generator=torch.Generator().manual_seed(seed)).to(torch.int8)


def q(seed: int, *shape: int, like: Affine = X) -> QTensor:
    return QTensor(codes(seed, *shape), like.scale, like.zero_point)


IMAGE = q(0, 2, 4, 6, 6)
OTHER = q(1, 2, 4, 6, 6, like=Affine(float32(0.08), -9))
LINE = q(2, 1, 4, 9)
MATRIX = q(3, 3, 5)
WEIGHT = weight_quant(0.02)
BIAS = bias_quant(quant(0.05), WEIGHT)


def weights(
    seed: int, *shape: int, scale: float | tuple[float, ...] = float32(0.02), axis: int | None = None
) -> QTensor:
    return QTensor(codes(seed, *shape, low=-127), scale, 0, axis)


def bias(count: int, scales: float | tuple[float, ...] = float32(0.02)) -> QTensor:
    product = tuple(float32(X.scale * s) for s in scales) if isinstance(scales, tuple) else float32(X.scale * scales)
    return QTensor(codes(9, count).to(torch.int32) * 10, product, 0, 0 if isinstance(scales, tuple) else None)


CHANNELS = (0.004, 0.02, 0.01, 0.007)
KERNEL = weights(4, 4, 4, 3, 2, scale=CHANNELS, axis=0)
DEPTHWISE = weights(5, 4, 1, 3, 3, scale=CHANNELS, axis=0)
TRANSPOSED = weights(6, 4, 2, 3, 2, scale=CHANNELS[:2], axis=1)

USES: list[tuple[str, tuple[Any, ...], Affine]] = [
    ("aten.abs.default", (IMAGE,), Y),
    ("aten.neg.default", (IMAGE,), Y),
    ("aten.relu.default", (IMAGE,), Y),
    ("aten.relu6.default", (IMAGE,), Y),
    ("aten.hardtanh.default", (IMAGE, -1, 1), Y),
    ("aten.hardtanh.default", (IMAGE, 0, float("inf")), Y),
    ("aten.clamp.default", (IMAGE, None, 2.5), Y),
    ("aten.leaky_relu.default", (IMAGE, 0.1), Y),
    ("aten.prelu.default", (IMAGE, weights(7, 4)), Y),
    ("aten.prelu.default", (IMAGE, weights(7, 1)), Y),
    ("aten.sigmoid.default", (IMAGE,), PROBABILITY),
    ("aten.tanh.default", (IMAGE,), Affine(1 / 128, 0)),
    ("aten.exp.default", (IMAGE,), Affine(float32(0.7), -120)),
    ("aten.exp.default", (q(0, 2, 4, 6, 6, like=Affine(float32(0.2), -100)),), Affine(float32(0.7), -120)),
    ("aten.log.default", (q(0, 2, 4, 6, 6, like=Affine(float32(0.02), -128)),), Affine(float32(0.03), 5)),
    ("aten._softmax.default", (IMAGE, 1, False), PROBABILITY),
    ("aten._softmax.default", (IMAGE, -1, False), PROBABILITY),
    ("aten.add.Tensor", (IMAGE, OTHER), Y),
    ("aten.add.Tensor", (IMAGE, IMAGE), Y),
    ("aten.sub.Tensor", (IMAGE, OTHER), Y),
    ("aten.mul.Tensor", (IMAGE, OTHER), Y),
    ("aten.maximum.default", (IMAGE, OTHER), Y),
    ("aten.minimum.default", (IMAGE, q(13, 4, 1, 6)), X),
    ("aten.div.Tensor", (IMAGE, 3.0), Y),
    ("aten.div.Tensor", (IMAGE, torch.tensor([0.5, -2.0, 3.0, 0.7, 1.1, -9.0])), Y),
    ("aten.div.Tensor", (IMAGE, QTensor(torch.full((6,), -7, dtype=torch.int8), 0.25)), Y),
    ("aten.mm.default", (MATRIX, weights(8, 5, 7)), Y),
    ("aten.mm.default", (MATRIX, q(8, 5, 7)), Y),
    ("aten.addmm.default", (bias(7), MATRIX, weights(8, 5, 7)), Y),
    ("aten.linear.default", (IMAGE, weights(8, 4, 6, scale=CHANNELS, axis=0), bias(4, CHANNELS)), Y),
    ("aten.bmm.default", (q(10, 2, 3, 4), q(11, 2, 4, 5)), Y),
    ("aten.convolution.default", (IMAGE, KERNEL, bias(4, CHANNELS), [2, 1], [1, 0], [1, 2], False, [0, 0], 1), Y),
    ("aten.convolution.default", (IMAGE, DEPTHWISE, None, [1], [1], [1], False, [0], 4), Y),
    (
        "aten.convolution.default",
        (IMAGE, TRANSPOSED, bias(2, CHANNELS[:2]), [2, 2], [1, 0], [1, 1], True, [1, 0], 1),
        Y,
    ),
    ("aten.convolution.default", (LINE, weights(12, 2, 4, 3), None, [2], [1], [1], False, [0], 1), Y),
    ("aten.conv2d.default", (IMAGE, KERNEL), Y),
    ("aten.conv1d.default", (LINE, weights(12, 2, 4, 3), None, 2), Y),
    ("aten.avg_pool1d.default", (LINE, [2]), X),
    ("aten.avg_pool2d.default", (IMAGE, [3, 2], [2], [1, 0]), X),
    ("aten.avg_pool2d.default", (IMAGE, 3, 2, 1, False, False), X),
    ("aten._adaptive_avg_pool2d.default", (IMAGE, [3, 2]), X),
    ("aten.max_pool1d.default", (LINE, [3], [2], [1]), X),
    ("aten.max_pool2d.default", (IMAGE, [3, 2], [], [1, 1]), X),
    ("aten.max_pool2d_with_indices.default", (IMAGE, [2, 2]), X),
    ("aten.mean.dim", (IMAGE, [-1, -2], True), Y),
    ("aten.mean.dim", (IMAGE, None), Y),
    ("aten.sum.dim_IntList", (IMAGE, [1, -1]), Affine(float32(0.9), 11)),
    ("aten.sum.dim_IntList", (IMAGE, None, True), Affine(float32(2.5), 11)),
    ("aten.sum.dim_IntList", (IMAGE, [0, 1, 2, 3]), Affine(float32(2.5), 11)),
    ("aten.amax.default", (IMAGE, [-2], True), X),
    ("aten.amin.default", (IMAGE,), Y),
    ("aten.upsample_bilinear2d.vec", (IMAGE, None, True, (2.0, 4.0)), X),
    ("aten.upsample_bilinear2d.vec", (IMAGE, (12, 12), False, None), X),
    ("aten.upsample_nearest2d.vec", (IMAGE, None, (2.0, 2.0)), X),
    ("aten.cat.default", ((IMAGE, OTHER, IMAGE), -3), Y),
    ("aten.constant_pad_nd.default", (IMAGE, [1, 0, -1, 2], 2.5), X),
    ("aten.constant_pad_nd.default", (IMAGE, [1, 1]), X),
    ("aten.permute_copy.default", (IMAGE, (0, -1, 1, 2)), X),
    ("aten.slice_copy.Tensor", (IMAGE, -1, 1, 100, 2), X),
    ("aten.split_with_sizes.default", (IMAGE, (1, 3), 1), X),
    ("aten.split.Tensor", (IMAGE, 4, -1), X),
    ("aten.view_copy.default", (IMAGE, (8, -1)), Y),
]
IDS = [f"{index}-{op}" for index, (op, _, _) in enumerate(USES)]


def real(argument: Any) -> Any:
    if isinstance(argument, QTensor):
        return golden.dequantised(argument.codes, argument.scale, argument.zero_point, argument.axis)
    if isinstance(argument, Tensor):
        return Bounded(argument.to(torch.float64))
    if isinstance(argument, list | tuple):
        return tuple(real(item) for item in argument)
    return argument


@pytest.mark.parametrize(("op", "args", "y"), USES, ids=IDS)
def test_every_code_is_a_legal_rounding_of_the_real_result(op: str, args: tuple[Any, ...], y: Affine) -> None:
    found = run(op, args, {}, y)
    expected = golden.run(op, real(args))
    for output, b in zip(found, expected, strict="indices" not in op):
        error_bound = golden.device(op, real(args), {}, b, y.scale32, "tflite_double_round")
        legal = golden.legal_codes(b, y, error_bound, on_grid=golden.on_grid(op, real(args), {}, y.scale32))
        assert output.dtype is torch.int8 and output.shape == b.value.shape and output.is_contiguous()
        assert bool(((output >= legal.low) & (output <= legal.high)).all())
        assert output.numel() == 1 or output.min() < output.max()  # the comparison is about something


@pytest.mark.parametrize(("op", "args", "y"), USES, ids=IDS)
def test_operands_are_not_written_to(op: str, args: tuple[Any, ...], y: Affine) -> None:
    def tensors(argument: Any) -> list[Tensor]:
        if isinstance(argument, QTensor):
            return [argument.codes]
        return [t for item in argument for t in tensors(item)] if isinstance(argument, tuple | list) else []

    before = [tensor.clone() for tensor in tensors(args)]
    run(op, args, {}, y)
    assert all(torch.equal(a, b) for a, b in zip(before, tensors(args), strict=True))


SAME: list[tuple[str, Any, Any]] = [
    ("aten.avg_pool2d.default", (IMAGE, 2), ((IMAGE, [2]), (IMAGE, [2, 2]), (IMAGE, [2, 2], []), (IMAGE, 2, 2, 0))),
    ("aten.max_pool2d.default", (IMAGE, 3), ((IMAGE, [3, 3], []), (IMAGE, [3], [3], [0], [1], False))),
    ("aten.max_pool1d.default", (LINE, 2), ((LINE, [2], []), (LINE, [2], 2))),
    ("aten.mean.dim", (IMAGE, [2, 3]), ((IMAGE, [-1, -2]), (IMAGE, (3, -2), False))),
    ("aten.slice_copy.Tensor", (IMAGE,), ((IMAGE, 0, None, None), (IMAGE, -4, 0, 2), (IMAGE, 1, -9, 99))),
    ("aten.split.Tensor", (IMAGE, 1), ((IMAGE, 1, 0), (IMAGE, 1, -4))),
    ("aten.hardtanh.default", (IMAGE,), ((IMAGE, -1, 1), (IMAGE, -1.0))),
    ("aten.leaky_relu.default", (IMAGE,), ((IMAGE, 0.01),)),
    ("aten.permute_copy.default", (IMAGE, [0, 2, 3, 1]), ((IMAGE, (-4, -2, -1, 1)),)),
    ("aten.cat.default", ((IMAGE, IMAGE), 3), ([[IMAGE, IMAGE], -1],)),
    ("aten.conv2d.default", (IMAGE, KERNEL), ((IMAGE, KERNEL, None, [1], [0, 0], 1, 1),)),
    ("aten.upsample_nearest2d.vec", (IMAGE, [12, 12], None), ((IMAGE, None, [2.0, 2.0]),)),
    ("aten.constant_pad_nd.default", (IMAGE, [1, 2]), ((IMAGE, (1, 2), 0), (IMAGE, (1, 2, 0, 0), 0.0))),
]


@pytest.mark.parametrize(("op", "args", "others"), SAME, ids=[case[0] for case in SAME])
def test_spellings_agree(op: str, args: Any, others: Any) -> None:
    expected = run(op, args, {}, X)
    for other in others:
        assert all(map(torch.equal, expected, run(op, other, {}, X)))


def test_keywords_and_memory_formats() -> None:
    (x,) = run("aten.clone.default", (IMAGE,), {"memory_format": "contiguous_format"}, X)
    (y,) = run("aten.dim_order_ops._clone_dim_order.default", (IMAGE,), {"dim_order": (0, 2, 3, 1)}, X)
    assert torch.equal(x, IMAGE.codes) and torch.equal(y, IMAGE.codes)
    (a,) = run("aten.clamp.default", (IMAGE,), {"max": 1, "min": None}, X)
    (b,) = run("aten.clamp.default", (IMAGE, None, 1), {}, X)
    assert torch.equal(a, b)


ON_IMAGE = [(op, args) for op, args, _ in USES if args[0] is IMAGE]


@pytest.mark.parametrize(("op", "args"), ON_IMAGE, ids=[f"{i}-{op}" for i, (op, _) in enumerate(ON_IMAGE)])
def test_channels_last_memory_changes_nothing(op: str, args: tuple[Any, ...]) -> None:
    last = QTensor(IMAGE.codes.contiguous(memory_format=torch.channels_last), IMAGE.scale, IMAGE.zero_point)
    rest = (last if item is IMAGE else item for item in args[1:])
    assert all(map(torch.equal, run(op, args, {}, X), run(op, (last, *rest), {}, X)))


@pytest.mark.parametrize("row", BASELINES)
def test_every_row_has_integers(row: str) -> None:
    graph = baseline(row)
    found = exact_values(graph).codes
    (step,) = graph.steps[-1:]
    assert step.quant is not None
    for ref in graph.outputs:
        assert found[ref].affine == affine(step.quant)
        assert found[ref].codes.min() < found[ref].codes.max()


def test_depthwise_is_one_convolution_per_channel() -> None:
    (whole,) = run("aten.conv2d.default", (IMAGE, DEPTHWISE, None, 1, 1, 1, 4), {}, Y)
    for c in range(4):
        x = QTensor(IMAGE.codes[:, c : c + 1], X.scale, X.zero_point)
        w = QTensor(DEPTHWISE.codes[c : c + 1], CHANNELS[c])
        assert torch.equal(run("aten.conv2d.default", (x, w, None, 1, 1), {}, Y)[0], whole[:, c : c + 1])


def test_division_multiplies_by_int8_reciprocals() -> None:
    x = QTensor(torch.tensor([[100, -50, 7]], dtype=torch.int8), 0.5)
    (y,) = run("aten.div.Tensor", (x, torch.tensor([2.0, 8.0, -2.0])), {}, Affine(0.25, 0))
    # reciprocals 0.5, 0.125, -0.5 in steps of 0.5 / 127: codes 127, 32, -127
    assert y.tolist() == [[100, -13, -7]]


ERRORS = [
    ("aten.add.Tensor", (IMAGE, OTHER), {"alpha": 2}, "found alpha = 2, expected alpha = 1"),
    ("aten.add.Tensor", (IMAGE, 2.0), {}, "operand 'other': found float, expected codes of torch.int8"),
    ("aten.relu.default", (bias(3),), {}, "found torch.int32, expected codes of torch.int8"),
    ("aten.addmm.default", (bias(7), MATRIX, weights(8, 5, 7)), {"beta": 2}, r"found \(alpha, beta\) = \(1, 2\)"),
    ("aten.addmm.default", (q(1, 7), MATRIX, weights(8, 5, 7)), {}, "found torch.int8, expected codes of torch.int32"),
    ("aten.div.Tensor", (IMAGE, 0.0), {}, "found a zero divisor, expected none"),
    ("aten.conv2d.default", (IMAGE, IMAGE), {}, "found weight zero point 3, expected 0"),
    ("aten.avg_pool2d.default", (IMAGE, 2), {"ceil_mode": True}, "found ceil_mode"),
    ("aten.avg_pool2d.default", (IMAGE, 2), {"divisor_override": 3}, "found divisor_override"),
    ("aten.avg_pool2d.default", (MATRIX, 2), {}, "found rank 2, expected an image"),
    ("aten.max_pool2d.default", (IMAGE, 2), {"dilation": 2}, "found dilation 2, expected 1"),
    (
        "aten._adaptive_avg_pool2d.default",
        (IMAGE, [4, 4]),
        {},
        r"found \(6, 6\) -> \(4, 4\), expected a size that divides",
    ),
    ("aten.sigmoid.default", (KERNEL,), {}, "found 4 scales, expected one"),
    ("aten.sin.default", (IMAGE,), {}, "found 'aten.sin.default', expected one with integer semantics"),
]


@pytest.mark.parametrize(("op", "args", "kwargs", "message"), ERRORS, ids=[f"{i}-{e[0]}" for i, e in enumerate(ERRORS)])
def test_what_no_npu_computes_is_an_error(op: str, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(IntegerError, match=message):
        run(op, args, kwargs, Y)


def test_unknown_arguments_are_errors() -> None:
    with pytest.raises(GoldenError, match=r"aten\.relu\.default: found arguments"):
        run("aten.relu.default", (IMAGE,), {"inplace": True}, Y)


@pytest.mark.parametrize("scheme", ["tflite_double_round", "tosa_single_round"])
def test_strides_are_those_of_codes_that_lie_one_after_the_other(scheme: str) -> None:
    """A convolution's codes may lie channels last."""
    codes = torch.arange(24, dtype=torch.int8).view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
    args = (QTensor(codes, X.scale), [2, 3], [4, 1])
    found = run("aten.as_strided_copy.default", args, {}, Affine(X.scale, 0), scheme)
    assert (found[0] if isinstance(found, tuple) else found).tolist() == [[0, 1, 2], [4, 5, 6]]
