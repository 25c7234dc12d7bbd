"""What failing cases have in common: traits that (nearly) all of them share and that other cases lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from npu_assay.conformance.programs.graph import Case, Step, Value

MOST = 3  # traits shown
SHARE = 0.7  # of the failing cases, at least, must have a trait that is shown
AHEAD = 0.3  # by which that share must exceed the share among the other cases, at least
FEW = 10  # passing cases, with less of which nothing can be told
JOINING = frozenset({"and", "the", "with"})  # words of ids that say nothing of a case
SHORT = 3  # letters that a word of a case's id must have to count


@dataclass(frozen=True)
class Trait:
    """`text` continues "12 of the 12 failing cases ..."; other cases with the trait pass."""

    text: str
    failing: int
    others: int


def common_traits(failing: Sequence[Case], others: Sequence[Case]) -> tuple[Trait, ...]:
    """The traits that set `failing` apart from `others`, the most telling first."""
    sets = [frozenset(traits(case)) for case in failing]
    rest = [frozenset(traits(case)) for case in others]
    if len(sets) < 2 or len(rest) < FEW:
        return ()
    found = [Trait(t, sum(t in s for s in sets), sum(t in s for s in rest)) for t in sorted(frozenset().union(*sets))]
    telling = [trait for trait in found if _tells(trait, len(sets), len(rest))]
    return _distinct(sorted(telling, key=lambda trait: (-_jaccard(trait, len(sets)), trait.text)))[:MOST]


def _tells(trait: Trait, failing: int, others: int) -> bool:
    share = trait.failing / failing
    return share >= SHARE and share - trait.others / others >= AHEAD


def _jaccard(trait: Trait, failing: int) -> float:
    return trait.failing / (failing + trait.others)


def _distinct(traits: Iterable[Trait]) -> tuple[Trait, ...]:
    """Without traits that say the same as one before: those of equal counts."""
    return tuple({(trait.failing, trait.others): trait for trait in reversed(list(traits))}.values())[::-1]


def traits(case: Case) -> Iterator[str]:
    """What can be said about a case's program and name, in words."""
    yield f"are about {case.row}"
    yield f"are about the constraint {case.constraint}"
    for step in case.graph.steps:
        yield f"contain {step.op}"
        if any(map(_unequal_pair, _arguments(step))):
            yield "pass an argument whose numbers for height and width differ, such as (1, 2)"
    for value in case.graph.values:
        yield from _value_traits(value)
    for word in case.id.rpartition("/")[2].split("_"):
        if len(word) >= SHORT and word.isalpha() and word not in JOINING:
            yield f"have {word!r} in their name"


def _arguments(step: Step) -> Iterator[object]:
    yield from step.args
    yield from (value for _, value in step.kwargs)


def _unequal_pair(argument: object) -> bool:
    match argument:
        case (int(first), int(second)):
            return first != second
    return False


def _value_traits(value: Value) -> Iterator[str]:
    if value.quant is None:
        return
    if value.constant and value.quant.dtype == "int32":
        yield "have a bias (an int32 constant)"
    if value.quant.axis is not None:
        yield "have scales per channel"
    if not value.constant and value.quant.zero_point:
        yield "have an input with a zero point other than 0"
