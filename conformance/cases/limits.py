"""What a row's constraints say, for case functions to put their boundaries there.

A case function asks for the value of each constraint that it makes cases for. A constraint that the row does not
have has a default, with which the rest of its cases are made; cases about it are dropped (see `cases_for`). A
value that no cases can be made from is a LimitError, and so is one that no case function asked for: the cases
would silently be those of another table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.predicates.own import Definition

Choice = TypeVar("Choice", int, str)
SMALLEST_MULTIPLE, LARGEST_MULTIPLE = 2, 256
DEFAULT_MULTIPLE = 8
FAR = 64


class LimitError(UsageError):
    """A table's value that the suite cannot make cases from; names table, row, constraint, value and expectation."""


@dataclass(frozen=True)
class Limits:
    """The values of one row's constraints. `where` names table and row; `codes` are all of its constraints'.

    `parameters` are the table's. `own` are the constraints that the table defines itself, by code, with `own_values`
    beside them; the others are in `codes` and `values`. `common` hold for every row of the table. `read` notes what
    was asked for.
    """

    where: str = "any table"
    codes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    own: tuple[tuple[str, Definition], ...] = ()
    own_values: Mapping[str, Any] = field(default_factory=dict)
    common: tuple[str, ...] = ()
    read: set[str] = field(default_factory=set, compare=False)

    def __contains__(self, code: object) -> bool:
        """Whether the row has this constraint."""
        return code in self.codes

    def value(self, code: str, default: Any) -> Any:
        """The value beside a constraint, or the default when the row does not have it."""
        self.read.add(code)
        return self.values.get(code, default)

    def fixed(self, code: str, expected: Any) -> None:
        """Nothing but `expected` will do: the cases are written for it. Raises LimitError for another value."""
        found = self.value(code, expected)
        if found != expected or isinstance(found, bool) != isinstance(expected, bool):
            raise self.error(code, found, f"{expected!r}, the only value that the suite has cases for")

    def unreachable(self, code: str) -> None:
        """No case can be about this constraint; `coverage.KNOWN_HOLES` says why."""
        self.read.add(code)

    def number(self, code: str, default: int, least: int, most: int) -> int:
        """A whole number from `least` to `most`. Raises LimitError for anything else."""
        found = self.value(code, default)
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.error(code, found, f"a whole number from {least} to {most}")
        return found

    def multiple(self, code: str) -> int:
        """What some size must be a multiple of, 8 unless the row says so."""
        if self.value(code, DEFAULT_MULTIPLE) == 1:
            raise self.error(code, 1, "a constraint that excludes something: leave it out")
        return self.number(code, DEFAULT_MULTIPLE, SMALLEST_MULTIPLE, LARGEST_MULTIPLE)

    def numbers(self, code: str, default: tuple[int, ...], least: int, most: int) -> tuple[int, ...]:
        """A list of different whole numbers from `least` to `most`. Raises LimitError for anything else."""
        found = self.value(code, default)
        listed = isinstance(found, tuple) and found and all(type(n) is int and least <= n <= most for n in found)
        if not listed or len(set(found)) != len(found):
            raise self.error(code, found, f"a list of different whole numbers from {least} to {most}")
        return tuple(found)

    def pair(self, code: str, default: tuple[int, int], least: int, most: int) -> tuple[int, int]:
        """Two whole numbers from `least` to `most`, the second at least twice the first. Raises LimitError."""
        found = self.value(code, default)
        whole = isinstance(found, tuple) and len(found) == 2 and all(type(n) is int for n in found)
        if not whole or not least <= found[0] <= found[1] / 2 <= most / 2:
            raise self.error(code, found, f"[a, b], whole numbers with {least} <= a, 2a <= b <= {most}")
        return found[0], found[1]

    def some_of(self, code: str, choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
        """A list of some of the choices, all of them unless the row says so. Raises LimitError for anything else."""
        found = self.value(code, choices)
        known = isinstance(found, tuple) and found and all(type(n) is type(choices[0]) and n in choices for n in found)
        if not known or len(set(found)) != len(found):
            raise self.error(code, found, f"a list of some of {list(choices)}")
        return tuple(found)

    def real(self, code: str, default: float, least: float, most: float) -> float:
        """A number from `least` to `most`. Raises LimitError for anything else."""
        found = self.value(code, default)
        if type(found) not in (int, float) or not least <= found <= most:
            raise self.error(code, found, f"a number from {least:g} to {most:g}")
        return float(found)

    def parameter(self, name: str, default: int, choices: Iterable[int]) -> int:
        """One of the table's parameters. Raises LimitError when it is not one of the choices."""
        found, allowed = self.parameters.get(name, default), sorted(choices)
        if found not in allowed:
            table = self.where.partition(": ")[0]
            raise LimitError(f"{table}: parameters: {name} = {found}: expected one of {allowed}")
        return found

    def error(self, code: str, found: object, expected: str) -> LimitError:
        """The error for a value that the cases cannot be made from."""
        return LimitError(f"{self.where}: {code} = {found!r}: expected {expected}")

    @property
    def far(self) -> tuple[int, ...]:
        """The whole numbers beside constraints that are far from the sizes of plain programs."""
        told = (n for each in self.values.values() for n in (each if isinstance(each, tuple) else (each,)))
        return tuple(sorted({n for n in told if type(n) is int and n >= FAR}))

    def unread(self) -> set[str]:
        """Constraints whose value nobody asked for."""
        return self.values.keys() - self.read


def past(multiple: int, *counts: int) -> tuple[int, ...]:
    """The distinct counts that are sizes and not multiples."""
    return tuple(count for count in dict.fromkeys(counts) if count > 0 and count % multiple)


def around(multiple: int) -> tuple[int, ...]:
    """One, a half, one below, one above, and one and a half times: none of them a multiple."""
    return past(multiple, 1, multiple // 2, multiple - 1, multiple + 1, multiple + multiple // 2)
