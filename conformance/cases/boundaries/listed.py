"""What stands beside each member of a list, or beside the one number of an equality: a backend may take that, too.

Of `(stride_h, stride_w) in ((1, 1), (2, 1), (2, 2))` that is (1, 2), which has its parts in the list, and what one
number more, less, twice or half of a member comes to.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npu_assay.conformance.cases.boundaries.search import Look
from npu_assay.conformance.cases.boundaries.sides import Sides
from npu_assay.conformance.predicates.evaluation import Undefined, feature_value, value
from npu_assay.conformance.predicates.grammar import VALUE, features_in

MOST, HELPED, PLACES = 24, 60, 12
"""Neighbors of a list; programs with another knob turned, and places of a knob, that are tried for each."""
Member = tuple[int | None, ...]


@dataclass(frozen=True)
class List:
    """Features, the lists of whole numbers that they may be, and how all features are written together."""

    features: tuple[str, ...]
    members: tuple[Member, ...]
    text: str

    @property
    def neighbors(self) -> tuple[Member, ...]:
        """Whole numbers that are no member: first of parts of members, then those next to one, nearest first."""
        columns = [dict.fromkeys(column) for column in zip(*self.members, strict=True)]
        swapped = (tuple(reversed(member)) for member in self.members)
        crossed = itertools.islice(itertools.product(*columns), MOST)
        near = sorted(dict.fromkeys(self._near()), key=self._distance)
        found = dict.fromkeys((*swapped, *crossed, *near))
        signed = any(self._least(member) < 0 for member in self.members)
        known = (each for each in found if each not in self.members and (signed or self._least(each) >= 0))
        return tuple(itertools.islice(known, MOST))

    def _least(self, each: Member) -> int:
        return min((n for n in each if n is not None), default=0)

    def _near(self) -> Iterator[Member]:
        for member in self.members:
            for place, number in enumerate(member):
                for other in () if number is None else (number - 1, number + 1, 2 * number, number // 2):
                    yield (*member[:place], other, *member[place + 1 :])

    def _distance(self, each: Member) -> int:
        pairs = ([*zip(each, member, strict=True)] for member in self.members)
        return min(sum(abs((a or 0) - (b or 0)) for a, b in listed) for listed in pairs)


def lists(text: str, of_row: object) -> Iterator[List]:
    """The lists and equalities of whole numbers in a predicate. of_row: what stands beside the constraint."""
    for tree in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.In | ast.Eq):
            found = _list(tree, of_row)
            if found is not None:
                yield found


def _list(tree: ast.Compare, of_row: object) -> List | None:
    """None for a comparison with anything but whole numbers."""
    left, right = tree.left, tree.comparators[0]
    parts = left.elts if isinstance(left, ast.Tuple | ast.List) else [left]
    if not all(isinstance(part, ast.Name | ast.Attribute | ast.Subscript) for part in parts):
        return None
    if not set(features_in(right)) <= {VALUE}:
        return None
    found = value(right, lambda _: of_row)
    members = found if isinstance(tree.ops[0], ast.In) and isinstance(found, tuple) else (found,)
    whole = tuple(each if isinstance(each, tuple) else (each,) for each in members)
    features, sizes = [*map(ast.unparse, parts)], {len(each) for each in whole}
    if len(features) == len(sizes) == 1 < max(sizes):
        features = [f"{features[0]}[{place}]" for place in range(max(sizes))]
    known = all(n is None or type(n) is int for each in whole for n in each) and any(n is not None for n in whole[0])
    return List(tuple(features), whole, ast.unparse(left)) if whole and sizes == {len(features)} and known else None


def beside(sides: Sides, bases: Sequence[Look]) -> Iterator[tuple[str, str, Look]]:
    """Right programs of members and wrong ones of their neighbors, each with the side and the features."""
    limit = sides.limit
    for each in lists(limit.predicate.text, limit.value):
        for member in each.members if len(each.features) > 1 else ():
            look = _placed(sides, each, member, bases, right=True)
            yield from () if look is None else (("accept", each.text, look),)
        for neighbor in each.neighbors:
            look = _placed(sides, each, neighbor, bases, right=False)
            yield from () if look is None else (("outside", each.text, look),)


def _placed(sides: Sides, each: List, wanted: Member, bases: Sequence[Look], right: bool) -> Look | None:
    """The first program whose features are these numbers and that is on this side of the limit alone."""
    for start in itertools.chain(bases, itertools.islice(sides._helped(bases[0]), HELPED)):
        asked = [*zip(each.features, wanted, strict=True)]
        for look in _with_features(sides, start, asked):
            as_asked = all(_value(feature, look) == number for feature, number in asked)
            if as_asked and (look.right if right else look.only(sides.index)) and look.is_written:
                return look
    return None


def _with_features(sides: Sides, look: Look, wanted: Sequence[tuple[str, int | None]]) -> Iterator[Look]:
    """Programs that come of turning, for each feature, one knob that moves it."""
    if not wanted:
        yield look
        return
    (feature, number), rest = wanted[0], wanted[1:]
    for near in _with_feature(sides, look, feature, number):
        yield from _with_features(sides, near, rest)


def _with_feature(sides: Sides, look: Look, feature: str, number: int | None) -> Iterator[Look]:
    if _value(feature, look) == number:
        yield look
        return
    for knob in sides._moving(feature):
        for place in (sides.search.knobs[knob].fitted(number), *sides.search.places(look, knob)[:PLACES]):
            near = sides.search.turned(look, knob, place)
            if near is not None and _value(feature, near) == number:
                yield near
                break


def _value(feature: str, look: Look) -> object:
    try:
        return feature_value(feature, look.application.find)
    except (Undefined, TypeError):
        return None
