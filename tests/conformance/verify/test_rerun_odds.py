"""How often a draw of some cases misses what was changed: the formula, the draw itself, and what the pages say."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from places import ROOT

from npu_assay.conformance.verify.rerun import chosen, missed

PAGE = ROOT / "docs" / "reading-a-certificate.md"
NEUTRON = 3913  # cases of the record that the page speaks of
DRAWS = 3000
LARGE, SMALL = [f"large/{number}" for number in range(200)], [f"small_{number}/only" for number in range(40)]
CASES = [*LARGE, *SMALL]
"""A table with one large row and forty of one case: taken in turns, the large one gave one case in forty."""


def by_hand(known: int, ran: int, changed: int) -> float:
    """One drawn case after the other is none of the changed ones."""
    found = Fraction(1)
    for number in range(ran):
        found *= Fraction(max(0, known - changed - number), known - number)
    return float(found)


@pytest.mark.parametrize(
    "known, ran, changed", [(240, 50, 1), (240, 50, 3), (240, 240, 1), (5, 3, 3), (3913, 300, 39), (3913, 1, 3913)]
)
def test_the_formula_is_that_of_draws_one_after_the_other(known: int, ran: int, changed: int) -> None:
    assert missed(known, ran, changed) == pytest.approx(by_hand(known, ran, changed), abs=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "changed",
    [LARGE[:1], SMALL[:1], LARGE[:5], SMALL[:5], [*LARGE[-3:], *SMALL[-2:]], LARGE[::20]],
    ids=["one of the large row", "a small row", "five of one row", "five rows", "both", "ten of one row"],
)
@pytest.mark.parametrize("ran", [12, 60])
def test_draws_miss_as_often_as_the_formula_says(changed: list[str], ran: int) -> None:
    """Wherever the changed cases are. Within four standard deviations; the seeds are always the same."""
    expected = by_hand(len(CASES), ran, len(changed))
    found = sum(not {*changed} & {*chosen(CASES, ran, draw)} for draw in range(DRAWS)) / DRAWS
    assert found == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / DRAWS))


def test_rows_are_drawn_in_proportion() -> None:
    drawn = [name for draw in range(DRAWS) for name in chosen(CASES, 12, draw)]
    share = sum(name in LARGE for name in drawn) / len(drawn)
    assert share == pytest.approx(len(LARGE) / len(CASES), abs=0.02)


def test_the_page_gives_these_odds() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"{NEUTRON:,} cases, in times of 100" in " ".join(text.split())
    (heads,) = re.findall(r"^  \| changed \|(.*)\|$", text, re.MULTILINE)
    counts = [int(count) if count else NEUTRON for count in re.findall(r"`--rerun ?(\d*)`", heads)]
    rows = re.findall(r"^  \| (\d+) cases?[^|]*\|(.*)\|$", text, re.MULTILINE)
    assert [int(changed) for changed, _ in rows] == [1, 10, 39] and len(counts) == 4
    for changed, told in rows:
        odds = [100 * by_hand(NEUTRON, ran, int(changed)) for ran in counts]
        assert [float(each) for each in told.split("|")] == [round(each, 1) for each in odds], changed
