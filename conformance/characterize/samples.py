"""What results say of rounding: how many are not the nearest code, on which side, where, and where ties go."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

CELLS = 16
"""Parts of the way from one code to the next that are told apart, below zero and above."""
NEAR = 2.0**-30
"""Nearer to a tie than that, a result is none of ours unless it is exactly on it."""
NEAREST = 0.51
"""The distance to the exact result up to which a code is taken for the nearest, in arithmetic of few bits."""
Z = 2.5758293035489
"""Standard deviations of the interval: 99 % of a normal distribution."""
RULE = 4.605170185988091
"""-ln(0.01): none in n results leaves a share of at most RULE / n, with 99 %."""
SIGMAS, EVENTS = 5.0, 5.0
"""By how much a count must exceed what was expected: standard deviations, and results."""
AWAY, ZERO, UP, DOWN, EVEN, ODD = "away from zero", "toward zero", "up", "down", "to even", "to odd"
EVEN_CODE = "to even codes, zero point included"
TIES = "ties go"
RULES = (AWAY, ZERO, UP, DOWN, EVEN, ODD)


@dataclass(frozen=True)
class Ties:
    """Ties by sign, parity of the lower code and side: up[sign][parity] and down[sign][parity]; far: to no neighbor.

    Codes count from the zero point. odd: that is odd, so that an even code is an odd number of steps from it.
    """

    up: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    down: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    far: int = 0
    odd: bool = False

    def __add__(self, other: Ties) -> Ties:
        up, down = (
            tuple(tuple(a + b for a, b in zip(x, y, strict=True)) for x, y in zip(mine, theirs, strict=True))
            for mine, theirs in ((self.up, other.up), (self.down, other.down))
        )
        return Ties(up, down, self.far + other.far, self.odd or other.odd)  # type: ignore[arg-type]

    @property
    def count(self) -> int:
        """All ties."""
        return sum(map(sum, (*self.up, *self.down))) + self.far

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that all ties keep; empty where they are mixed, all where there are none."""
        kept = () if self.far else tuple(rule for rule in RULES if self._keeps(rule))
        return tuple(EVEN_CODE if rule == ODD and self.odd else rule for rule in kept)

    def _keeps(self, rule: str) -> bool:
        places = [(sign, parity) for sign in (0, 1) for parity in (0, 1)]
        return not any((self.down if goes_up(rule, *at) else self.up)[at[0]][at[1]] for at in places)


def goes_up(rule: str, positive: int, odd: int) -> bool:
    """True if a tie of that sign, over a code of that parity, goes up under a rule."""
    return {AWAY: bool(positive), ZERO: not positive, UP: True, DOWN: False, EVEN: bool(odd), ODD: not odd}[rule]


