"""The rows of an imported table: the lines of each operator, merged where they say the same, else as alternatives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from npu_assay.conformance.cases import every_operator
from npu_assay.conformance.predicates.grammar import LONGEST as LONGEST_PREDICATE
from npu_assay.conformance.table.operator_names import nearest_operators
from npu_assay.conformance.table.published.cells import (
    LONGEST,
    REFERENCE,
    Read,
    code_of,
    lexicon_of,
    read_constraints,
    read_part,
    types_in,
    unread,
)
from npu_assay.conformance.table.published.columns import Entry
from npu_assay.conformance.table.published.kinds import LACKING, names_types, precisions, read_kinds
from npu_assay.conformance.table.published.names import meant_by, without_remark
from npu_assay.conformance.table.published.vocabulary import Left

NEAREST = 500  # names of a document for which the nearest are sought
NOTHING_THERE = "the row that it refers to has no constraint"
SPACES = ("aten", "dim_order_ops", "quantized_decomposed", "torch", "nn", "F", "Tensor", "tosa", "tfl", "onnx")
"""Namespaces that names of the suite's operators may have."""


def _forms(operators: Iterable[str]) -> frozenset[str]:
    """The names of operators, without `_copy`: edge programs have `slice_copy` for `slice`."""
    return frozenset(each.replace("_copy.", ".") for each in operators)


def _no_operator(name: str, count: int) -> str:
    """The reason for a name that no operator has: a namespace without any, else the nearest names."""
    space, sign, _ = name.partition(".")
    if sign and space.isidentifier() and space not in SPACES:
        return f"no operator of the suite, which has none of namespace {space!r}"
    return f"no operator of the suite{nearest_operators(name, every_operator()) if count < NEAREST else ''}"


def _kind(kind: str) -> str:
    return "any of its types" if kind in ("", LACKING) else kind


@dataclass(frozen=True)
class Promise:
    """What one line says of one operator."""

    entry: Entry
    precisions: tuple[str, ...]
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Row:
    """An operator of the imported table. `limits`: each constraint, with the precisions that it is for (() for all)."""

    name: str
    entries: tuple[Entry, ...]
    precisions: tuple[str, ...]
    limits: tuple[tuple[Read, tuple[str, ...]], ...]


