"""Why no two cases show what an atom owes, and no accepted case has two classes together: every program near was tried.

What is tried is the domain of `domain`. A program that would show a hole is a witness: the hole is then one of the
cases, not of the operator. Where there is none, what was tried is the proof, and anybody can try it again. Where no
program of the domain moves what a hole is about, nothing is proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.covering.atoms import Owed
from npu_assay.conformance.covering.domain import Domain, Tried
from npu_assay.conformance.covering.filling import apart, filled, holes, on_missing_side
from npu_assay.conformance.covering.looks import Look
from npu_assay.conformance.covering.pairs import Pairing, classes
from npu_assay.conformance.predicates.definitions import Defined
from npu_assay.conformance.programs.graph import Case, Ref
from npu_assay.reference.golden.aten import bound

LISTED = 3  # constraints that a proof names


@dataclass(frozen=True)
class Proof:
    """What became of every program of the domain, for one hole.

    tried: programs; refused: those that cannot be cases, as torch or the golden refuses them. deciding: those in which
    what it is about is so; others: the constraints that these break, by code; silent: how many break none and have no
    verdict, as the table says nothing of them. moved: whether any program moves what the hole is about; where none
    does, nothing is proved.
    """

    tried: int
    refused: int
    deciding: int
    others: tuple[tuple[str, int], ...]
    silent: int
    moved: bool

    @property
    def kind(self) -> str:
        """`open` is no proof; `torch`: no program that can be a case is so; `others`: those that are break others."""
        if not self.moved:
            return "open"
        return "others" if self.others or self.silent else "torch"

    def __str__(self) -> str:
        if not self.moved:
            return "not proved: no knob turns what it is about"
        broken = ", ".join(f"{code} {count} times" for code, count in self.others[:LISTED])
        said = (
            f"{self.deciding} are on the side that is missing"
            if self.deciding
            else "none is on the side that is missing"
        )
        breaks = f"; they break others: {broken}" if broken else ""
        silent = f"; of {self.silent} the table says nothing" if self.silent else ""
        return f"proof: of {self.tried} programs {self.refused} cannot be cases; {said}{breaks}{silent}"


def searched(
    held: Sequence[Defined], looks: Sequence[Look], every: Sequence[Case]
) -> tuple[list[Tried], dict[str, Any]]:
    """The programs that close holes of a row's cases, and as plain data the proofs of those that are left.

    looks: the cases of the row in one precision; every: those without a verdict, too.
    """
    domain = Domain(held, looks, every)
    found = filled(domain) if domain.starts else []
    left = holes(domain, [*looks, *(each.look for each in found)])
    proved = [
        {"code": h.code, "atom": h.atom, "feature": h.feature, "near": h.near, **asdict(proof(domain, h))} for h in left
    ]
    together = [
        {"factors": p.factors, "classes": p.classes, **asdict(pair_proof(domain, p))} for p in apart(domain, found)
    ]
    return found, {"holes": proved, "apart": together}


def proof(domain: Domain, hole: Owed) -> Proof:
    """What became of every program of the domain for a hole of MC/DC.

    The side that is missing: programs in which the atom decides, with the truth that no case has which shows it.
    Raises ValueError for a hole of no constraint of the row.
    """
    defined = next((each for each in domain.held if each.code == hole.code), None)
    if defined is None:
        raise ValueError(f"{hole.code}: no constraint of the row, expected one of {[e.code for e in domain.held]}")
    index, _ = domain.atom(hole)
    found = on_missing_side(domain, hole)
    seen = [*domain.every_look, *(each.look for each in domain.unfit)]
    values = {repr(domain.value(defined, hole.feature, look)) for look in seen} if hole.feature else set[str]()
    truths = {look.atoms[hole.code][index] for look in seen}
    turned = hole.feature.endswith(".rank") or _type_is_fixed(domain, hole.feature)  # torch may refuse every other one
    turned |= hole.feature == "operands" and not any(look.application.operands for look in seen)  # it takes no tensor
    return _proof(domain, found, hole.code, turned or len(values) > 1 or len(truths) > 1)


def _type_is_fixed(domain: Domain, feature: str) -> bool:
    """Whether the feature is the dtype of an operand which programs of the domain change, and torch refuses some."""
    operand, _, rest = feature.partition(".")
    steps = (step for look in domain.starts for step in look.case.graph.steps if step.name == SUBJECT)
    named = (bound(step.op, step.args, dict(step.kwargs)).get(operand) for step in steps)
    return rest == "dtype" and any(isinstance(ref, Ref) and f"{ref.name}_type" in domain.refusing for ref in named)


def pair_proof(domain: Domain, pairing: Pairing) -> Proof:
    """What became of every program that has two classes together."""
    (a, b), (x, y) = pairing.factors, pairing.classes
    found = [
        each for each in domain.tried if (said := classes(domain.held, each.look)).get(a) == x and said.get(b) == y
    ]
    return _proof(domain, found, "", True)


def _proof(domain: Domain, found: Sequence[Tried], own: str, moved: bool) -> Proof:
    others = Counter[str]()
    silent = 0
    for each in found:
        broken = [code for code in each.look.broken if code != own]
        others.update(broken)
        silent += not broken
    return Proof(domain.count, domain.refused, len(found), tuple(others.most_common()), silent, moved)
