"""The data of a table's TOML file, checked against the schema in full and made a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from npu_assay.conformance.common.errors import nearest
from npu_assay.conformance.common.schema import (
    DOCUMENT,
    TableError,
    check_keys,
    check_known,
    check_operator,
    check_source,
    check_text,
    check_type,
)
from npu_assay.conformance.predicates.own import Own, read_own
from npu_assay.conformance.table.constraints import Constraint, parse_constraint
from npu_assay.conformance.table.record import Rewritten, Row, Table

SCHEMAS = (1, 2)
"""1: a constraint of `[constraints]` is a sentence. 2: it may also be a definition, as `predicates.own` reads it."""
TOP: Mapping[str, type] = {
    "schema": int,
    "name": str,
    "version": str,
    "backend_id": str,
    "source": str,
    "rescale": str,
    "preserve": list,
    "mark": str,
    "offers": bool,
    "follows": str,
    "beside": dict,
    "parameters": dict,
    "common": dict,
    "constraints": dict,
    "operators": dict,
    "refused": dict,
    "rewritten": dict,
}
ROW: Mapping[str, type] = {
    "document": str,
    "precisions": list,
    "constraints": list,
    "operator": str,
    "rewritten_to": str,
    "source": str,
    "documented_as": str,
    "compiled_to": str,
}
REWRITTEN: Mapping[str, type] = {"document": str, "operators": list}
NAMED = ("name", "version", "backend_id")  # of the top: texts that are not empty
RESCALES = ("tflite_double_round", "tosa_single_round", "xnnpack_fp32")
"""The rescale schemes that there are exact goldens for; a table without one has ""."""
PARAMETERS = ("macs", "pipes")
"""The parameters of hardware that a table may state."""
OPTIONAL = {"preserve", "mark", "offers", "follows", "beside", "refused", "rewritten"} | {
    *("precisions", "operator", "rewritten_to", "source", "documented_as", "compiled_to"),
}
INTEGER_PRECISIONS = ("int8", "int8_per_channel", "int16", "int16_per_channel", "integers")
PRECISIONS = (
    *("fp32", "fp16", "static_int8", "static_int8_per_channel", "dynamic_int8", "dynamic_int4"),
    *INTEGER_PRECISIONS,
)
"""The precisions that a row may list.

Floats, int8 with scales in the program, int8 with scales from run time; and, for hardware that computes on integers
alone, codes of 8 and 16 bits (weights always have 8) and plain integers and booleans.
"""


def parse_table(data: Mapping[str, Any], file: str, sha256: str) -> Table:
    """Check a table's data against the schema and make the record. Raises TableError."""
    check_keys(data, TOP, set(TOP) - OPTIONAL, file)
    if data["schema"] not in SCHEMAS:
        raise TableError(f"{file}: schema is {data['schema']}, expected one of {list(SCHEMAS)}")
    for key in NAMED:
        check_text(data[key], f"{file}: {key}")
    if data["rescale"]:
        check_known(data["rescale"], RESCALES, f"{file}: rescale", "scheme")
    meanings, own = _meanings(data["constraints"], data["schema"], file)
    check_keys(data["common"], {"constraints": list}, {"constraints"}, f"{file}: common")
    for key, value in data["parameters"].items():
        check_known(key, PARAMETERS, f"{file}: parameters", "key")
        check_type(value, int, f"{file}: parameters: {key}")
    rows = tuple(_row(name, row, meanings, f"{file}: {name}") for name, row in data["operators"].items())
    if not rows:
        raise TableError(f"{file}: operators: the table is empty")
    refused = tuple(_refused(name, row, meanings, f"{file}: {name}") for name, row in data.get("refused", {}).items())
    table = Table(
        **{key: data[key] for key in ("name", "version", "backend_id", "source", "rescale")},
        parameters=tuple(data["parameters"].items()),
        meanings=tuple(meanings.items()),
        common=_constraints(data["common"]["constraints"], meanings, f"{file}: common"),
        rows=rows,
        sha256=sha256,
        preserve=_names(data.get("preserve", []), f"{file}: preserve"),
        mark=data.get("mark", ""),
        refused=refused,
        rewritten=tuple(_rewritten(name, row, rows, file) for name, row in data.get("rewritten", {}).items()),
        file=file,
        own=own,
        offers=data.get("offers", False),
        follows=data.get("follows", ""),
        beside=tuple(_row(name, row, meanings, f"{file}: {name}") for name, row in data.get("beside", {}).items()),
    )
    _check_once(table, file)
    _check_used(table, file)
    return table


def _meanings(data: Mapping[str, Any], schema: int, file: str) -> tuple[dict[str, str], Own]:
    """The sentence of each code, and what the table defines itself."""
    if schema == 1:
        for code, sentence in data.items():
            if isinstance(sentence, dict):
                raise TableError(f"{file}: constraints: {code}: a definition needs 'schema = 2', found schema = 1")
            check_type(sentence, str, f"{file}: constraints: {code}")
    return read_own(data, file)


