"""The largest numbers that TOSA graphs and Ethos-U's kernels hold, on either side of each limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tosa_building import Building, Program

from npu_assay.partitioners.common.machine import UnpredictableError
from npu_assay.partitioners.ethosu.kernels import codes, linear
from npu_assay.partitioners.ethosu.runtime import load_model
from npu_assay.partitioners.ethosu.tosa_format import FormatError, write
from npu_assay.partitioners.ethosu.tosa_model import TModel
from tests.partitioners.ethosu.test_tosa_model_broken import CUT, MAX, _attributes, _shape

SIDES = [(2**31 - 1, True), (2**30, True), (-(2**31) + 1, True), (-(2**30), True), (2**31, False), (-(2**31), False)]
NUMBERS: dict[str, tuple[Callable[[int], TModel], str]] = {
    "attribute": (lambda number: _attributes(MAX, axis=number), "a value of that attribute's type"),
    "shape": (lambda number: _shape(CUT, 0, number, 0), "of 32 bits"),
}


@pytest.mark.parametrize("what", NUMBERS)
@pytest.mark.parametrize(("number", "held"), SIDES)
def test_numbers_have_32_bits(what: str, number: int, held: bool) -> None:
    """Such an axis and such a start are refused in any case; one that is held, for what it means."""
    make, says = NUMBERS[what]
    with pytest.raises(FormatError) as caught:
        write(make(number))
    assert (says not in str(caught.value)) is held


@pytest.mark.parametrize(("depth", "bits"), [(3, 31), (3, 40), (1 << 17, 31), (1 << 18, 31), (1 << 20, 47)])
@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
def test_accumulators_of_matrices_have_a_bound(dtype: str, depth: int, bits: int) -> None:
    """As many products as numbers lie along the axis, or all that the accumulator holds."""
    a, b = codes(dtype, 0), codes(dtype, 0)
    largest = depth * (2**7 if dtype == "INT8" else 2**15) ** 2
    assert linear.matmul(a, b, depth, bits)[1] == min(largest, 2**bits)


def below(bias: int, limit: int) -> Program:
    """The smaller of a convolution's sum, its bias, and a limit; added to itself."""
    b = Building()
    zero, image = b.constant([0], "INT8"), b.input(np.zeros((1, 1, 1, 1)), "INT8")
    weights, offset = b.constant(np.ones((1, 1, 1, 1)), "INT8"), b.constant([bias], "INT32")
    window: dict[str, Any] = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1)}
    acc = b.apply("CONV2D", image, weights, offset, zero, zero, acc_type="INT32", **window)
    smaller = b.apply("MINIMUM", acc, b.constant([[[[limit]]]], "INT32"), nan_mode="PROPAGATE")
    return b.program(b.apply("ADD", smaller, smaller))


def run(program: Program) -> int:
    (found,) = load_model(program.model).run([torch.from_numpy(each) for each in program.inputs])
    return int(found)


def test_sums_of_products_go_as_far_below_zero_as_above() -> None:
    assert run(below(-(2**30), 5)) == -(2**31)
    with pytest.raises(UnpredictableError, match="ADD result is past 32 bits"):
        run(below(-(2**30) - 1, 5))