@dataclass
class Rows:
    """The rows of a published table, its constraints by their codes, and what is in no row."""

    entries: Sequence[Entry]
    rows: list[Row] = field(default_factory=list)
    constraints: dict[str, Read] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    unread: list[Left] = field(default_factory=list)

    def __post_init__(self) -> None:
        promises = defaultdict[str, dict[Promise, None]](dict)
        for entry in self.entries:
            for row, promise in self._promises(entry):
                promises[row][promise] = None
        for row, of_row in promises.items():
            self.rows.append(self._row(row, tuple(of_row)))
        beside = {(each.line, each.text): each for each in self.unread}
        self.unread = sorted(beside.values(), key=lambda each: each.line)

    @property
    def predicates(self) -> int:
        """How many constraints have a predicate."""
        return sum(bool(each.holds) for each in self.constraints.values())

    # -------------------------------------------------------------------------------- lines

    @cached_property
    def _usual(self) -> str:
        """What most lines say of types, which is taken for those that say nothing in a column for them."""
        said = Counter(entry.kinds for entry in self.entries if names_types(entry.kinds))
        return said.most_common(1)[0][0] if said else ""

    @cached_property
    def _beside(self) -> frozenset[str]:
        """What all lines together say of types."""
        return frozenset().union(*(read_kinds(entry.kinds)[0] for entry in self.entries))

    def _promises(self, entry: Entry) -> Iterator[tuple[str, Promise]]:
        """What a line says of each operator that it names."""
        name, remark = entry.operator, ""
        meant, unknown = meant_by(name)
        if not meant:
            name, remark = without_remark(name)
            meant, unknown = meant_by(name)
        for each in unknown:
            self.left.append(Left(entry.line, each if meant else entry.printed, _no_operator(each, len(self.left))))
        types, constraints = ([], entry.constraints) if entry.has_kinds else types_in(entry.constraints)
        kinds = "\n".join(filter(None, (entry.kinds, *types)))
        self.left += [
            Left(entry.line, word, "no type that the suite has")
            for word in read_kinds(kinds)[1]
            if meant and word not in ("n", "a", "na", "none")
        ]
        if entry.has_kinds and not names_types(kinds):
            kinds = self._usual
        chosen = {row: precisions(row, kinds, self._beside) for row in meant}
        taken = {row: found for row, (found, _) in chosen.items() if found is not None}
        self.left += self._lacking(entry, chosen, taken)
        for row, of_row in taken.items():
            reads = self._reads(row, of_row, entry, (remark, constraints), meant[row])
            yield row, Promise(entry, of_row, tuple(dict.fromkeys(reads)))

    def _lacking(
        self,
        entry: Entry,
        chosen: dict[str, tuple[tuple[str, ...] | None, tuple[str, ...]]],
        taken: dict[str, tuple[str, ...]],
    ) -> Iterator[Left]:
        """The types of a line that none of its operators has cases in."""
        lacking = [set(kinds) for row, (_, kinds) in chosen.items() if row in taken or not taken]
        for kind in sorted(set.intersection(*lacking)) if lacking else ():
            names, text = ", ".join(taken or chosen), kind if taken else entry.printed
            yield Left(entry.line, text, f"the suite has no cases in {_kind(kind)} for {names}")

    def _reads(
        self, row: str, chosen: tuple[str, ...], entry: Entry, texts: Sequence[str], condition: str
    ) -> Iterator[Read]:
        precision = chosen[0] if chosen else ""
        if condition:
            yield Read(code_of(f"as {entry.operator}"), f"as {entry.operator}: {condition}", condition)
        for text in filter(None, texts):
            for read in read_constraints(row, text, precision):
                yield from self._referred(row, read, precision)
        lexicon = lexicon_of(row, precision)
        for heading, cell in entry.beside:
            read = read_part(lexicon, row, f"{heading} {cell}")
            if read.holds:
                yield read

    def _referred(self, row: str, read: Read, precision: str) -> Iterator[Read]:
        """What a text says; of `see aten.clone.default` what that row says, in which references are not followed."""
        found = REFERENCE.fullmatch(read.says.strip().rstrip(".")) if read.is_unread else None
        names = _forms(meant_by(found[1])[0]) - _forms([row]) if found else frozenset[str]()
        texts = list(dict.fromkeys(text for name in names for text in self._texts.get(name, ())))
        if not texts:
            yield read
        elif not any(texts):
            yield replace(read, code=code_of(read.says), why=NOTHING_THERE)
        for text in filter(None, texts):
            yield from read_constraints(row, text, precision)

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """What each operator's lines say of constraints."""
        found = defaultdict[str, list[str]](list)
        for entry in self.entries:
            for name in _forms(meant_by(entry.operator)[0]):
                found[name].append(entry.constraints)
        return found

    # -------------------------------------------------------------------------------- rows

    def _row(self, row: str, promises: Sequence[Promise]) -> Row:
        """A row of everything that its lines say: of lines in the same precision each is an alternative."""
        every = tuple(dict.fromkeys(name for each in promises for name in each.precisions))
        lines = defaultdict[tuple[int, ...], list[str]](list)
        for name in every or ("",):
            at = tuple(n for n, each in enumerate(promises) if not each.precisions or name in each.precisions)
            lines[at].append(name)
        limits = defaultdict[str, list[str]](list)
        for at, names in lines.items():
            for read in _told_apart(tuple(_alternatives([promises[n] for n in at])), self.constraints):
                limits[read.code] += names
                if read.is_unread:
                    self.unread += [Left(promises[n].entry.line, read.says, f"not read, of {row}") for n in at[:1]]
        found = tuple(
            (self.constraints[code], () if set(names) == set(every or ("",)) else tuple(names))
            for code, names in limits.items()
        )
        entries = tuple(dict.fromkeys(each.entry for each in promises))
        return Row(row, entries, every, found)


def _alternatives(promises: Sequence[Promise]) -> Iterator[Read]:
    """The constraints of a line; of several lines with other ones that one of them holds, where all are read."""
    shared = [read for read in promises[0].reads if all(read in each.reads for each in promises)]
    yield from shared
    own = [[read for read in each.reads if read not in shared] for each in promises]
    if not any(own):
        return
    flat = list(dict.fromkeys(read for reads in own for read in reads))
    holds = " or ".join(" and ".join(f"({read.holds})" for read in reads) for reads in own)
    whole = all(own) and all(read.holds and not read.value for read in flat) and len(holds) <= LONGEST_PREDICATE
    if whole:
        says = "; or: ".join(" and ".join(read.says for read in reads) for reads in own)
        yield Read(code_of(says), says, holds)
        return
    for line, reads in zip(promises, own, strict=True):
        for read in reads:
            yield unread(f"{read.says} (line {line.entry.line}, beside another line of this operator)")


def _told_apart(reads: Sequence[Read], known: dict[str, Read]) -> Iterator[Read]:
    """Each constraint with its own code: `stride < 4096` of a line of numbers is not that of an image."""
    for read in reads:
        number, code = 1, read.code
        while known.setdefault(read.code, read) != read:
            number += 1
            read = replace(read, code=f"{code[: LONGEST - 8].rstrip('_')}_again_{number}")
        yield read
