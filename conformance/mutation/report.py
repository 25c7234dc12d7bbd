"""Summarizes the outcomes: rates per stage and kind, the faults that each check noticed, and the survivors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npu_assay.conformance.mutation.trial import Outcome

REQUIRED: Mapping[str, float] = {"partitioner": 1.0, "compiler": 0.98, "device": 0.98}
"""The share of a stage's faults that must be noticed."""


@dataclass(frozen=True)
class Rate:
    """How many faults of a group there are, and how many were noticed."""

    name: str
    faults: int
    killed: int

    @property
    def share(self) -> float:
        """Between 0 and 1; a group has at least one fault."""
        return self.killed / self.faults


@dataclass(frozen=True)
class Check:
    """The faults that one check noticed: all, those noticed by no other check, and those it was expected to notice."""

    name: str
    caught: int
    alone: int
    expected: int
    missed: int


@dataclass(frozen=True)
class Mutation:
    """The outcomes of all faults of a run."""

    backend: str
    table: str
    seconds: float
    outcomes: tuple[Outcome, ...]

    @property
    def stages(self) -> tuple[Rate, ...]:
        """The rate of every stage that has faults."""
        return tuple(rate for stage in REQUIRED for rate in rates(self.outcomes, _stage) if rate.name == stage)

    @property
    def kinds(self) -> tuple[Rate, ...]:
        """The rate of every stage and kind."""
        return rates(self.outcomes, lambda one: f"{one.stage} {one.kind}")

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks that noticed faults, those with most faults first."""
        names = {check for one in self.outcomes for check in (*one.checks, *one.expected)}
        found = [_check(name, self.outcomes) for name in names]
        return tuple(sorted(found, key=lambda check: (-check.caught, check.name)))

    @property
    def survivors(self) -> tuple[Outcome, ...]:
        """The faults that nothing noticed."""
        return tuple(one for one in self.outcomes if not one.killed)

    @property
    def holds(self) -> bool:
        """Whether every stage reaches its required rate."""
        return all(rate.share >= REQUIRED[rate.name] for rate in self.stages)


def _stage(one: Outcome) -> str:
    return one.stage


def rates(outcomes: Sequence[Outcome], group: Callable[[Outcome], str]) -> tuple[Rate, ...]:
    """One rate per group, sorted by name."""
    faults = Counter(map(group, outcomes))
    killed = Counter(group(one) for one in outcomes if one.killed)
    return tuple(Rate(name, faults[name], killed[name]) for name in sorted(faults))


def _check(name: str, outcomes: Sequence[Outcome]) -> Check:
    expecting = [one for one in outcomes if name in one.expected]
    return Check(
        name,
        sum(name in one.checks for one in outcomes),
        sum(set(one.checks) == {name} for one in outcomes),
        len(expecting),
        sum(name in one.missed for one in expecting),
    )


def as_json(mutation: Mutation) -> dict[str, Any]:
    """The whole run as plain data."""
    return {
        "backend": mutation.backend,
        "table": mutation.table,
        "seconds": round(mutation.seconds, 1),
        "holds": mutation.holds,
        "stages": {
            rate.name: {"faults": rate.faults, "killed": rate.killed, "required": REQUIRED[rate.name]}
            for rate in mutation.stages
        },
        "kinds": {rate.name: {"faults": rate.faults, "killed": rate.killed} for rate in mutation.kinds},
        "checks": {
            check.name: {
                "caught": check.caught,
                "alone": check.alone,
                "expected": check.expected,
                "missed": check.missed,
            }
            for check in mutation.checks
        },
        "survivors": [one.id for one in mutation.survivors],
        "faults": [
            {
                "id": one.id,
                "killed": one.killed,
                "checks": one.checks,
                "expected": list(one.expected),
                "cases": one.cases,
                "message": one.message,
            }
            for one in mutation.outcomes
        ],
    }
