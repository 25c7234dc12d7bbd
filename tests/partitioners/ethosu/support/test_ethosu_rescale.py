"""What the Ethos-U partitioner asks of ratios between scales, and the accumulators that it takes them for."""

from __future__ import annotations

import pytest
import torch
from ethosu_graphs import U85, Builder, judge
from neutron_graphs import Params
from torch import fx

from npu_assay.partitioners.ethosu.support.linear import largest_sum
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR

LINEAR, CONVOLUTION = "aten.linear.default", "aten.convolution.default"
BIAS = (0.0005, 0, -(2**31), 2**31 - 1, torch.int32)
WEIGHT = (0.01, 0, -127, 127, torch.int8)


def constant(b: Builder, numbers: list[int] | torch.Tensor, params: Params) -> fx.Node:
    codes = b.raw_constant(torch.as_tensor(numbers).to(params[4]))
    return b.call(DEQUANTIZE_PER_TENSOR, codes, *params)


@pytest.mark.parametrize("bias", [None, [0, 0, 0], [-1000, 500, 0], [500, 0, 1000]])
@pytest.mark.parametrize("transposed", [False, True])
def test_an_accumulator_is_bound_by_the_weights_of_an_output_and_the_bias(
    bias: list[int] | None, transposed: bool
) -> None:
    """Weights of one output add up; of a transposed convolution the outputs are the second axis."""
    weights = torch.tensor([[3, -4], [1, 1], [-7, 7]])
    b = Builder()
    given = (weights.T if transposed else weights)[..., None, None]
    x = b.input(1, 2, 4, 5)
    offset = None if bias is None else constant(b, bias, BIAS)
    product = b.conv(x, constant(b, given, WEIGHT), offset, q=None, transposed=transposed)
    found = largest_sum(product, 200, Context({}, constants=b.constants))
    assert found == 200 * 14 + (0 if bias is None else 1000 if any(bias) else 0)


@pytest.mark.parametrize(("scale", "steps"), [(None, 0), (0.0005, 1000), (0.5, 1_000_000), (50000.0, 10**11)])
def test_weights_that_are_not_known_may_all_be_as_large_as_can_be(scale: float | None, steps: int) -> None:
    """The bias counts in steps of the product, 0.05 * 0.01; sums of int16 have more than 32 bits."""
    b = Builder()
    x, codes = b.input(2, 6), b.input(3, 6)
    weight = b.call(DEQUANTIZE_PER_TENSOR, codes.args[0], *WEIGHT)
    offset = None if scale is None else constant(b, [-1000, 0, 3], (scale, *BIAS[1:]))
    found = largest_sum(b.call(LINEAR, x, weight, offset), 200, Context({}, constants=b.constants))
    assert found == pytest.approx(200 * 128 * 6 + steps, abs=1)


@pytest.mark.parametrize(("scale", "fits"), [(0.05, True), (2.0**-40, False), (2.0**20, True)])
def test_codes_that_get_another_scale_alone(scale: float, fits: bool) -> None:
    """RESCALE's shift has an end."""

    def write(b: Builder) -> fx.Node:
        return b.quantised(b.input(2, 3), (scale, 0, -128, 127, torch.int8))

    codes = judge(write, U85).partitioner.rejections
    assert ("rescale" not in [found.code for found in codes]) is fits
