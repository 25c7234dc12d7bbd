"""How well the cases cover a table: per row, precision and constraint, what stands inside, at and outside the limit.

A constraint without a case at its limit, or without one outside it, is a hole. A hole is a failure
unless `KNOWN_HOLES` says why no such case can exist.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table

_EVERY_PRECISION = "the operator's config supports every precision, and in floats it takes any of them"

_NUMBERS = ("arange.start_step", "eye.default", "full.default", "linspace.default", "scalar_tensor.default")
_CLONE = "dim_order_ops._clone_dim_order.default"
_BITS = (
    *(f"bitwise_{name}.{kind}" for name in ("and", "or", "xor") for kind in ("Scalar", "Tensor")),
    *("bitwise_not.default", "bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"),
    *("__lshift__.Scalar", "__rshift__.Scalar"),
)
_RELATIONS = ("eq", "ge", "gt", "le", "lt")
_POOLS = ("_adaptive_avg_pool2d.default", "avg_pool2d.default", "max_pool2d.default", "max_pool2d_with_indices.default")


def _of_codes(precision: str) -> Iterator[tuple[tuple[str, str], str | None]]:
    """Holes in one of the precisions of 8 and 16 bits, as other tables have rows of the same names."""
    for name in _NUMBERS:
        for code in ("quantized_inputs", "dtype", "per_tensor", "static_shape"):
            yield (f"aten.{name}/{precision}", code), "it has no operands, and its numbers are float32"
    for name in _RELATIONS:
        yield (f"aten.{name}.Scalar/{precision}", "mixed_dtype"), "it has one operand, and its result is a truth"
        for kind, code in itertools.product(("Tensor", "Scalar"), ("quantized", "quantized_outputs")):
            yield (f"aten.{name}.{kind}/{precision}", code), "its result is a truth, which nobody quantizes"
    for name in _POOLS:
        yield (f"aten.{name}/{precision}", "rank"), "torch refuses every other rank"
    for name in ("split_copy.Tensor", "split_with_sizes_copy.default"):
        yield (
            (f"aten.{name}/{precision}", "static_shape"),
            "torch 2.13 fails on dynamic sizes (it asks for their offset)",
        )
    for name in ("clamp.default", "clamp.Tensor"):
        yield (f"aten.{name}/{precision}", "bounds"), "torch refuses a clamp without bounds"
    yield (f"aten.where.self/{precision}", "condition_dtype"), "torch exports boolean conditions alone"
    yield (f"aten.index.Tensor/{precision}", "max_elements"), "2**31 numbers do not fit into a test's memory"
    yield (f"aten.full_like.default/{precision}", "dtype"), "its numbers are float32"
    yield (f"aten.mean.dim/{precision}", "rescale"), None


def _of_integers() -> Iterator[tuple[tuple[str, str], str | None]]:
    """Holes of the tables with integer precisions."""
    for precision in ("int8", "int16"):
        yield from _of_codes(precision)
    for name in ("pow.Tensor_Scalar", "pow.Tensor_Tensor"):
        where = (f"aten.{name}/int16", "table_slope")
        yield where, "only negative exponents jump, of which the float golden has no bound"
    for precision in ("int8", "int16", "integers"):
        yield (f"aten.slice_copy.Tensor/{precision}", "step"), "torch refuses steps below 1"
        yield (f"{_CLONE}/{precision}", "no_conversion"), "a clone has the type of its operand"
    for name in _BITS:
        yield (f"aten.{name}/integers", "integer_operands"), "torch refuses real numbers"


# (row, or row and precision as in case ids; constraint) -> why nothing can stand outside the limit; None where
# something can, although the row of another table has a hole.
KNOWN_HOLES: Mapping[tuple[str, str], str | None] = {
    **dict(_of_integers()),
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

ELSEWHERE = "it holds for every row, and no program near the plain one of this row was found on both sides of it"
"""Why there are no cases about a limit of the table's own that other rows show."""


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


def coverage(
    table: Table, cases: Iterable[Case], known: Mapping[tuple[str, str], str | None] = KNOWN_HOLES
) -> list[Coverage]:
    """One record per row, precision and constraint (the common ones included), in the table's order."""
    counts = Counter((_place(case.row, case.precision), case.constraint, case.side) for case in cases)

    def record(row: str, precision: str | None, code: str) -> Coverage:
        place = _place(row, precision)
        reached = counts[place, code, "outside"] > 0
        return _record(place, code, counts, _reason(table, row, precision, code, known, reached))

    return [
        record(row.name, precision, code)
        for row in table.rows
        for precision in row.precisions or (None,)
        for code in table.codes(row, precision)
    ]


def _reason(
    table: Table,
    row: str,
    precision: str | None,
    code: str,
    known: Mapping[tuple[str, str], str | None],
    reached: bool,
) -> str | None:
    """Why no case can be about a code: the reason of the table that defines it, else the suite's.

    reached: whether there are cases outside of it.
    """
    defined = table.own.definition(code)
    if defined is not None:
        told = "" if defined.holds is not None and reached else defined.unchecked
        return told or (ELSEWHERE if code in {c.code for c in table.common} and not reached else None)
    return known.get((_place(row, precision), code), known.get((row, code)))


def _place(row: str, precision: str | None) -> str:
    return row if precision is None else f"{row}/{precision}"


def _record(place: str, code: str, counts: Counter[tuple[str, str, str]], reason: str | None) -> Coverage:
    inside, at_limit, outside, open_ = (
        counts[place, code, side] for side in ("accept", "at_limit", "outside", "context")
    )
    return Coverage(place, code, inside, at_limit, outside, open_, reason)


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
