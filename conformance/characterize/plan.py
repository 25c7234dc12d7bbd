"""What is asked of one operator in one precision, step by step, and what follows from the answers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from npu_assay.conformance.characterize.probes import (
    OPERAND,
    PLAIN,
    RATIO,
    SIZE,
    SPREAD,
    TERMS,
    Probe,
)
from npu_assay.conformance.characterize.samples import Sample, change, nothing, pooled, told

KS = range(21)
RESULTS = 5209
"""Different results from which the mean of code minus exact result has a deviation of 0.004 LSB: 1 / 12 / 0.004**2."""
TURNS, MOST_TURNS = 8, 40
"""Programs with other scales and numbers: at first, and at most."""
POWER: tuple[int, ...] = (0,)
BELOW = (1, 2)
"""The turns of a power of two itself, and of ratios between it and its half."""
LIMIT_TURNS = 3
LADDERS: Mapping[str, tuple[int, ...]] = {
    TERMS: (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    SIZE: (16, 64, 256, 1024, 4096),
}
"""Numbers of terms and sizes that are tried; between two that differ, the limit is found by bisecting."""


MOST_CHANGES = 3  # of one kind


@dataclass(frozen=True)
class Outcome:
    """What a probe gave: a sample, or why there is none. results: of one program, the same ones included."""

    sample: Sample | None
    reason: str = ""
    results: int = 0


@dataclass(frozen=True)
class Change:
    """Where results begin to differ. last, first: the last value that behaves as those before, and the first other.

    exact: False where results differ between these two, but not from one value to the next. below: the first other
    ratio is not 2**-first itself, but any below. results: of a program with the first other value.
    """

    knob: str
    last: int
    first: int
    what: str
    exact: bool = True
    below: bool = False
    results: int = 0


@dataclass
class Finding:
    """What is known of one operator in one precision. why: by what was asked, why nothing is known of it."""

    row: str
    precision: str
    sample: Sample = field(default_factory=nothing)
    programs: int = 0
    way: Probe | None = None
    ratios: dict[int, Sample] = field(default_factory=dict)
    powers: dict[int, Sample] = field(default_factory=dict)
    asked: dict[str, tuple[int, int]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)


Answers = Mapping[Probe, Outcome]
Plan = Generator[list[Probe], Answers, Finding]


def characterized(row: str, precision: str) -> Plan:
    """Yields the probes of each round, and takes what they gave."""
    found, first = Finding(row, precision), Probe(row, precision, PLAIN)
    kinds = (SPREAD, False), (OPERAND, True), (SPREAD, True)
    ways = [replace(first, knob=knob, held=held, many=many) for knob, held in kinds for many in (True, False)]
    answers = yield from _asked(found, [first, *ways])
    way = next((way for way in ways if answers[way].sample is not None), None)
    if way is None:
        _only_plain(found, answers[first], answers[ways[1]])
        return found
    found.way, samples = way, [answers[way].sample]
    samples += yield from _turns(found, way, range(1, TURNS))
    total = pooled(filter(None, samples))
    if 0 < total.results < RESULTS:
        more = min(MOST_TURNS, TURNS + -(-(RESULTS - total.results) * TURNS // total.results))
        samples += yield from _turns(found, way, range(TURNS, more))
    found.sample = pooled(filter(None, samples))
    yield from ratios(found, replace(way, held=False))
    yield from limit(found, replace(way, knob=TERMS))
    yield from limit(found, replace(way, knob=SIZE, many=False))
    return found


def _asked(found: Finding, probes: Sequence[Probe]) -> Generator[list[Probe], Answers, Answers]:
    found.programs += len(probes)
    return (yield list(probes))


def _only_plain(found: Finding, plain: Outcome, other: Outcome) -> None:
    """Nothing but the plain program is taken, or not even that."""
    if plain.sample is None:
        found.why[PLAIN] = plain.reason
        return
    found.sample, found.way, found.why[SPREAD] = plain.sample, Probe(found.row, found.precision, PLAIN), other.reason


def _turns(found: Finding, way: Probe, turns: range) -> Generator[list[Probe], Answers, list[Sample | None]]:
    answers = yield from _asked(found, [replace(way, turn=turn) for turn in turns])
    refused = [outcome.reason for outcome in answers.values() if outcome.sample is None]
    if refused:
        found.why.setdefault(f"{len(refused)} of {len(turns)} programs", refused[0])
    return [outcome.sample for outcome in answers.values()]


# ------------------------------------------------------------------------------------ ratios


def ratios(found: Finding, way: Probe) -> Generator[list[Probe], Answers, None]:
    """Every ratio from 2**0 to 2**-20: that very power of two, and ratios below it."""
    turns = (*POWER, *BELOW)
    asked = {(k, turn): replace(way, knob=RATIO, value=k, turn=turn) for k in KS for turn in turns}
    answers = yield from _asked(found, list(asked.values()))
    outcomes = {place: answers[probe] for place, probe in asked.items()}
    for k in KS:
        for kept, some in ((found.ratios, BELOW), (found.powers, POWER)):
            kept[k] = pooled(sample for turn in some if (sample := outcomes[k, turn].sample) is not None)
    taken = [k for k in KS if all(outcomes[k, turn].sample is not None for turn in turns)]
    if not taken:
        found.why[RATIO] = next(outcome.reason for outcome in outcomes.values() if outcome.reason)
        return
    found.asked[RATIO] = taken[0], taken[-1]
    _ratio_changes(found, outcomes)


def _ratio_changes(found: Finding, outcomes: Mapping[tuple[int, int], Outcome]) -> None:
    """Compare each ratio with all before it since the last change, powers of two apart from what is between them."""
    below, power = (_told(outcomes, turns) for turns in (BELOW, POWER))
    for k in KS:
        between = below.get(k, "")
        if between and not power.get(k) and power.get(k + 1) and not below.get(k + 1):  # the same limit
            between, power[k + 1] = f"{between}; {power[k + 1]}", ""
        if between or power.get(k):
            strictly = bool(between) and not power.get(k)
            found.changes.append(Change(RATIO, k - 1, k, between or f"at the power itself: {power[k]}", below=strictly))


def _told(outcomes: Mapping[tuple[int, int], Outcome], turns: tuple[int, ...]) -> dict[int, str]:
    """How results in some turns differ from those before, by k, where they do."""
    found, since = dict[int, str](), [KS[0]]
    for k in KS[1:]:
        before = _merged([outcomes[j, turn] for j in since for turn in turns])
        if what := differs(RATIO, before, _merged([outcomes[k, turn] for turn in turns])):
            found[k] = what
        since = [k] if what else [*since, k]
    return found


# ------------------------------------------------------------------------------------ terms and sizes


def limit(found: Finding, first: Probe) -> Generator[list[Probe], Answers, None]:
    """Numbers of terms or sizes: some all over the range, then half way between two that differ until they are next."""
    knob, ladder = first.knob, LADDERS[first.knob]
    rungs = yield from _climbed(found, first, ladder)
    taken = [value for value in ladder if rungs[value].sample is not None]
    if not taken:
        found.why[knob] = rungs[ladder[-1]].reason
        return
    found.asked[knob] = taken[0], taken[-1]
    since, count = rungs[ladder[0]], 0
    for low, high in pairwise(ladder):
        what = differs(knob, since, rungs[high]) if count < MOST_CHANGES else ""
        if what:
            ends = (low, rungs[low], since), (high, rungs[high], what)
            found.changes.append((yield from _bisected(found, first, *ends)))
            count += 1
        since = rungs[high] if what else _merged([since, rungs[high]])


def _climbed(
    found: Finding, first: Probe, values: Sequence[int]
) -> Generator[list[Probe], Answers, dict[int, Outcome]]:
    """What some programs of each value gave together."""
    rungs = {value: [replace(first, value=value, turn=turn) for turn in range(LIMIT_TURNS)] for value in values}
    answers = yield from _asked(found, [probe for rung in rungs.values() for probe in rung])
    return {value: _merged([answers[probe] for probe in rung]) for value, rung in rungs.items()}


def _bisected(
    found: Finding, first: Probe, good: tuple[int, Outcome, Outcome], bad: tuple[int, Outcome, str]
) -> Generator[list[Probe], Answers, Change]:
    """The two neighbors between which results change. Where these two hardly differ, it is no limit."""
    (low, last, since), (high, now, what), knob, ends = good, bad, first.knob, (good[0], bad[0])
    while high - low > 1:
        middle = (low + high) // 2
        half = (yield from _climbed(found, first, [middle]))[middle]
        if differing := differs(knob, since, half, sure=False):
            high, now, what = middle, half, differing
        else:
            low, last = middle, half
    around = yield from _climbed(found, first, [low - 1, high + 1])
    steady = not differs(knob, around[low - 1], last) and not differs(knob, now, around[high + 1])
    if steady and differs(knob, last, now, sure=False):
        return Change(knob, low, high, what, results=now.results)
    return Change(knob, *ends, what, exact=False)


def _merged(outcomes: Sequence[Outcome]) -> Outcome:
    """The results of some programs together; the first reason where one has none."""
    refused = next((outcome for outcome in outcomes if outcome.sample is None), None)
    samples = (outcome.sample for outcome in outcomes if outcome.sample is not None)
    return refused or Outcome(pooled(samples), results=outcomes[-1].results)


def differs(knob: str, before: Outcome, now: Outcome, sure: bool = True) -> str:
    """How an outcome differs from one before, "" where it does not. Sizes may make results better, too."""
    if before.sample is None or now.sample is None:
        if before.sample is None and now.sample is None:
            return ""
        return now.reason or f"taken; refused until then: {before.reason}"
    found = change(before.sample, now.sample, sure)
    better = knob == SIZE and not found and change(now.sample, before.sample)
    return told(before.sample, now.sample) if better else found
