"""Rules of upsampling: what RESIZE can express.

TOSA 1.0: a position is (out * scale_d + offset) / scale_n; scales are doubled so that half pixels are whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from torch import fx

from npu_assay.partitioners.ethosu.support.common import is_named
from npu_assay.partitioners.ethosu.support.linear import on_u55
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import argument, operand, shape, size_text
from npu_assay.partitioners.exir.rules import rule

NEAREST = "aten.upsample_nearest2d.vec"
MAX_RESIZED = 16384
MAX_NUMERATOR = 2048
MAX_SCALE = 256
SMALLEST = Fraction(1, 16)
INT16 = 2**15
MAX_DENOMINATOR = 10**6


@dataclass(frozen=True)
class Axis:
    """One axis of RESIZE: sizes, scale numerator and denominator, offset and border."""

    before: int
    after: int
    numerator: int
    denominator: int
    offset: int

    @property
    def border(self) -> int:
        """What makes the output as large as it is."""
        return self.denominator * (self.after - 1) - self.numerator * (self.before - 1) + self.offset

    def defect(self, included: bool = False) -> str | None:
        """What RESIZE cannot express, or None; `included` allows the smallest scale itself."""
        n, d = self.numerator, self.denominator
        scale = Fraction(n, d)
        if max(self.before, self.after) >= MAX_RESIZED or self.after < 1:
            return f"{self.before} to {self.after}"
        if n > MAX_NUMERATOR or d >= INT16 or scale > MAX_SCALE or (scale <= SMALLEST and not included):
            return f"scale {n}/{d}"
        if not -n <= self.offset < 16 * n:
            return f"offset {self.offset} of scale {n}/{d}"
        if not (-16 * n <= self.border < n and -INT16 <= self.border < INT16):
            return f"border {self.border} of scale {n}/{d}"
        expected = ((self.before - 1) * n - self.offset + self.border) // d + 1
        return None if expected == self.after else f"{self.after} outputs instead of {expected}"


def axes(node: fx.Node) -> list[Axis]:
    """Height and width."""
    nearest = is_named(node, NEAREST)
    corners = False if nearest else bool(argument(node, 2, "align_corners"))
    factors = None if corners else argument(node, 2 if nearest else 3, "scale_factors")
    pairs = zip(shape(operand(node))[2:], shape(node)[2:], factors or (None, None), strict=True)
    return [_axis(before, after, corners, nearest, factor) for before, after, factor in pairs]


def _axis(before: int, after: int, corners: bool, nearest: bool, factor: float | None) -> Axis:
    inner = corners and before > 1 and after > 1
    ratio = Fraction(after - 1, before - 1) if inner else Fraction(after, before)
    if factor is not None:
        # What a float32 was meant to be.
        ratio = Fraction(factor).limit_denominator(MAX_DENOMINATOR)
    n, d = 2 * ratio.numerator, 2 * ratio.denominator
    if corners:
        offset = 0
    elif nearest and ratio.denominator != 1:
        offset = -(n // 2)
    else:
        offset = d // 2 - n // 2
    return Axis(before, after, n, d, offset)


@rule("resize")
def resize(node: fx.Node, context: Context) -> str | None:
    """the scaling must be one that RESIZE can express"""
    # Bilinear scaling to exactly 1/16 is an average of the four pixels in the middle instead.
    found = axes(node)
    defects = [one.defect() for one in found]
    if not any(defects) or _is_sixteenth(node, found):
        return None
    return next(text for text in defects if text is not None)


def _is_sixteenth(node: fx.Node, found: list[Axis]) -> bool:
    if is_named(node, NEAREST) or argument(node, 2, "align_corners"):
        return False
    return all(one.denominator == 16 * one.numerator and one.defect(included=True) is None for one in found)


@on_u55
@rule("batch")
def single_image(node: fx.Node, context: Context) -> str | None:
    """the batch size must be 1"""
    found = shape(operand(node))[0]
    return None if found == 1 else f"batch size {found}"


@on_u55
@rule("resize_scale")
def doubled(node: fx.Node, context: Context) -> str | None:
    """height and width must both be scaled by 2, 4 or 8"""
    factors = argument(node, 2, "scale_factors")
    before, after = shape(operand(node))[2:], shape(node)[2:]
    if factors is not None:
        fits = len(factors) == 2 and factors[0] == factors[1] and factors[0] in (2, 4, 8)
    else:
        fits = any(after == (before[0] * scale, before[1] * scale) for scale in (2, 4, 8))
    return None if fits else f"{size_text(before)} to {size_text(after)}"
