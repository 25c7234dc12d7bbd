"""Rules and lowerings of Ethos-U at limits that no case of the table reaches alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ethosu_graphs import U55, U85, Builder, judge
from neutron_graphs import Builder as PlainBuilder
from torch import fx

from npu_assay.partitioners.ethosu.kernels import Unpredictable, codes
from npu_assay.partitioners.ethosu.kernels.linear import Product
from npu_assay.partitioners.ethosu.kernels.rescale import of_product
from npu_assay.partitioners.ethosu.lowering.model import ModelBuilder
from npu_assay.partitioners.ethosu.lowering.values import Value, mapped
from npu_assay.partitioners.ethosu.support.layout import _fits
from npu_assay.partitioners.ethosu.support.resize import Axis, _axis
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_TENSOR, QUANTIZE_PER_TENSOR

CONVOLUTION = "aten.convolution.default"


def _of_weights(b: Builder, *weights: int) -> fx.Node:
    """One output of inputs that lie 255 codes at most from their zero point; the ratio of scales is 10,000."""
    x = b.input(1, len(weights), 1, 1, q=(1.0, 127, -128, 127, torch.int8))
    w = b.raw_constant(torch.tensor(weights, dtype=torch.int8).view(1, -1, 1, 1))
    one = b.call(DEQUANTIZE_PER_TENSOR, w, 0.01, 0, -127, 127, torch.int8)
    return b.conv(x, one, None, (1e-6, 0, -128, 127, torch.int8))


def test_sums_of_weights_up_to_their_limit() -> None:
    """Multipliers of that ratio take numbers below 2**16: 255 * 257 is one less. No bias adds nothing."""
    assert judge(lambda b: _of_weights(b, 127, 127, 3), U85).of(CONVOLUTION) == []
    assert judge(lambda b: _of_weights(b, 127, 127, 4), U85).of(CONVOLUTION) == ["rescale"]


def test_a_result_that_is_quantized_in_several_ways() -> None:
    def write(b: Builder) -> list[fx.Node]:
        x = b.call("aten.abs.default", b.input(1, 8))
        finer = (0.01, 0, -128, 127, torch.int8)
        return [b.quantised(x), b.call(DEQUANTIZE_PER_TENSOR, b.call(QUANTIZE_PER_TENSOR, x, *finer), *finer)]

    verdict = judge(write, U85)
    assert verdict.of("aten.abs.default") == ["quantized_outputs"]
    assert [r.found for r in verdict.partitioner.rejections] == ["quantized in several ways"]


@pytest.mark.parametrize(
    ("sizes", "order", "wide", "fits"),
    [
        ((1, 300, 300, 3), [0, 2, 1, 3], False, True),
        ((2, 300, 300, 3), [0, 2, 1, 3], False, False),  # images that are not kept apart: any two dimensions count
        ((1, 2, 3, 16384), [0, 2, 1, 3], True, True),
        ((1, 2, 3, 16385), [0, 2, 1, 3], True, False),  # a quarter of 8 bits
        ((1, 2, 3, 65536), [0, 2, 1, 3], False, True),
        ((1, 2, 3, 65537), [0, 2, 1, 3], False, False),
    ],
)
def test_turned_images_up_to_their_limit(sizes: tuple[int, ...], order: list[int], wide: bool, fits: bool) -> None:
    assert _fits(sizes, order, wide) is fits


def test_a_denominator_has_15_bits() -> None:
    """At the smallest scale, which one resize may have."""
    assert Axis(4, 1, 2048, 32768, 0).defect(included=True) == "scale 2048/32768"
    assert Axis(4, 1, 1, 16, 0).defect(included=True) != "scale 1/16"


def test_what_is_made_of_a_constant_is_a_constant() -> None:
    """In whatever layout it lies: a constant may be a weight."""
    model, data = ModelBuilder(), np.array([[1, 2]], dtype=np.int8)
    made = mapped(model, Value("x", (1, 2), "INT8", data=data), "y", lambda name: model.constant("y", -data, "INT8"))
    assert made.data is not None and made.data.tolist() == [[-1, -2]]
    value = Value("z", (1, 2), "INT8", tensors={(0, 1): model.tensor("z", (1, 2), "INT8")})
    assert mapped(model, value, "w", lambda name: model.constant("w", data, "INT8")).data is None


def test_sums_that_tosa_leaves_undefined_are_told_behind_offsets() -> None:
    """2**30 and a shift of 2 take sums from -2 to 1; terms that small are exact in float64."""
    kernel = of_product(Product(lambda raw: raw, 100, torch.tensor([1]), raw=10), [1 << 30], [2], codes("INT8"))
    assert kernel(torch.tensor([[0]], dtype=torch.int32)).tolist() == [[127]]
    with pytest.raises(Unpredictable, match="RESCALE accumulator is 2"):
        kernel(torch.tensor([[1]], dtype=torch.int32))


def test_indices_that_are_summed_in_32_bits_are_64_bit_integers() -> None:
    """No conversion takes them: the sum does."""
    summed = "aten.sum.dim_IntList"
    verdict = judge(lambda b: b.call(summed, b.call("aten.argmax.default", b.input(2, 8), 1), [0], dtype=torch.int32))
    assert "no_int64" in verdict.of(summed)


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [((2, 5), (8, 2)), ((5, 2), (2, 8)), ((3, 5), (4, 2)), ((1, 5), (10, 2)), ((5, 1), (2, 10))],
)
def test_aligned_corners_need_two_pixels_on_either_side(sizes: tuple[int, int], scale: tuple[int, int]) -> None:
    """Twice the ratio of distances from the first to the last pixel; of sizes where there is no distance."""
    assert _axis(*sizes, corners=True, nearest=False, factor=None) == Axis(*sizes, *scale, 0)


@pytest.mark.parametrize(("op", "argument"), [("aten.argmax.default", 1), ("aten.gt.Scalar", 0.5)])
def test_integers_that_are_made_of_numbers_need_the_quantizers_mark(op: str, argument: float) -> None:
    verdict = judge(lambda b: PlainBuilder.call(b, op, b.input(2, 8), argument), U85)
    assert "quantized" in verdict.of(op)


@pytest.mark.parametrize(
    ("sizes", "indices", "fits"),
    [
        ((2, 7), (2, 3), True),
        ((2, 7), (1, 3), False),
        ((2, 7, 5), (2, 3, 5), True),
        ((2, 7, 5), (2, 3, 4), False),
        ((2, 7, 5), (1, 3, 5), False),
        ((2, 7, 5, 4), (2, 3, 5, 4), False),
    ],
)
def test_rows_are_gathered_of_each_batch_whole(sizes: tuple[int, ...], indices: tuple[int, ...], fits: bool) -> None:
    gather = "aten.gather.default"
    verdict = judge(lambda b: b.call(gather, b.input(*sizes), 1, b.integers(*indices)), U85)
    assert ("index_shape" not in verdict.of(gather)) is fits


@pytest.mark.parametrize("target", [U55, U85])
@pytest.mark.parametrize("computed", range(3), ids=["codes", "scales", "zero points"])
def test_weights_with_a_scale_per_channel_are_constants_whole(computed: int, target: str) -> None:
    """Codes, scales and zero points alike: the compiler knows no weights that are told at run time."""

    def write(b: Builder) -> fx.Node:
        data = [torch.ones(3, 4, dtype=torch.int8), torch.ones(3), torch.zeros(3, dtype=torch.int32)]
        given = [b.raw_constant(each) for each in data]
        given[computed] = b.integers(*data[computed].shape, dtype=data[computed].dtype)
        weight = b.call(DEQUANTIZE_PER_CHANNEL, *given, 0, -127, 127, torch.int8)
        return b.op("aten.linear.default", b.input(2, 4), weight)

    assert "per_tensor" in judge(write, target).of("aten.linear.default")
