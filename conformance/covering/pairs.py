"""Whether accepted cases show limits two by two: a backend may take each of two, and not both at once.

The domain of an atom, over the accepted programs of a row in one precision, are its classes: of one that compares
sizes "at the limit", "inside" and, where another atom lets it be, "outside"; of one with a list each member; of any
other true and false. An atom of one class takes no part. Every two classes of two atoms are owed a case.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from npu_assay.conformance.covering.atoms import reach
from npu_assay.conformance.covering.looks import Look
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.predicates.evaluation import feature_value
from npu_assay.conformance.predicates.grammar import Atom

Factor = tuple[str, str]
"""A constraint's code and an atom of it."""
SHORT = 12  # members of a list that are classes of their own


@dataclass(frozen=True)
class Pairing:
    """Two classes of two atoms, and an accepted case that is in both; None where there is none."""

    factors: tuple[Factor, Factor]
    classes: tuple[str, str]
    shown: str | None


def pairings(held: Sequence[Defined], looks: Sequence[Look]) -> Iterator[Pairing]:
    """Every two classes that the accepted cases of one row and precision owe."""
    classed = dict[tuple[tuple[Factor, str], ...], str]()
    for look in looks:
        if look.good:
            classed.setdefault(tuple(classes(held, look).items()), look.case.id)
    domains = dict[Factor, dict[str, None]]()
    for classed_as in classed:
        for factor, found in classed_as:
            domains.setdefault(factor, {})[found] = None
    shown = dict[object, str]()
    for classed_as, case in classed.items():
        for pair in itertools.combinations(classed_as, 2):
            shown.setdefault(pair, case)
    wide = [factor for factor in domains if len(domains[factor]) > 1]
    for a, b in itertools.combinations(_ordered(held, wide), 2):
        for x, y in itertools.product(domains[a], domains[b]):
            yield Pairing((a, b), (x, y), shown.get(((a, x), (b, y))))


def _ordered(held: Sequence[Defined], factors: Sequence[Factor]) -> list[Factor]:
    places = {(each.code, atom.text): None for each in held for atom in each.predicate.atoms}
    return [factor for factor in places if factor in factors]


def classes(held: Sequence[Defined], look: Look) -> Mapping[Factor, str]:
    """The class of every atom in an accepted program, in the order of constraints and atoms."""
    found: Mapping[Factor, str] = look.once("classes", lambda: _classes(held, look))
    return found


def _classes(held: Sequence[Defined], look: Look) -> Mapping[Factor, str]:
    return {
        (each.code, atom.text): _class(each, atom, truth, look)
        for each in held
        for atom, truth in zip(each.predicate.atoms, look.atoms[each.code], strict=True)
        if truth is not None
    }


def _class(held: Defined, atom: Atom, truth: bool, look: Look) -> str:
    find = look.application.with_value(held.value).find
    if atom.ordered:
        return "outside" if not truth else "at the limit" if reach(atom, truth, find)[1] else "inside"
    if truth and isinstance(atom.tree, ast.Compare) and isinstance(atom.tree.ops[0], ast.In):
        found = feature_value(ast.unparse(atom.tree.left), find)
        listed = feature_value(ast.unparse(atom.tree.comparators[0]), find)
        if type(found) in (int, float, str) and isinstance(listed, tuple) and len(listed) <= SHORT:
            return str(found)
    return str(truth).lower()
