"""Lines of an explanation that the terminal and the page share: the answer, then causes and layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from npu_assay.conformance.common.escaped import listed as _listed
from npu_assay.conformance.common.escaped import shorten
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.explain.cures import POOR, SEEN
from npu_assay.conformance.explain.layers import INPUT
from npu_assay.conformance.explain.record import Cause, Explained, Explanation, Gain, Layer, Operator
from npu_assay.conformance.explain.summary import MODEL, NO_ANSWER, short

PLACE = 84  # characters
SHOWN = 3  # of what a line lists
FOUND = 60  # characters of what a partitioner found
Known = Mapping[str, Operator]


def known_of(one: Explained) -> Known:
    """The operators by their names."""
    return {operator.name: operator for operator in one.operators}


# ------------------------------------------------------------------------------------ the answer


def answer(one: Explained) -> Iterator[str]:
    """Lines: the share that goes to the backend, its cost, and the first cause of the rest."""
    if one.is_unknown:
        yield f"{one.backend}: {NO_ANSWER}: {one.error.removeprefix(f'{one.backend}: ')}"
        return
    yield f"{one.backend}: {_share(one)} in {counted(len(one.delegates), 'delegate')}; {_between(one)}"
    for cause in one.causes[:1]:
        yield f"  first cause: {title(cause, known_of(one))}"
    if one.error:
        yield f"  {one.error}"


def _share(one: Explained) -> str:
    _, whole = one.macs
    if len(one.taken) == len(one.operators):
        return f"all {counted(whole, 'multiply-accumulate') if whole else counted(len(one.operators), 'operator')}"
    what = f"of {counted(whole, 'multiply-accumulate')}" if whole else f"of {counted(len(one.operators), 'operator')}"
    return f"{100 * one.share:.1f} % {what}"


def _between(one: Explained) -> str:
    """What a share of products does not say: the operators that a processor computes, and what crosses borders."""
    left = len(one.operators) - len(one.taken)
    outside = f"{left:,} of {len(one.operators):,} operators on the CPU, " if left else ""
    return f"{outside}{sum(each.takes + each.gives for each in one.delegates):,} bytes over borders"


def notes(explanation: Explanation, tell: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each warning, or why results carry nothing, once, with its backends. tell: a field of `Explained`."""
    told = ((one.backend, getattr(one, tell)) for one in explanation.backends)
    pairs = [(name, text) for name, texts in told for text in ((texts,) if isinstance(texts, str) else texts)]
    alike = grouped_by(pairs, lambda pair: pair[1])
    yield from ((tuple(name for name, _ in group), text) for text, group in alike.items() if text)


# ------------------------------------------------------------------------------------ causes


def title(cause: Cause, known: Known) -> str:
    """A cause in one sentence: what the user wrote, how often and where it first is, and why it is left out."""
    first = known[cause.roots[0]]
    where = first.module or first.source or MODEL
    named = f"{cause.label}{_times(cause.times)} ({where}): " if cause.label else ""
    return f"{named}{cause.code}: {cause.sentence} (found {shorten(cause.found, FOUND)})"


def cause_lines(number: int, one: Explained) -> Iterator[str]:
    """The other reasons of the cause of this number, from 1, its costs, gains, and what would help."""
    cause, known = one.causes[number - 1], known_of(one)
    if cause.change is not None:
        yield f"what if: {cause.change.text}"
    if cause.hint:
        yield cause.hint
    macs = f", {counted(cause.macs, 'multiply-accumulate')}" if cause.macs else ""
    cost = f"{counted(len(cause.operators), 'operator')}{macs}, {cause.bytes:,} bytes over borders"
    yield f"costs {cost}; mended {_gained(number, cause, one)}"
    if cause.also:
        yield f"and also {listed([f'{reason.code} ({shorten(reason.found, FOUND)})' for reason in cause.also], '; ')}"
    if cause.follows:
        follows = Counter(f"{known[name].module or MODEL} {short(known[name].operator)}" for name in cause.follows)
        yield f"left out with it: {listed([f'{name}{_times(count)}' for name, count in follows.items()])}"


def _gained(number: int, cause: Cause, one: Explained) -> str:
    alone = f"alone: {_more(cause.alone, one) or 'nothing more is delegated, as other reasons stay'}"
    before = "1" if number == 2 else f"1 to {number - 1}"
    return alone if number == 1 else f"{alone}; with {before}: {_more(cause.together, one) or 'nothing'}"


def _more(gain: Gain, one: Explained) -> str:
    """What is gained, "" for nothing."""
    macs = f" and {counted(gain.macs, 'multiply-accumulate')}" if gain.macs else ""
    rest = len(one.operators) - len(one.taken) - gain.operators
    return f"{counted(gain.operators, 'operator')}{macs} more{'' if rest else ', so all'}" if gain.operators else ""


def places(cause: Cause, known: Known) -> list[str]:
    """Where the roots of a cause are, in the user's names; what a loop repeats stands once, with how often."""
    found = Counter(place(known[name]) for name in cause.roots)
    return [f"{where}{_times(count)}" for where, count in found.items()]


def place(one: Operator | Layer) -> str:
    """An operator by the user's names: module and class, operator, line."""
    if one.operator == INPUT:
        return f"the input {one.name}"
    line = f"  {one.source}: {one.code}" if one.source else ""
    return shorten(f"{one.module or MODEL} ({one.kind or 'unknown'})  {one.operator}{line}", PLACE)


def counted(count: int, noun: str) -> str:
    """A number of things, which may be large."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def listed(parts: Sequence[str], between: str = ", ") -> str:
    """The first parts, and how many more there are."""
    return _listed(parts, SHOWN, between)


# ------------------------------------------------------------------------------------ layers


def worth_a_word(layers: Sequence[Layer]) -> tuple[list[Layer], list[Layer]]:
    """The layers that lose much by themselves or at the results, or have something wrong: seen there, and hardly."""
    told = [one for one in layers if one.infinite or one.cures or _is_less(one.effect, SEEN) or _is_less(one.own, POOR)]
    seen = [one for one in told if one.infinite or one.effect is None or one.effect < SEEN]
    return seen, [one for one in told if one not in seen]


def _is_less(decibels: float | None, limit: float) -> bool:
    return decibels is not None and decibels < limit


def lost(one: Layer) -> str:
    """The error that a layer adds, in words: at the results, where that is known, and by itself."""
    if one.infinite:
        return "infinite"
    own = "none" if one.own is None else f"{one.own:.1f} dB"
    return own if one.effect is None else f"{one.effect:.1f} dB, {own}"
