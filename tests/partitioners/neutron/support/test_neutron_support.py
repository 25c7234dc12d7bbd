"""Every operator's limits: just inside and just outside, as the vendor's released partitioner answers."""

from __future__ import annotations

import math

import pytest
import torch
from neutron_graphs import ACTIVATION, UNIT, Builder, Params, Verdict, judge, partitioned
from neutron_supported import (
    ADAPTIVE,
    AVG,
    BMM,
    CLAMP,
    CLONE,
    CONV,
    DIM_ORDER_CLONE,
    HARDTANH,
    INT_MAX,
    MEAN,
    OTHER,
    PAD,
    PERMUTE,
    POOL,
    REJECTED,
    SLICE,
    SOFTMAX,
    T_CONV,
    TANH,
    UP,
    VIEW,
    Write,
    abs_then,
    behind_conv,
    binary,
    cat,
    conv,
    divided,
    linear,
    max_pool,
    prelu,
    unary,
)
from torch import fx

from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL
from npu_assay.partitioners.neutron import generate_neutron_compile_spec
from npu_assay.partitioners.neutron.options import CustomDelegationOptions
from npu_assay.partitioners.neutron.partitioner import NeutronPartitioner
from npu_assay.partitioners.neutron.support.weights import through_permute


def split(shape: tuple[int, ...], sizes: list[int], dim: int) -> Write:
    """The first piece of a split."""

    def write(b: Builder) -> fx.Node:
        pieces = b.call("aten.split_with_sizes_copy.default", b.input(*shape), sizes, dim)
        return b.quantised(b.item(pieces, 0))

    return write


BILINEAR = "aten.upsample_bilinear2d.vec"