def _row(name: str, data: Any, meanings: Mapping[str, str], where: str) -> Row:
    check_type(data, dict, where)
    check_keys(data, ROW, set(ROW) - OPTIONAL, where)
    check_operator(name, where)
    for key in {"operator", "rewritten_to"} & data.keys():
        check_operator(data[key], f"{where}: {key}: {data[key]!r}")
    source = data.get("source", DOCUMENT)
    check_source(source, f"{where}: source")
    precisions = _precisions(data.get("precisions", []), source, where)
    row = Row(
        name,
        data["document"],
        data.get("operator", name),
        data.get("rewritten_to"),
        _constraints(data["constraints"], meanings, where),
        tuple(precisions),
        source,
        tuple(precisions.values()),
        data.get("documented_as", ""),
        data.get("compiled_to", ""),
    )
    for constraint in row.constraints:
        _check_precisions(constraint, row, where)
    return row


def _refused(name: str, data: Any, meanings: Mapping[str, str], where: str) -> Row:
    """A row of which the document says more than the backend does: it has one constraint, which says why."""
    row = _row(name, data, meanings, where)
    if len(row.constraints) != 1:
        raise TableError(f"{where}: constraints: expected one, the reason of the refusal, found {len(row.constraints)}")
    if row.source != DOCUMENT:
        raise TableError(
            f"{where}: source: expected {DOCUMENT!r}, as only that lists the operator, found {row.source!r}"
        )
    return row


def _rewritten(name: str, data: Any, rows: Iterable[Row], file: str) -> Rewritten:
    where = f"{file}: rewritten: {name}"
    check_type(data, dict, where)
    check_keys(data, REWRITTEN, set(REWRITTEN), where)
    for operator in _names(data["operators"], f"{where}: operators"):
        check_known(operator, [row.name for row in rows], f"{where}: operators", "row")
    return Rewritten(name, data["document"], tuple(data["operators"]))


def _names(names: list[Any], where: str) -> tuple[str, ...]:
    """A list of operators."""
    for name in names:
        check_type(name, str, where)
        check_operator(name, f"{where}: {name}")
    return tuple(names)


def _precisions(texts: list[Any], source: str, where: str) -> dict[str, str]:
    """A row's precisions, each once, and where each comes from: `int16 @1.5.1`, or without a source as the row."""
    found: dict[str, str] = {}
    for text in texts:
        check_type(text, str, f"{where}: precisions")
        name, _, own = text.partition(" @")
        check_known(name, PRECISIONS, f"{where}: precisions", "precision")
        check_source(own or source, f"{where}: precisions: {name!r}: source")
        if name in found:
            raise TableError(f"{where}: precisions: {name!r} stands twice")
        found[name] = own or source
    return found


def _check_precisions(constraint: Constraint, row: Row, where: str) -> None:
    """A rule is limited to precisions that its row has."""
    for name in constraint.precisions:
        if name not in row.precisions:
            raise TableError(f"{where}: constraint {constraint.code!r} is for {name!r}, which the row does not list")


def _constraints(texts: list[Any], meanings: Mapping[str, str], where: str) -> tuple[Constraint, ...]:
    parsed = [_constraint(text, meanings, f"{where}: constraints") for text in texts]
    for code, count in Counter(constraint.code for constraint in parsed).items():
        if count > 1:
            raise TableError(f"{where}: constraints: {code!r} stands twice")
    return tuple(parsed)


def _constraint(text: Any, meanings: Mapping[str, str], where: str) -> Constraint:
    check_type(text, str, where)
    try:
        constraint = parse_constraint(text)
    except ValueError as error:
        raise TableError(f"{where}: {error}") from error
    if constraint.code not in meanings:
        hint = nearest(constraint.code, meanings, most=0) or ": [constraints] has no sentence for it"
        raise TableError(f"{where}: unknown constraint {constraint.code!r}{hint}")
    check_source(constraint.source, f"{where}: constraint {constraint.code!r}: source")
    if ("{value}" in meanings[constraint.code]) != (constraint.value is not None):
        wants = "needs a value" if constraint.value is None else f"takes no value, found {constraint.value!r}"
        raise TableError(f"{where}: constraint {constraint.code!r} {wants}")
    return constraint


def _check_once(table: Table, file: str) -> None:
    """An operator is either promised or refused."""
    counts = Counter(row.name for row in table.asked_rows)
    for row in table.refused:
        if counts[row.name] > 1:
            raise TableError(f"{file}: refused: {row.name!r} stands in operators, too")


def _check_used(table: Table, file: str) -> None:
    """Every meaning belongs to some constraint: a stray one is a misspelling or a leftover."""
    used = {c.code for c in table.common} | {c.code for row in table.every_row for c in row.constraints}
    for code, _ in table.meanings:
        if code not in used:
            raise TableError(f"{file}: constraints: no operator uses {code!r}{nearest(code, used)}")
