"""The spans of Ethos-U's device are the least and the largest result, of all numbers that the operands can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from npu_assay.partitioners.ethosu.device import spans
from npu_assay.partitioners.ethosu.tosa_model import TTensor

Span = tuple[int, int]
OPERANDS: list[Span] = [(-7, 5), (-3, -1), (2, 9), (0, 0), (-128, 127)]


@dataclass
class Given:
    """What a span is computed of."""

    spans: Sequence[Span]
    attributes: dict[str, int] = field(default_factory=dict)
    operands: dict[int, list[int]] = field(default_factory=dict)
    dtype: str = "INT32"
    x: Any = None

    @property
    def y(self) -> Any:
        return SimpleNamespace(dtype=self.dtype)

    def attribute(self, name: str) -> int:
        return self.attributes.get(name, 0)

    def number(self, position: int) -> int:
        return self.operands.get(position, [0])[0]

    def data(self, position: int) -> Any:
        return np.array(self.operands[position])


def span(of: Callable[..., Span], *operands: Span, **more: Any) -> Span:
    return of(Given(operands, **more))


def every(operand: Span) -> range:
    return range(operand[0], operand[1] + 1)


def ends(numbers: Sequence[int]) -> Span:
    return min(numbers), max(numbers)


TWO: dict[str, tuple[Callable[..., Span], Callable[[int, int], int]]] = {
    "ADD": (spans.total, lambda a, b: a + b),
    "SUB": (spans.difference, lambda a, b: a - b),
    "MUL": (spans.multiplied, lambda a, b: a * b),
    "MAXIMUM": (spans.larger, max),
    "MINIMUM": (spans.smaller, min),
}


@pytest.mark.parametrize("op", TWO)
@pytest.mark.parametrize("operands", list(product(OPERANDS[:4], repeat=2)), ids=str)
def test_of_two_operands(op: str, operands: tuple[Span, Span]) -> None:
    of, compute = TWO[op]
    assert span(of, *operands) == ends([compute(a, b) for a, b in product(*map(every, operands))])


@pytest.mark.parametrize("operand", OPERANDS, ids=str)
def test_of_one_operand(operand: Span) -> None:
    assert span(spans.magnitude, operand, (300, 301)) == ends([abs(v) for v in every(operand)])
    limits = {"min_val": -2, "max_val": 4}
    assert span(spans.limited, operand, (300, 301), attributes=limits) == ends(
        [min(max(v, -2), 4) for v in every(operand)]
    )
    assert span(spans.moved, operand, (300, 301)) == operand
    of = SimpleNamespace(shape=(2, 5))
    assert span(spans.summed, operand, (300, 301), attributes={"axis": 1}, x=of) == (operand[0] * 5, operand[1] * 5)


@pytest.mark.parametrize("dtype", ["INT8", "INT32"])
@pytest.mark.parametrize("operand", OPERANDS, ids=str)
def test_of_codes_that_are_rescaled(operand: Span, dtype: str) -> None:
    """By two multipliers; halves up."""
    pairs, zero_in, zero_out = [(3, 2), (5, 3)], -2, 11
    operands = {1: [m for m, _ in pairs], 2: [s for _, s in pairs], 3: [zero_in], 4: [zero_out]}
    every_end = [((v - zero_in) * m + 2 ** (s - 1)) // 2**s + zero_out for v, (m, s) in product(every(operand), pairs)]
    low, high = (-128, 127) if dtype == "INT8" else (-(2**31), 2**31 - 1)
    expected = ends([min(max(end, low), high) for end in every_end])
    assert span(spans.rescaled, operand, (300, 301), operands=operands, dtype=dtype) == expected
    for unsigned in ("input_unsigned", "output_unsigned"):
        assert span(spans.rescaled, operand, (300, 301), attributes={unsigned: 1}, dtype=dtype) == (low, high)


def test_of_several_and_of_tables() -> None:
    assert span(spans.joined, *OPERANDS[:3]) == (-7, 9)
    assert span(spans.looked_up, (-5, 5), (-3, 9), dtype="INT8") == (-3, 9)
    assert span(spans.looked_up, (-5, 5), (-3, 9)) == (-3 * 128, 9 * 128)
    assert span(spans.multiplied, (1, 2), (3, 4), operands={2: [5]}) == (-(2**31), 2**31 - 1)


def test_of_tensors() -> None:
    data = np.array([-3, 7], np.int8)
    assert spans.of_tensor(TTensor("a", (2,), "INT8", data)) == (-3, 7)
    assert spans.of_tensor(TTensor("a", (2,), "INT8")) == spans.of_type(TTensor("a", (2,), "INT8", data)) == (-128, 127)
    assert spans.of_tensor(TTensor("a", (2,), "BOOL", data.astype(bool))) == (0, 1)


@pytest.mark.parametrize(
    ("given", "fits"),
    [((-(2**31), 2**31 - 1), True), ((-(2**31) - 1, 0), False), ((0, 2**31), False)],
)
def test_what_fits_into_32_bits(given: Span, fits: bool) -> None:
    assert spans.fits(given) is fits