@dataclass(frozen=True)
class Programs:
    """Sums over programs, of each one's drift and results: one scale may lean to a side as a whole."""

    count: int = 0
    drifts: float = 0.0  # squared
    products: float = 0.0
    sizes: float = 0.0  # squared

    def __add__(self, other: Programs) -> Programs:
        return Programs(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    def half_width(self, bias: float, results: int) -> float:
        """Half of the interval of the bias if each program counts as one: 99 %, Student's t; 0 for one program."""
        if self.count < 2:
            return 0.0
        free = self.count - 1
        t = Z * (1 + (Z**2 + 1) / (4 * free) + (5 * Z**4 + 16 * Z**2 + 3) / (96 * free**2))
        squares = self.drifts - 2 * bias * self.products + bias**2 * self.sizes
        return t * math.sqrt(max(0.0, squares) * self.count / free) / results


@dataclass(frozen=True)
class Sample:
    """Counts over different results. count, up, down: by cell, of results, and of those above and below the nearest.

    far: those that are off by more than one code. drift: the sum of code minus nearest, squares: of its square.
    most: the largest distance to the exact result in LSB. lost: results that are no code. between: exact results that
    are no code; floors, ceilings, cuts: of these, by the next code below, above or toward zero. largest: of the exact
    results, without the sign.
    """

    count: Tensor
    up: Tensor
    down: Tensor
    far: int = 0
    drift: float = 0.0
    squares: float = 0.0
    most: float = 0.0
    ties: Ties = Ties()
    lost: int = 0
    between: int = 0
    floors: int = 0
    ceilings: int = 0
    cuts: int = 0
    largest: float = 0.0
    programs: Programs = Programs()

    def __add__(self, other: Sample) -> Sample:
        both = {key: (getattr(self, key), getattr(other, key)) for key in vars(self)}
        return Sample(**{key: max(a, b) if key in ("most", "largest") else a + b for key, (a, b) in both.items()})

    @property
    def results(self) -> int:
        """Different results, but for ties."""
        return int(self.count.sum())

    @property
    def wrong(self) -> int:
        """The results that are not the nearest code."""
        return int(self.up.sum() + self.down.sum())

    @property
    def share(self) -> float:
        """The share of these."""
        return self.wrong / self.results if self.results else 0.0

    @property
    def bias(self) -> float:
        """The mean of code minus exact result, less that of the nearest codes, whose mean is zero, in LSB."""
        return self.drift / self.results if self.results else 0.0

    @property
    def half_width(self) -> float:
        """Half of the interval of the bias: 99 %, from results and from programs, whichever is wider.

        It is no less than what as many results without a difference leave open.
        """
        n = max(1, self.results)
        alone = Z * math.sqrt(max(0.0, self.squares / n - self.bias**2) / n)
        return max(alone, self.programs.half_width(self.bias, n), RULE / n)

    def bias_of(self, positive: bool) -> float:
        """The bias of results on one side of zero."""
        part = slice(CELLS, None) if positive else slice(CELLS)
        count = int(self.count[part].sum())
        return int(self.up[part].sum() - self.down[part].sum()) / count if count else 0.0


def nothing() -> Sample:
    """The sample of no results."""
    none = torch.zeros(2 * CELLS, dtype=torch.int64)
    return Sample(none, none, none)


def sample(exact: Tensor, found: Tensor, low: int, high: int, zero_point: int = 0) -> Sample:
    """What results say, each pair of an exact result and a code once.

    low, high: the codes at the ends, without the zero point: there results are clipped, which is no rounding.
    """
    lost = int(found.isnan().sum())
    inside = (exact > low + 0.5) & (exact < high - 0.5) & ~found.isnan()
    pairs = torch.unique(torch.stack([exact[inside], found[inside]]), dim=1)
    exact, found = pairs
    part = exact - exact.floor()
    tie, near = part == 0.5, (part - 0.5).abs() < NEAR
    made = _counted(exact[~near], found[~near])
    return replace(made, ties=_ties(exact[tie], found[tie], zero_point), lost=lost)


def _counted(exact: Tensor, found: Tensor) -> Sample:
    off = found - exact.round()
    cell = ((exact - exact.floor()) * CELLS).to(torch.int64).clamp(0, CELLS - 1) + CELLS * (exact > 0)
    count, up, down = (torch.bincount(cell[which], minlength=2 * CELLS) for which in (off == off, off > 0, off < 0))
    whole = exact == exact.round()
    floors, ceilings, cuts = (int(((found == way(exact)) & ~whole).sum()) for way in WAYS)
    return Sample(
        count,
        up,
        down,
        int((off.abs() > 1).sum()),
        float(off.sum()),
        float(off.square().sum()),
        float((found - exact).abs().max()) if exact.numel() else 0.0,
        between=int((~whole).sum()),
        floors=floors,
        ceilings=ceilings,
        cuts=cuts,
        largest=float(exact.abs().max()) if exact.numel() else 0.0,
        programs=Programs(1, float(off.sum()) ** 2, float(off.sum()) * off.numel(), float(off.numel()) ** 2),
    )


WAYS = (torch.floor, torch.ceil, torch.trunc)
"""Ways of getting codes without rounding to the nearest."""


def _ties(exact: Tensor, found: Tensor, zero_point: int) -> Ties:
    low = exact.floor()
    positive, odd = (exact > 0).to(torch.int64), (low.remainder(2)).to(torch.int64)
    place = 2 * positive + odd

    def by_place(which: Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
        a, b, c, d = torch.bincount(place[which], minlength=4).tolist()
        return (a, b), (c, d)

    up, down = found == low + 1, found == low
    return Ties(by_place(up), by_place(down), int((~up & ~down).sum()), zero_point % 2 == 1)


# ------------------------------------------------------------------------------------ changes


def change(before: Sample, now: Sample, sure: bool = True) -> str:
    """How results differ from earlier ones in what rounding does, in words; "" where they do not.

    Between the same two parts of the way from code to code, more results must be wrong than chance explains. Fewer are
    no change: every scheme gets better with more dropped bits. sure: False where something is known to change, so that
    one wrong result counts.
    """
    if not sure and before.most < NEAREST < now.most:
        return told(before, now)
    if now.ties.count and before.ties.count and before.ties.rules and not set(now.ties.rules) & set(before.ties.rules):
        return f"{TIES} {rule_text(before.ties)}, then {rule_text(now.ties)}"
    known = before.count > 0
    for old, new in ((before.up, now.up), (before.down, now.down)):
        rate = (old + 1) / (before.count + 2).clamp(min=1)
        expected, found = (now.count * rate)[known], new[known]
        if bool(_more(found, expected).any()):
            return told(before, now)
        plain = (now.count * (old / before.count.clamp(min=1)))[known].sum()
        if bool(_more(found.sum(), plain + now.results / max(1, before.results))):
            return told(before, now)
    far = now.results * (before.far + 1) / (before.results + 2)
    return told(before, now) if bool(_more(torch.tensor(now.far), torch.tensor(far))) else ""


def _more(found: Tensor, expected: Tensor) -> Tensor:
    return found - expected > SIGMAS * expected.sqrt() + EVENTS


def told(before: Sample, now: Sample) -> str:
    """How many results are wrong before and now."""
    return f"{before.share:.2%} of results are not the nearest code, then {now.share:.2%}, by up to {now.most:.3g} LSB"


def rule_text(ties: Ties) -> str:
    """The rules that ties keep; counts where they are mixed."""
    if not ties.count:
        return "none seen"
    if ties.rules:
        return " or ".join(ties.rules)
    (n, p), (m, q) = ((sum(ties.up[sign]), sum(ties.down[sign])) for sign in (0, 1))
    return f"mixed ({n} up and {p} down below zero, {m} up and {q} down above, {ties.far} elsewhere)"


def pooled(samples: Iterable[Sample]) -> Sample:
    """All results together."""
    return sum(samples, nothing())