ACCEPTED: dict[str, tuple[str, Write]] = {
    "abs": ("aten.abs.default", unary("aten.abs.default", (1, 3, 5, 7))),
    "neg": ("aten.neg.default", unary("aten.neg.default", (3, 5))),
    "leaky_relu": ("aten.leaky_relu.default", unary("aten.leaky_relu.default", (3, 5))),
    "sigmoid": ("aten.sigmoid.default", unary("aten.sigmoid.default", (3, 5), q=UNIT)),
    "tanh": ("aten.tanh.default", unary("aten.tanh.default", (3, 5), q=TANH)),
    "adaptive 8 to 4": (
        ADAPTIVE,
        unary(ADAPTIVE, (1, 3, 8, 8), [4, 4]),
    ),
    "addmm": ("aten.addmm.default", linear((3, 7), (7, 5))),
    "mm": ("aten.mm.default", lambda b: b.op("aten.mm.default", b.input(3, 7), b.weight(7, 5))),
    "mm of two inputs": ("aten.mm.default", binary("aten.mm.default", (3, 7), (7, 5))),
    "add": ("aten.add.Tensor", binary("aten.add.Tensor", (2, 3, 5), (2, 3, 5))),
    "avg padded, counted": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2], [2, 2], [1, 1], False, True)),
    "avg unpadded, uncounted": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2], [2, 2], [0, 0], False, False)),
    "avg no stride": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2])),
    "avg empty stride": (AVG, unary(AVG, (1, 3, 8, 8), [2, 2], [])),
    "avg batch 2": (AVG, unary(AVG, (2, 3, 8, 8), [2, 2], [2, 2])),
    "bmm": (BMM, binary(BMM, (2, 8, 16), (2, 16, 8))),
    "bmm batch 3": (BMM, binary(BMM, (3, 8, 16), (3, 16, 8))),
    "cat last": ("aten.cat.default", cat([(2, 8), (2, 8)], -1)),
    "cat middle": ("aten.cat.default", cat([(2, 3, 8), (2, 5, 8)], 1)),
    "cat of partition members": (
        "aten.cat.default",
        lambda b: b.op("aten.cat.default", [b.op("aten.abs.default", b.input(1, 3, 8)) for _ in "ab"], 1),
    ),
    "clamp -1 1 of 7": (CLAMP, unary(CLAMP, (1, 7), -1, 1)),
    "clamp 0 6": (CLAMP, unary(CLAMP, (1, 8), 0.0, 6.0)),
    "clamp 0 1": (CLAMP, unary(CLAMP, (1, 8), 0, 1)),
    "clamp 0": (CLAMP, unary(CLAMP, (1, 8), 0)),
    "abs, clamp 0 6 of 7": (CLAMP, abs_then(CLAMP, (1, 7), 0, 6)),
    "abs, clone": (DIM_ORDER_CLONE, abs_then(DIM_ORDER_CLONE, (1, 8), dim_order=[0, 1])),
    "abs, clone contiguous": (CLONE, abs_then(CLONE, (1, 8), memory_format=torch.contiguous_format)),
    "pad middle": (PAD, unary(PAD, (1, 8, 8, 8), [0, 0, 1, 1], 0.0)),
    "pad two": (PAD, unary(PAD, (1, 8, 8, 8), [0, 0, 1, 1, 1, 1], 0.0)),
    "pad width behind conv": (PAD, behind_conv(8, lambda b, x: b.op(PAD, x, [1, 1, 2, 0], 0.0))),
    "pad value": (PAD, unary(PAD, (1, 8, 8, 8), [0, 0, 1, 1], 1.5)),
    "conv 3 to 5": (CONV, conv((1, 3, 8, 8), (5, 3, 3, 3))),
    "conv depthwise": (CONV, conv((1, 5, 8, 8), (5, 1, 3, 3), groups=5)),
    "conv spaced": (CONV, conv((1, 3, 9, 9), (5, 3, 3, 3), stride=[2, 2], padding=[1, 1], dilation=[2, 2])),
    "conv one number": (CONV, conv((1, 3, 9, 9), (5, 3, 3, 3), stride=[2], padding=[1])),
    "conv 1-D": (CONV, conv((1, 3, 9), (5, 3, 3))),
    "conv no bias": (CONV, lambda b: b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3))),
    "conv per channel": (CONV, lambda b: b.conv(b.input(1, 3, 8, 8), b.channel_weight(5, 3, 3, 3), b.bias(5))),
    "transposed": (CONV, conv((1, 8, 1, 16), (8, 16, 1, 2), 16, stride=[1, 2], **T_CONV)),
    "div 8": ("aten.mul.Tensor", divided((3, 8), torch.tensor(4.0))),
    "div all ones": ("aten.mul.Tensor", divided((1, 1), torch.tensor(4.0))),
    "div tensor": ("aten.mul.Tensor", divided((3, 8), torch.full((3, 8), 4.0))),
    "hardtanh 0 6": (HARDTANH, unary(HARDTANH, (1, 8), 0.0, 6.0)),
    "hardtanh 0 inf": (HARDTANH, unary(HARDTANH, (1, 8), 0.0, math.inf)),
    "hardtanh default": (HARDTANH, unary(HARDTANH, (1, 7))),
    "max pool": (POOL, max_pool((1, 8, 8, 8), [2, 2], [2, 2])),
    "max pool stride 2 5": (POOL, max_pool((1, 8, 8, 16), [2, 2], [2, 5])),
    "max pool padded": (POOL, max_pool((1, 8, 8, 8), [2, 2], [2, 2], [1, 1])),
    "max pool no stride": (POOL, max_pool((1, 8, 8, 8), [2, 2])),
    "mean": (MEAN, unary(MEAN, (1, 8, 4, 4), [-1, -2], True)),
    "mean positive": (MEAN, unary(MEAN, (1, 8, 4, 4), [2, 3], True)),
    "mul 3 8": ("aten.mul.Tensor", binary("aten.mul.Tensor", (3, 8), (3, 8))),
    "mul 8 3": ("aten.mul.Tensor", binary("aten.mul.Tensor", (8, 3), (8, 3))),
    "mul 1 1": ("aten.mul.Tensor", binary("aten.mul.Tensor", (1, 1), (1, 1))),
    "prelu 8x8": ("aten.prelu.default", prelu((1, 8, 8, 8), 8)),
    "prelu 64x64": ("aten.prelu.default", prelu((1, 8, 64, 64), 8)),
    "prelu one slope": ("aten.prelu.default", prelu((1, 8, 8, 8), 1)),
    "relu of 8 alone": ("aten.relu.default", unary("aten.relu.default", (3, 9, 8))),
    "conv to 5, relu": ("aten.relu.default", behind_conv(5, lambda b, x: b.op("aten.relu.default", x))),
    "slice last": (SLICE, unary(SLICE, (2, 8), 1, 0, 3)),
    "slice with step 1": (SLICE, unary(SLICE, (2, 8), 1, 0, 3, 1)),
    "slice to the end": (SLICE, unary(SLICE, (2, 8), -1, 2, INT_MAX)),
    "slice between ones": (SLICE, unary(SLICE, (1, 8, 1), 1, 2, 5)),
    "slice channels": (SLICE, behind_conv(16, lambda b, x: b.op(SLICE, x, 1, 0, 4))),
    "split 4 of 8": (SLICE, split((2, 8), [4, 4], 1)),
    "split 3 and 5": (SLICE, split((2, 8), [3, 5], 1)),
    "softmax 2040": (SOFTMAX, unary(SOFTMAX, (1, 2040), 1, False, q=UNIT)),
    "softmax 4096 rows": (SOFTMAX, unary(SOFTMAX, (4096, 8), -1, False, q=UNIT)),
    "softmax 524288": (SOFTMAX, unary(SOFTMAX, (4096, 128), 1, False, q=UNIT)),
    "softmax channels-first": (SOFTMAX, behind_conv(8, lambda b, x: b.op(SOFTMAX, x, 1, False, q=UNIT))),
    "upsample 2": (UP, unary(UP, (1, 8, 4, 4), None, [2.0, 2.0])),
    "upsample 4": (UP, unary(UP, (1, 8, 4, 4), [16, 16], None)),
    "upsample aligned": (BILINEAR, unary(BILINEAR, (1, 8, 4, 4), None, True, [2.0, 2.0])),
    "upsample batch 2": (UP, unary(UP, (2, 8, 4, 4), None, [2.0, 2.0])),
    "abs, view": (VIEW, abs_then(VIEW, (2, 9), [3, 6])),
    "conv, flatten 8x8": (VIEW, behind_conv(8, lambda b, x: b.op(VIEW, x, [1, 512]))),
    "abs of rank 8": ("aten.abs.default", unary("aten.abs.default", (2,) * 8)),
    "add of rank 8": ("aten.add.Tensor", binary("aten.add.Tensor", (2,) * 8, (2,) * 8)),
    "view out of rank 8": (VIEW, abs_then(VIEW, (*(1,) * 7, 8), [2, 4])),
    "conv, flatten 5x5, linear": (
        VIEW,
        behind_conv(
            8,
            lambda b, x: b.op("aten.mm.default", b.op(VIEW, x, [1, 200]), b.weight(200, 5)),
            size=5,
        ),
    ),
    "squeeze": (VIEW, abs_then("aten.squeeze_copy.dims", (2, 1, 9), [1])),
    "unsqueeze": (VIEW, abs_then("aten.unsqueeze_copy.default", (2, 9), 0)),
    "permute to channels-last": (PERMUTE, unary(PERMUTE, (1, 8, 8, 8), [0, 2, 3, 1])),
    "permute w 8": (PERMUTE, unary(PERMUTE, (1, 8, 1, 8), [0, 2, 3, 1])),
    "permute to channels-first": (PERMUTE, unary(PERMUTE, (1, 8, 8, 8), [0, 3, 1, 2])),
    "permute 4x2": (PERMUTE, unary(PERMUTE, (1, 4, 2, 8), [0, 3, 1, 2])),
    "permute of ones": (PERMUTE, unary(PERMUTE, (1, 8), [1, 0])),
    "permute rank 3 of ones": (PERMUTE, unary(PERMUTE, (1, 1, 8), [0, 2, 1])),
    "permute rank 4 of ones": (PERMUTE, unary(PERMUTE, (1, 1, 8, 8), [0, 2, 1, 3])),
    "permute trailing one": (PERMUTE, unary(PERMUTE, (8, 8, 8, 1), [3, 0, 1, 2])),
    "permute identity": (PERMUTE, unary(PERMUTE, (3, 5), [0, 1])),
    "permute before conv": (
        PERMUTE,
        lambda b: b.conv(b.op(PERMUTE, b.input(1, 5, 7, 3), [0, 3, 1, 2]), b.weight(4, 3, 1, 1), b.bias(4)),
    ),
    "permute behind conv": (PERMUTE, behind_conv(8, lambda b, x: b.op(PERMUTE, x, [0, 2, 3, 1]), size=3)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_just_inside(name: str) -> None:
    op, write = ACCEPTED[name]
    verdict = judge(write)
    assert op in verdict.tagged, verdict.reasons
    assert verdict.codes(op) == []


@pytest.mark.parametrize("name", REJECTED)
def test_just_outside(name: str) -> None:
    op, code, write = REJECTED[name]
    verdict = judge(write)
    assert op not in verdict.tagged
    assert code in verdict.codes(op)


SINGLE = [
    name
    for name in REJECTED
    if not name.startswith(("softmax", "conv, ", "sub", "transposed", "pad rank", "conv float"))
]


@pytest.mark.parametrize("name", SINGLE)
def test_one_violation_gives_one_reason(name: str) -> None:
    op, code, write = REJECTED[name]
    assert set(judge(write).codes(op)) == {code}


def test_a_quotient_without_elements_has_no_known_shape() -> None:
    """One that stays a division, as its divisor is computed."""
    verdict = judge(lambda b: b.op("aten.div.Tensor", b.input(0, 8), b.input(0, 8)))
    assert verdict.codes("aten.div.Tensor") == ["static_shape"]


@pytest.mark.parametrize("factors", [[1.0, 2.0], [1.0, 2.0, 1.0, 3.0, 1.0]])
def test_the_first_wrong_scale_of_a_bias_is_named(factors: list[float]) -> None:
    def write(b: Builder) -> fx.Node:
        scales = b.raw_constant(torch.tensor(factors) * 0.05 * 0.01)
        zero_points = b.raw_constant(torch.zeros(len(factors), dtype=torch.int64))
        codes = b.raw_constant(torch.zeros(len(factors), dtype=torch.int32))
        limits = (0, -(2**31), 2**31 - 1, torch.int32)
        bias = b.call(DEQUANTIZE_PER_CHANNEL, codes, scales, zero_points, *limits)
        return b.conv(b.input(1, 3, 8, 8), b.channel_weight(len(factors), 3, 3, 3), bias)

    partitioner = NeutronPartitioner()
    judge(write, partitioner)
    (found,) = (each.found for each in partitioner.rejections if each.code == "static_bias")
    assert found == "bias scale 0.00100000005, expected 0.000499999996 (output 1)"


def test_all_reasons_are_kept_in_order() -> None:
    write = max_pool((2, 7, 9, 9), [2, 2], [3, 3], [0, 0], [2, 2], True, q=OTHER)
    expected = ["dilation", "ceil_mode", "channels_multiple_of", "batch", "stride_h", "same_qparams"]
    assert judge(write).codes(POOL) == expected


OTHER_SCALE, OTHER_POINT = (0.06, 3, -128, 127, torch.int8), (0.05, 4, -128, 127, torch.int8)
NARROW = (0.05, 3, -127, 127, torch.int8)


@pytest.mark.parametrize(
    ("params", "codes"), [(ACTIVATION, []), *((q, ["quantized"]) for q in (OTHER_SCALE, OTHER_POINT, NARROW))]
)
def test_a_result_is_quantised_in_one_way_for_all_that_take_it(params: Params, codes: list[str]) -> None:
    def write(b: Builder) -> list[fx.Node]:
        result = b.call("aten.abs.default", b.input(1, 8))
        return [b.quantised(result), b.quantised(result, params)]

    assert judge(write).codes("aten.abs.default") == codes


def test_used_indices_are_refused() -> None:
    def write(b: Builder) -> list[fx.Node]:
        pooled = b.call(POOL, b.input(1, 8, 8, 8), [2, 2])
        return [b.quantised(b.item(pooled, 0)), b.item(pooled, 1)]

    assert judge(write).codes(POOL) == ["indices_unused"]


@pytest.mark.parametrize(
    ("shapes", "no_op_partitions", "codes"),
    [([(2, 7), (2, 9)], False, []), ([(2, 7)], True, []), ([(2, 7)], False, ["not_alone"])],
)
def test_force_delegate_cat(shapes: list[tuple[int, ...]], no_op_partitions: bool, codes: list[str]) -> None:
    """One tensor alone is the result already: nothing to compute."""
    options = CustomDelegationOptions(force_delegate_cat=True, allow_no_op_partitions=no_op_partitions)
    verdict = judge(cat(shapes, -1), NeutronPartitioner(custom_delegation_options=options))
    assert verdict.codes("aten.cat.default") == codes
    assert ("aten.cat.default" in verdict.tagged) == (not codes)


def test_force_delegate_cat_keeps_the_other_rules() -> None:
    options = CustomDelegationOptions(force_delegate_cat=True)
    verdict = judge(cat([(1, 7), (1, 9)], -1, q=OTHER), NeutronPartitioner(custom_delegation_options=options))
    assert verdict.codes("aten.cat.default") == ["same_qparams"]


def test_allow_no_op_partitions() -> None:
    options = CustomDelegationOptions(allow_no_op_partitions=True)
    verdict = judge(unary(VIEW, (2, 8), [4, 4]), NeutronPartitioner(custom_delegation_options=options))
    assert verdict.tagged == (VIEW,)


@pytest.mark.parametrize(("op", "neutral"), [("aten.add.Tensor", 0), ("aten.mul.Tensor", 1)])
def test_arithmetic_with_a_neutral_constant_is_a_no_op(op: str, neutral: int) -> None:
    params = (1.0, 0, -128, 127, torch.int8)

    def write(b: Builder, number: int) -> fx.Node:
        codes = b.raw_constant(torch.full((3, 8), number, dtype=torch.int8))
        return b.op(op, b.input(3, 8), b.call("quantized_decomposed.dequantize_per_tensor.default", codes, *params))

    assert judge(lambda b: write(b, neutral)).codes(op) == ["not_alone"]
    assert judge(lambda b: write(b, 5)).tagged == (op,)


@pytest.mark.parametrize("shared", [False, True])
def test_a_transposed_weight_that_others_take_too_is_computed(shared: bool) -> None:
    """The product alone has its weight transposed ahead of time."""
    b = Builder()
    x, transposed = b.input(2, 8), b.call("aten.permute_copy.default", b.weight(16, 8), [1, 0])
    product = b.call("aten.mm.default", x, transposed)
    others = [b.op("aten.abs.default", transposed)] if shared else []
    b.program(b.quantised(product), *others)
    assert (through_permute(product, transposed) is transposed) is shared


def test_a_permutation_of_real_numbers_is_no_weight() -> None:
    b = Builder()
    transposed = b.call("aten.permute_copy.default", b.raw_constant(torch.ones(16, 8)), [1, 0])
    product = b.call("aten.mm.default", b.input(2, 8), transposed)
    b.program(b.quantised(product))
    assert through_permute(product, transposed) is transposed


def test_zero_points_that_differ_are_both_named() -> None:
    b = Builder()
    x, y = (b.input(2, 8, 8, q=(0.1, zero_point, -128, 127, torch.int8)) for zero_point in (3, -5))
    partitioner = NeutronPartitioner(generate_neutron_compile_spec("imxrt700", release="1.4"))
    partitioned(b.program(b.op("aten.bmm.default", x, y)), partitioner)
    (found,) = (each.found for each in partitioner.rejections if each.code == "equal_zero_points")
    assert found == "zero points 3 and -5"


def test_a_shared_dequantize_must_stay_in_one_partition() -> None:
    def shared(passes: bool) -> Verdict:
        b = Builder()
        x = b.input(1, 8)
        program = b.program(b.op("aten.abs.default", x), b.op("aten.exp.default", x))
        return partitioned(program, passes=passes)

    assert shared(passes=False).codes("aten.abs.default") == ["quantized"]
    assert shared(passes=True).tagged == ("aten.abs.default",)


def test_found_values_and_sentences_are_readable() -> None:
    partitioner = NeutronPartitioner()
    judge(cat([(2, 7), (2, 9)], -1), partitioner)
    (reason,) = partitioner.rejections
    assert reason.node == "aten_cat_default"
    assert "has 7 channels, 8 MAC units" in reason.found
    assert reason.sentence == "the channel count must be a multiple of the number of MAC units"
