"""Numbers that tell: every code, extremes, ramps, single elements, pairs of quantizations that tell roundings apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from npu_assay.conformance.cases.drafts import CaseDraft, valued
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Prefix, bare, quant
from npu_assay.conformance.cases.permitted import wide
from npu_assay.conformance.cases.pieces.spelling import INTEGERS
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.programs.graph import Fill, Quant, Value

ZERO_POINTS = (-128, 0, 127)
# Every code once, neighbors far apart.
SCATTERED = Fill("list", values=tuple(float((37 * index) % 256 - 128) for index in range(256)))
FILLS: Sequence[tuple[str, Fill]] = (
    ("all_min", Fill("min")),
    ("all_max", Fill("max")),
    ("alternating", Fill("alternating")),
    ("ramp", Fill("ramp")),
)


def fills(u: Call, prefix: Prefix = bare, label: str = "") -> list[CaseDraft]:
    """Uniform extremes, alternating extremes, and a ramp, which shows exchanged axes."""
    return [valued(f"{name}{label}", u.with_x(fill=fill), prefix) for name, fill in FILLS]


def one_hots(u: Call, prefix: Prefix = bare, label: str = "", spots: int = 4) -> list[CaseDraft]:
    """A single nonzero element at the corners and in between: shows wrong axes and padding."""
    count = 1
    for size in u.x.shape:
        count *= size
    indices = sorted({round(spot * (count - 1) / max(1, spots - 1)) for spot in range(spots)})
    return [valued(f"one_hot_at_{i}{label}", u.with_x(fill=Fill("one_hot", index=i)), prefix) for i in indices]


def numbers(subject: Subject, precision: str, limits: Limits) -> Iterable[CaseDraft]:
    """Uniform extremes, alternating extremes, a ramp; on plain integers a few numbers."""
    u = subject.call(precision)
    if precision != INTEGERS:
        return fills(u, subject.prefix)
    listed = (0.0, 1.0) if u.x.dtype == "bool" else (1.0, 0.0, 5.0, 2.0, 7.0, 3.0, 4.0)
    return [valued("few_numbers", u.with_x(fill=Fill("list", values=listed)), subject.prefix)]


def zero_points(u: Call, prefix: Prefix = bare, label: str = "") -> list[CaseDraft]:
    """Input and output share their parameters; zero points at both ends and in the middle."""
    return [
        valued(f"zero_point_{zero}{label}", u.requantized(q, q), prefix)
        for zero in ZERO_POINTS
        for q in [quant(0.05, zero)]
    ]


def layout_values(u: Call, prefix: Prefix = bare, label: str = "") -> list[CaseDraft]:
    """Numbers for an operator that moves or pools values without rescaling them."""
    return [*fills(u, prefix, label), *one_hots(u, prefix, label), *zero_points(u, prefix, label)]


def all_codes(
    u: Call, pairs: Iterable[tuple[Quant, Quant]], prefix: Prefix = bare, label: str = "", multiple: int = 8
) -> list[CaseDraft]:
    """Every one of the 256 codes, for pairs of input and output quantization; channels in multiples of `multiple`."""
    every = u.with_x(shape=wide(multiple)).with_x(fill=SCATTERED)
    return [valued(f"all_codes{label}_{named(x)}_to_{named(y)}", every.requantized(x, y), prefix) for x, y in pairs]


def lut_inputs(scales: Sequence[float] = (2.0**-9, 0.02, 0.0625, 0.5)) -> list[Quant]:
    """Input quantizations for operators that are tables of 256 entries."""
    return [quant(scale, zero) for scale in scales for zero in ZERO_POINTS]


def rescaling_pairs(gain: float = 1.0, follow: Callable[[int], int] = int) -> list[tuple[Quant, Quant]]:
    """Quantizations that try a rescale: zero points at the ends, ties, saturation, extreme scales.

    `gain` is the operator's largest |output| / |input|, and `follow` the output zero point that
    fits an input zero point; together they make "fits" mean what it says.
    """
    fits = [(quant(0.05, zero), quant(0.06 * gain, follow(zero))) for zero in ZERO_POINTS]
    ends = [(quant(0.05, zero), quant(0.11 * gain, 0)) for zero in (-128, 127)]
    moved = [(quant(0.05, 0), quant(0.11 * gain, zero)) for zero in (-128, -90, 90)]
    ties = [(quant(0.0625, z), quant(ratio * 0.0625 * gain, follow(z))) for z in (0, -5) for ratio in (2, 4)]
    saturates = [(quant(0.05, 3), quant(0.01 * gain, 0)), (quant(0.05, -100), quant(0.02 * gain, -60))]
    extreme = [(quant(2.0**-10, 7), quant(2.0**-10 * gain, follow(7))), (quant(4.0, 7), quant(5.0 * gain, follow(7)))]
    return [*fits, *ends, *moved, *ties, *saturates, *extreme]


def named(q: Quant) -> str:
    """A quantization in a case id: `s0.05z3`."""
    assert isinstance(q.scale, float)
    return f"s{q.scale:.4g}z{q.zero_point}"


RAMP = Fill("ramp")


def float_layout_values(u: Call) -> Iterator[CaseDraft]:
    """A ramp and single numbers: exchanged axes show."""
    yield valued("ramp", u.with_x(fill=RAMP))
    yield from one_hots(u, spots=3)


WIDE_SCATTERED = Fill("list", values=tuple(float((40503 * index) % 65536 - 32768) for index in range(256)))
# Halves, thirds, neighbors of whole numbers, small and large numbers of both signs, zeros of both signs.
TELLING = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1 / 3, -1 / 3, 0.9995, -0.9995, 1.0005, 3.0, -3.0, 6.0, -6.0)
POSITIVE_NUMBERS = Fill("list", values=(0.25, 1.0, 3.5, 2.0**-10, 0.1, 7.75, 100.0, 1.5, 0.6875, 12.0))
SMALL_NUMBERS = Fill("list", values=(0.25, -0.5, 0.125, 0.375, -0.25, 0.5, 0.0625))
SMALL_POSITIVE = Fill("list", values=(0.25, 0.5, 0.125, 0.375, 0.75, 1.0, 0.0625))


def small_numbers(x: Value) -> Fill:
    """Numbers for operands of a product whose results stay small, and positive where `x` was to be."""
    return SMALL_POSITIVE if is_positive(x.fill) else SMALL_NUMBERS


def is_positive(fill: Fill) -> bool:
    """Whether all listed numbers are above zero."""
    return fill.kind == "list" and all(number > 0 for number in fill.values)


def other_numbers(fill: Fill) -> Fill:
    """Other numbers than `fill`, positive where those are."""
    return SMALL_POSITIVE if is_positive(fill) else Fill("ramp")
