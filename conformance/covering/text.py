"""The coverage of a table's limits as text, and as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from npu_assay.conformance.covering.atoms import Owed
from npu_assay.conformance.covering.counts import Counts
from npu_assay.conformance.covering.measure import RowCoverage
from npu_assay.conformance.covering.pairs import Pairing
from npu_assay.conformance.table import Table

OPEN = "open"  # neither shown nor proved


def counts(record: RowCoverage) -> Counts:
    """The numbers of one row in one precision."""
    owed, pairs = record.owed, record.pairings
    impossible, apart = (sum(proof.moved for _, proof in each) for each in (record.proofs, record.pair_proofs))
    shown = (len(owed) - len(record.holes), len(owed), len(pairs) - len(record.apart), len(pairs))
    return Counts(*shown, impossible, apart)


def total(records: Sequence[RowCoverage]) -> Counts:
    """The numbers of a table."""
    return sum(map(counts, records), Counts(0, 0, 0, 0))


def page(table: Table, records: Sequence[RowCoverage], holes: bool) -> str:
    """A line for each row and precision, what no case shows, and the numbers of the table.

    holes: also those of 2-way coverage, which may be many.
    """
    width = max(len(record.name) for record in records)
    lines = [f"{'operator':{width}}  {'MC/DC':50}  2-way"]
    lines += [f"{r.name:{width}}  {counts(r).atoms_text:50}  {counts(r).pairs_text}".rstrip() for r in records]
    lines += ["", *_holes(records)]
    lines += _apart(records) if holes else ()
    return "\n".join([*lines, *_undefined(records), "", summary(table, records)])


def summary(table: Table, records: Sequence[RowCoverage]) -> str:
    """The numbers of a table in one line."""
    found = total(records)
    return f"{table.name}@{table.version}: MC/DC {found.atoms_text}; 2-way {found.pairs_text}"


def _holes(records: Sequence[RowCoverage]) -> Iterator[str]:
    """What no two cases show: each with the proof that no program does, what is open with the rows where it is."""
    rows = defaultdict[str, list[str]](list)
    for record in records:
        proofs = dict(record.proofs)
        for hole in record.holes:
            if hole in proofs:
                yield f"not shown: {record.name}: {hole_text(hole)}: {proofs[hole]}"
            else:
                rows[hole_text(hole)].append(record.name)
    for text, names in sorted(rows.items(), key=lambda item: (-len(item[1]), item[0])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"open: {text}: {', '.join(names[:3])}{more}"


def hole_text(hole: Owed) -> str:
    """What an atom owes, in words."""
    feature = f" by {hole.feature}" if hole.feature and hole.feature != hole.atom else ""
    return f"{hole.code}: {hole.atom!r} decides{feature}{', at the limit' if hole.near else ''}"


def _apart(records: Sequence[RowCoverage]) -> Iterator[str]:
    for record in records:
        proofs = dict(record.pair_proofs)
        for each in record.apart:
            yield f"not together: {record.name}: {apart_text(each)}: {proofs.get(each, OPEN)}"


def apart_text(pairing: Pairing) -> str:
    """Two classes that no accepted case has together, in words."""
    sides = zip(pairing.factors, pairing.classes, strict=True)
    return " and ".join(f"{code}: {atom!r} {found}" for (code, atom), found in sides)


def _undefined(records: Sequence[RowCoverage]) -> Iterator[str]:
    codes = sorted({code for record in records for code in record.undefined})
    if codes:
        yield f"without a predicate, and not counted: {', '.join(codes)}"


def plain(table: Table, records: Sequence[RowCoverage]) -> dict[str, Any]:
    """The same as plain data, for JSON."""
    return {
        "table": f"{table.name}@{table.version}",
        "total": vars(total(records)),
        "rows": [
            {
                "row": record.row,
                "precision": record.precision,
                **vars(counts(record)),
                "owed": [vars(each) for each in record.owed],
                "not_together": [vars(each) for each in record.apart],
                "proofs": [{**vars(hole), "kind": proof.kind, "text": str(proof)} for hole, proof in record.proofs],
                "proofs_apart": [
                    {**vars(pair), "kind": proof.kind, "text": str(proof)} for pair, proof in record.pair_proofs
                ],
                "undefined": record.undefined,
            }
            for record in records
        ],
    }
