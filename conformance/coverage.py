"""How well the cases cover a table: per row, precision and constraint, what stands inside, at and outside the limit.

A constraint without a case at its limit, or without one outside it, is a hole. A hole is a failure
unless `KNOWN_HOLES` says why no such case can exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.graph import Case
from conformance.table import Table

_EVERY_PRECISION = "the operator's config supports every precision, and in floats it takes any of them"

# (row, or row and precision as in case ids; constraint) -> why nothing can stand outside the limit.
KNOWN_HOLES: Mapping[tuple[str, str], str] = {
    ("aten.addmm.default", "rank"): "addmm takes matrices only: torch refuses every other rank",
    ("aten.mm.default", "rank"): "mm takes matrices only: torch refuses every other rank",
    ("aten.bmm.default", "rank"): "bmm takes batches of matrices only: torch refuses every other rank",
    ("aten.upsample_nearest2d.vec", "static_shape"): "torch 2.13 fails on empty inputs (its check takes no int)",
    ("aten.mean.dim", "rescale"): "input and output scales are equal, so only 2**24 elements or more would overflow",
    ("aten.linear.default", "precision"): _EVERY_PRECISION,
    ("aten.conv1d.default/fp32", "precision"): _EVERY_PRECISION,
    ("aten.conv1d.default/fp16", "precision"): _EVERY_PRECISION,
    ("aten.conv2d.default/fp32", "precision"): _EVERY_PRECISION,
    ("aten.conv2d.default/fp16", "precision"): _EVERY_PRECISION,
    ("aten.avg_pool2d.default/static_int8", "dtype"): "the pool is computed in floats, whatever the codes around it",
}


@dataclass(frozen=True)
class Coverage:
    """Counts for one constraint of one row in one precision. `contexts` counts cases whose verdict is open.

    row: its name, and the precision where the table has several, as in case ids.
    """

    row: str
    constraint: str
    inside: int
    at_limit: int
    outside: int
    contexts: int
    known: str | None

    @property
    def hole(self) -> str | None:
        """What is missing, or None."""
        missing = [name for name in ("at_limit", "outside") if getattr(self, name) == 0]
        return " and ".join(missing) if missing else None

    @property
    def failed(self) -> bool:
        """A hole without a reason, or a reason without a hole."""
        return (self.hole is not None) != (self.known is not None)


def coverage(table: Table, cases: Iterable[Case], known: Mapping[tuple[str, str], str] = KNOWN_HOLES) -> list[Coverage]:
    """One record per row, precision and constraint (the common ones included), in the table's order."""
    counts = Counter((_place(case.row, case.precision), case.constraint, case.side) for case in cases)
    return [
        _record(_place(row.name, precision), code, counts, known.get((row.name, code)), known)
        for row in table.rows
        for precision in row.precisions or (None,)
        for code in table.codes(row, precision)
    ]


def _place(row: str, precision: str | None) -> str:
    return row if precision is None else f"{row}/{precision}"


def _record(
    place: str,
    code: str,
    counts: Counter[tuple[str, str, str]],
    of_row: str | None,
    known: Mapping[tuple[str, str], str],
) -> Coverage:
    inside, at_limit, outside, open_ = (
        counts[place, code, side] for side in ("accept", "at_limit", "outside", "context")
    )
    return Coverage(place, code, inside, at_limit, outside, open_, known.get((place, code), of_row))


def failures(records: Iterable[Coverage]) -> list[str]:
    """One sentence per failing record."""
    return [_sentence(record) for record in records if record.failed]


def _sentence(record: Coverage) -> str:
    where = f"{record.row}: {record.constraint}"
    if record.hole is None:
        return f"{where}: listed as a hole ({record.known}), but both sides have cases"
    return f"{where}: no case {record.hole.replace('_', ' ')}"


def report(table: Table, cases: Iterable[Case]) -> str:
    """The coverage as a text table: one line per row, precision and constraint, holes with their reason."""
    everything = list(cases)
    records = coverage(table, everything)
    width = max(len(record.row) for record in records)
    codes = max(len(record.constraint) for record in records)
    head = f"{'operator':{width}}  {'constraint':{codes}}  inside  at limit  outside  open"
    lines = [
        f"{r.row:{width}}  {r.constraint:{codes}}  {r.inside:6}  {r.at_limit:8}  {r.outside:7}  {r.contexts:4}"
        + _remark(r)
        for r in records
    ]
    return "\n".join([head, *lines, _totals(everything, records)])


def _remark(record: Coverage) -> str:
    return "" if record.hole is None else f"  {record.known or 'HOLE: no case ' + record.hole.replace('_', ' ')}"


def _totals(cases: list[Case], records: list[Coverage]) -> str:
    expected = Counter(case.expect for case in cases)
    sides = Counter(case.side for case in cases)
    covered = sum(record.hole is None for record in records)
    verdicts = ", ".join(f"{expected[name]} {name}" for name in ("accept", "reject", "unspecified"))
    kinds = f"{sides['context']} context, {sides['value']} value"
    return f"{len(cases)} cases ({verdicts}; {kinds}); {covered} of {len(records)} constraints have both sides"
