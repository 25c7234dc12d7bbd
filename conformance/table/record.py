"""A support table as records: what a vendor promises, operator by operator."""

from __future__ import annotations

from dataclasses import dataclass, field

from npu_assay.conformance.common.schema import DOCUMENT, TableError
from npu_assay.conformance.predicates.own import Own
from npu_assay.conformance.table.constraints import Constraint
from npu_assay.conformance.table.operator_names import nearest_operators


@dataclass(frozen=True)
class Row:
    """One operator of the table.

    `operator` is what programs call (the row's name unless the document spells it otherwise);
    `rewritten_to` is the operator it is judged as after the vendor's passes, or None. `precisions` are what
    the operator is promised in (see PRECISIONS); empty when the vendor has only one.
    `source` says where the row comes from, "document" unless the vendor's document does not list the operator;
    `precision_sources` says the same of each precision. `documented_as` is the document's name of the operator where
    it is another one, and `compiled_to` what the vendor's compiler makes of the operator, both "" where unknown.
    """

    name: str
    document: str
    operator: str
    rewritten_to: str | None
    constraints: tuple[Constraint, ...]
    precisions: tuple[str, ...] = ()
    source: str = DOCUMENT
    precision_sources: tuple[str, ...] = ()
    documented_as: str = ""
    compiled_to: str = ""

    def source_of(self, precision: str) -> str:
        """Where the promise of a precision comes from; "" asks for the row's own source."""
        return dict(zip(self.precisions, self.precision_sources, strict=True)).get(precision, self.source)

    def constraint(self, code: str) -> Constraint:
        """The row's constraint with this code. Raises KeyError when it has none."""
        for constraint in self.constraints:
            if constraint.code == code:
                return constraint
        raise KeyError(f"{self.name} has no constraint {code!r}")


@dataclass(frozen=True)
class Rewritten:
    """An operator of the vendor's document that reaches no partitioner.

    `name` and `document` are spelled as the document prints them; `operators` are the rows of the table that it
    becomes in edge programs.
    """

    name: str
    document: str
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A whole support table. `common` holds for every row; `sha256` is of the file's bytes.

    `refused` are operators that the vendor's document lists and the vendor's code refuses: their only constraint is
    the reason. `rewritten` are those that edge programs spell otherwise.

    `preserve` are the operators that are not decomposed in the edge program. `mark` is the name under which the
    vendor's quantizer notes in a node's meta (`custom`) that it quantized the node, "" when it does not. `file` is what
    errors call it. `own` are the constraints that the table defines itself. `offers`: nothing is promised of any row.
    `beside` are operators that the backend takes though the document does not list them: nothing is promised of them
    either, and what is taken is computed rightly.
    `follows` is the table of the release before it, "" for none: what only that one excludes has cases in this one.
    """

    name: str
    version: str
    backend_id: str
    source: str
    rescale: str
    parameters: tuple[tuple[str, int], ...]
    meanings: tuple[tuple[str, str], ...]
    common: tuple[Constraint, ...]
    rows: tuple[Row, ...]
    sha256: str
    preserve: tuple[str, ...] = ()
    mark: str = ""
    refused: tuple[Row, ...] = ()
    rewritten: tuple[Rewritten, ...] = ()
    file: str = field(default="", compare=False)
    own: Own = field(default_factory=Own)
    offers: bool = False
    follows: str = ""
    beside: tuple[Row, ...] = ()

    @property
    def title(self) -> str:
        """Name and version, as commands take it."""
        return f"{self.name}@{self.version}"

    @property
    def every_row(self) -> tuple[Row, ...]:
        """The rows that are promised, then those that are refused."""
        return (*self.rows, *self.refused)

    @property
    def asked_rows(self) -> tuple[Row, ...]:
        """All rows that have cases: those of the document, then those beside it."""
        return (*self.every_row, *self.beside)

    def row(self, name: str) -> Row:
        """The row called `name`, of whatever kind. Raises TableError that names the nearest row."""
        for row in self.asked_rows:
            if row.name == name:
                return row
        near = nearest_operators(name, (row.name for row in self.asked_rows))
        raise TableError(f"table {self.title} has no operator {name!r}{near}")

    def sentence(self, constraint: Constraint) -> str:
        """A constraint in words."""
        return constraint.sentence(dict(self.meanings))

    def sentence_of(self, row: str, code: str | None) -> str:
        """The constraint of a row with this code in words; "" where it has none."""
        every = (*self.row(row).constraints, *self.common)
        return next((self.sentence(constraint) for constraint in every if constraint.code == code), "")

    def codes(self, row: Row, precision: str | None = None) -> tuple[str, ...]:
        """Codes of every rule that holds for a row, in one precision or in any: the common ones, then its own."""
        return tuple(c.code for c in (*self.common, *row.constraints) if c.holds_for(precision))
