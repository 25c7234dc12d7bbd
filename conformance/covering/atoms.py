"""Whether cases show that every atom of every constraint decides alone: MC/DC, in its masking form.

An atom decides in a program when the constraint's predicate would say the opposite, were the atom to. A constraint's
atom is shown by two programs in which it decides and has opposite truths: one is accepted; the other is rejected for
this constraint, and breaks no other of its row that a predicate says. Masking MC/DC (CAST-6) lets other atoms differ as
long as they do not decide, so that atoms which depend on each other can be shown; `alone` tells where none differs.

Each feature of an atom owes a pair in which it differs. Of an atom that compares sizes it owes one at the limit: both
programs are as near as whole numbers come, or the feature differs by one and nothing else of the atom does; real
numbers are within one in `FINE` of the limit. What stands inside `all` and `any` is one atom.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from npu_assay.conformance.covering.looks import Look
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.predicates.evaluation import Undefined, says, value
from npu_assay.conformance.predicates.evaluation import feature_value as value_of
from npu_assay.conformance.predicates.grammar import Atom, Predicate

FINE = 2**16
MOST = 64  # different programs on each side of an atom that are compared, those nearest to the limit


@dataclass(frozen=True)
class Owed:
    """What cases owe to one atom: `feature` is to differ ("" of an atom without any), `near` says at the limit.

    shown: the ids of the two cases, the accepted one first. alone: whether no other atom differs between them.
    """

    code: str
    atom: str
    feature: str
    near: bool
    shown: tuple[str, str] | None
    alone: bool = False


@dataclass(frozen=True)
class _Side:
    """A program in which an atom decides: the features of the atom, and how far its limit is, if it has one.

    key: what tells it from the other programs, `case` one of those that have it.
    """

    key: object
    case: str
    truth: bool
    others: tuple[bool | None, ...]
    features: tuple[Any, ...]
    distance: float | None
    fine: bool


def owed(held: Defined, looks: Sequence[Look]) -> Iterator[Owed]:
    """What a constraint's atoms owe, from the cases of one row and precision. Atoms that none has are left out."""
    for index, atom in enumerate(held.predicate.atoms):
        if all(look.atoms[held.code][index] is None for look in looks):
            continue
        pairs = _pairs(held, index, looks)
        for place, feature in enumerate(asked(atom) or [""]):
            differ = [pair for pair in pairs if not feature or _differs(pair, place)]
            yield _owed(held.code, atom, feature, False, differ)
            if atom.ordered:
                yield _owed(held.code, atom, feature, True, [pair for pair in differ if _near(pair, place)])


def showing(held: Defined, hole: Owed, looks: Sequence[Look]) -> list[tuple[str, str]]:
    """The ids of every two programs that show what an atom owes, those at the limit and the earlier ones first."""
    index = next(i for i, atom in enumerate(held.predicate.atoms) if atom.text == hole.atom)
    place = (asked(held.predicate.atoms[index]) or [""]).index(hole.feature)
    differ = (pair for pair in _pairs(held, index, looks) if not hole.feature or _differs(pair, place))
    return [(good.case, bad.case) for good, bad in differ if not hole.near or _near((good, bad), place)]


def _pairs(held: Defined, index: int, looks: Sequence[Look]) -> list[tuple[_Side, _Side]]:
    """An accepted and a rejected program each, in which the atom decides and differs."""
    goods = _sides(held, index, (look for look in looks if look.good))
    bads = _sides(held, index, (look for look in looks if look.only(held.code)))
    return [(g, b) for g, b in itertools.product(goods, bads) if g.truth != b.truth]


def asked(atom: Atom) -> list[str]:
    """The features of an atom that a program has: not what stands beside the code."""
    return [feature for feature in atom.features if feature.partition("[")[0] != "value"]


def _owed(code: str, atom: Atom, feature: str, near: bool, pairs: list[tuple[_Side, _Side]]) -> Owed:
    best = min(pairs, key=lambda pair: pair[0].others != pair[1].others, default=None)
    if best is None:
        return Owed(code, atom.text, feature, near, None)
    good, bad = best
    return Owed(code, atom.text, feature, near, (good.case, bad.case), good.others == bad.others)


def _differs(pair: tuple[_Side, _Side], place: int) -> bool:
    good, bad = pair
    return bool(good.features[place] != bad.features[place])


def _near(pair: tuple[_Side, _Side], place: int) -> bool:
    good, bad = pair
    if good.fine and bad.fine:
        return True
    a, b = good.features[place], bad.features[place]
    rest = all(x == y for i, (x, y) in enumerate(zip(good.features, bad.features, strict=True)) if i != place)
    return rest and type(a) is int and type(b) is int and abs(a - b) == 1


def _sides(held: Defined, index: int, looks: Iterator[Look]) -> list[_Side]:
    """Different programs in which the atom decides."""
    found = dict[object, _Side]()
    for look in looks:
        side = side_of(held, index, look)
        if side is not None:
            found.setdefault(side.key, side)
    return sorted(found.values(), key=lambda side: (not side.fine, side.distance or 0.0))[:MOST]


def side_of(held: Defined, index: int, look: Look) -> _Side | None:
    """The side of an atom that a program is on; None where the atom decides nothing."""
    found: _Side | None = look.once((held.code, index, look.case.id), lambda: _side(held, index, look))
    return found


def _side(held: Defined, index: int, look: Look) -> _Side | None:
    atom, atoms = held.predicate.atoms[index], look.atoms[held.code]
    truth = atoms[index]
    if truth is None or not decides(held.predicate, index, atoms):
        return None
    find = look.application.with_value(held.value).find
    features = tuple(value_of(feature, find) for feature in asked(atom))
    far, fine = reach(atom, truth, find) if atom.ordered else (None, False)
    others = (*atoms[:index], *atoms[index + 1 :])
    return _Side((truth, others, repr(features)), look.case.id, truth, others, features, far, fine)


def reach(atom: Atom, truth: bool, find: Any) -> tuple[float | None, bool]:
    """How far an ordered atom is from its limit, and whether that is as near as its numbers come on this side."""
    assert isinstance(atom.tree, ast.Compare)
    try:
        left, right = value(atom.tree.left, find), value(atom.tree.comparators[0], find)
    except Undefined:
        return None, False
    far = abs(left - right)
    if type(left) is int and type(right) is int:
        within = isinstance(atom.tree.ops[0], ast.LtE | ast.GtE)
        return float(far), far <= int(within != truth)
    return float(far), far * FINE <= abs(right)


@cache
def decides(predicate: Predicate, index: int, atoms: tuple[bool | None, ...]) -> bool:
    """Whether the predicate says the opposite when this atom does."""
    flipped = (*atoms[:index], not atoms[index], *atoms[index + 1 :])
    before, after = says(predicate, atoms), says(predicate, flipped)
    return None not in (before, after) and before != after
