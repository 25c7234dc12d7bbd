"""A vendor's support table: one TOML file, read and checked in full before anything uses it."""

from __future__ import annotations

import difflib
import hashlib
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npu_assay.conformance.constraints import Constraint, nearest, parse_constraint

FOLDER = Path(__file__).parent / "tables"
SCHEMA = 1
TOP: Mapping[str, type] = {
    "schema": int,
    "name": str,
    "version": str,
    "backend_id": str,
    "source": str,
    "rescale": str,
    "preserve": list,
    "mark": str,
    "parameters": dict,
    "common": dict,
    "constraints": dict,
    "operators": dict,
}
ROW: Mapping[str, type] = {
    "document": str,
    "precisions": list,
    "constraints": list,
    "operator": str,
    "rewritten_to": str,
}
NAMED = ("name", "version", "backend_id")  # of the top: texts that are not empty
RESCALES = ("tflite_double_round", "tosa_single_round", "xnnpack_fp32")
"""The rescale schemes that there are exact goldens for; a table without one has ""."""
PARAMETERS = ("macs", "pipes")
"""What a table can say of its hardware."""
SOURCES = ("document", "decision", "source", "vela", "onnx")
"""Where the constraints of the suite's own tables come from, beside versions. A table may have others."""
ALIKE = 0.8  # of a source and a known one, as difflib counts it: then it is that one, misspelt
OPTIONAL = {"preserve", "mark", "precisions", "operator", "rewritten_to"}
INTEGER_PRECISIONS = ("int8", "int8_per_channel", "int16", "int16_per_channel", "integers")
PRECISIONS = (
    *("fp32", "fp16", "static_int8", "static_int8_per_channel", "dynamic_int8", "dynamic_int4"),
    *INTEGER_PRECISIONS,
)
"""The number types that a row may list.

Floats, int8 with scales in the program, int8 with scales from run time; and, for hardware that computes on integers
alone, codes of 8 and 16 bits (weights always have 8) and plain integers and booleans.
"""


class TableError(ValueError):
    """A support table that cannot be used; the message names file, operator and key."""


@dataclass(frozen=True)
class Row:
    """One operator of the table.

    `operator` is what programs call (the row's name unless the document spells it otherwise);
    `rewritten_to` is the operator it is judged as after the vendor's passes, or None. `precisions` are the
    number types that the operator is promised in (see PRECISIONS); empty when the vendor has only one.
    """

    name: str
    document: str
    operator: str
    rewritten_to: str | None
    constraints: tuple[Constraint, ...]
    precisions: tuple[str, ...] = ()

    def constraint(self, code: str) -> Constraint:
        """The row's constraint with this code. Raises KeyError when it has none."""
        for constraint in self.constraints:
            if constraint.code == code:
                return constraint
        raise KeyError(f"{self.name} has no constraint {code!r}")


@dataclass(frozen=True)
class Table:
    """A whole support table. `common` holds for every row; `sha256` is of the file's bytes.

    `preserve` are the operators that stay whole in the edge program. `mark` is the name under which the vendor's
    quantizer notes in a node's meta (`custom`) that it quantised the node, "" when it does not. `file` is what errors
    call it.
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
    file: str = field(default="", compare=False)

    def row(self, name: str) -> Row:
        """The row called `name`. Raises TableError that names the nearest row."""
        for row in self.rows:
            if row.name == name:
                return row
        raise TableError(
            f"table {self.name}@{self.version} has no operator {name!r}{nearest(name, (r.name for r in self.rows))}"
        )

    def sentence(self, constraint: Constraint) -> str:
        """A constraint in words."""
        return constraint.sentence(dict(self.meanings))

    def codes(self, row: Row, precision: str | None = None) -> tuple[str, ...]:
        """Codes of every rule that holds for a row, in one precision or in any: the common ones, then its own."""
        return tuple(c.code for c in (*self.common, *row.constraints) if c.holds_for(precision))


def table_path(name: str) -> Path:
    """The file of a table that ships with the suite (`neutron@1.3`), or the path itself if it is one.

    Raises TableError when there is neither.
    """
    path = Path(name)
    if path.suffix == ".toml":
        return path
    shipped = FOLDER / f"{name}.toml"
    if not shipped.is_file():
        known = [found.stem for found in FOLDER.glob("*.toml")]
        raise TableError(f"no table {name!r}{nearest(name, known)}")
    return shipped


_HELD: dict[str, bytes] = {}


@contextmanager
def held(name: str) -> Iterator[bytes]:
    """Read a table's file once: within, this process and those that it forks load the table from these bytes.

    A file may be saved again while a run goes on. Raises TableError when it cannot be read.
    """
    if name in _HELD:
        yield _HELD[name]
        return
    _HELD[name] = data = _read(table_path(name))
    try:
        yield data
    finally:
        del _HELD[name]


def table_bytes(name: str) -> bytes:
    """A table's file, by name or path; as it was read before while it is `held`. Raises TableError."""
    return _HELD[name] if name in _HELD else _read(table_path(name))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TableError(f"{path}: cannot read the table: {error.strerror}") from error


def load_table(name: str) -> Table:
    """Read a table by name or path. Raises TableError for anything that does not fit the schema."""
    return read_table(table_bytes(name), table_path(name).name)


def read_table(data: bytes, file: str) -> Table:
    """Read the bytes of a table; `file` is what errors call it. Raises TableError."""
    try:
        return parse_table(tomllib.loads(data.decode()), file, hashlib.sha256(data).hexdigest())
    except UnicodeDecodeError as error:
        raise TableError(f"{file}: not UTF-8 text at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"{file}: {_toml_error(data.decode(), str(error))}") from error
    except RecursionError:
        raise TableError(f"{file}: values are nested too deeply to be read") from None


def _toml_error(text: str, message: str) -> str:
    """TOML's own message; for a repeated key it lacks the key, which is found here."""
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        key = line.split(" = ", 1)[0].strip()
        if line.startswith('"') and key in seen:
            return f"operator {key} stands twice, again on line {number}"
        seen.add(key)
    return message


def parse_table(data: Mapping[str, Any], file: str, sha256: str) -> Table:
    """Check a table's data against the schema and make the record. Raises TableError."""
    _check_keys(data, TOP, set(TOP) - OPTIONAL, file)
    if data["schema"] != SCHEMA:
        raise TableError(f"{file}: schema is {data['schema']}, expected {SCHEMA}")
    for key in NAMED:
        _check_text(data[key], f"{file}: {key}")
    if data["rescale"]:
        _check_known(data["rescale"], RESCALES, f"{file}: rescale", "scheme")
    meanings = _meanings(data["constraints"], file)
    _check_keys(data["common"], {"constraints": list}, {"constraints"}, f"{file}: common")
    for key, value in data["parameters"].items():
        _check_known(key, PARAMETERS, f"{file}: parameters", "key")
        _check_type(value, int, f"{file}: parameters: {key}")
    rows = tuple(_row(name, row, meanings, f"{file}: {name}") for name, row in data["operators"].items())
    if not rows:
        raise TableError(f"{file}: operators: the table is empty")
    table = Table(
        **{key: data[key] for key in ("name", "version", "backend_id", "source", "rescale")},
        parameters=tuple(data["parameters"].items()),
        meanings=tuple(meanings.items()),
        common=_constraints(data["common"]["constraints"], meanings, f"{file}: common"),
        rows=rows,
        sha256=sha256,
        preserve=_names(data.get("preserve", []), f"{file}: preserve"),
        mark=data.get("mark", ""),
        file=file,
    )
    _check_used(table, file)
    return table


def _meanings(data: Mapping[str, Any], file: str) -> dict[str, str]:
    for code, sentence in data.items():
        _check_type(sentence, str, f"{file}: constraints: {code}")
    return dict(data)


def _row(name: str, data: Any, meanings: Mapping[str, str], where: str) -> Row:
    _check_type(data, dict, where)
    _check_keys(data, ROW, set(ROW) - OPTIONAL, where)
    _check_operator(name, where)
    for key in {"operator", "rewritten_to"} & data.keys():
        _check_operator(data[key], f"{where}: {key}: {data[key]!r}")
    row = Row(
        name,
        data["document"],
        data.get("operator", name),
        data.get("rewritten_to"),
        _constraints(data["constraints"], meanings, where),
        _precisions(data.get("precisions", []), where),
    )
    for constraint in row.constraints:
        _check_precisions(constraint, row, where)
    return row


def _check_operator(name: str, where: str) -> None:
    if len([part for part in name.split(".") if part.strip()]) < 3:
        raise TableError(f"{where}: an operator is named namespace.operator.overload, e.g. aten.add.Tensor")


def _names(names: list[Any], where: str) -> tuple[str, ...]:
    """A list of operators."""
    for name in names:
        _check_type(name, str, where)
        _check_operator(name, f"{where}: {name}")
    return tuple(names)


def _precisions(names: list[Any], where: str) -> tuple[str, ...]:
    """A row's number types, each once."""
    for name in names:
        _check_type(name, str, f"{where}: precisions")
        _check_known(name, PRECISIONS, f"{where}: precisions", "precision")
        if names.count(name) > 1:
            raise TableError(f"{where}: precisions: {name!r} stands twice")
    return tuple(names)


def _check_precisions(constraint: Constraint, row: Row, where: str) -> None:
    """A rule is limited to number types that its row has."""
    for name in constraint.precisions:
        if name not in row.precisions:
            raise TableError(f"{where}: constraint {constraint.code!r} is for {name!r}, which the row does not list")


def _constraints(texts: list[Any], meanings: Mapping[str, str], where: str) -> tuple[Constraint, ...]:
    parsed = [_constraint(text, meanings, f"{where}: constraints") for text in texts]
    codes = [constraint.code for constraint in parsed]
    for code in codes:
        if codes.count(code) > 1:
            raise TableError(f"{where}: constraints: {code!r} stands twice")
    return tuple(parsed)


def _constraint(text: Any, meanings: Mapping[str, str], where: str) -> Constraint:
    _check_type(text, str, where)
    try:
        constraint = parse_constraint(text)
    except ValueError as error:
        raise TableError(f"{where}: {error}") from error
    _check_known(constraint.code, meanings, where, "constraint")
    _check_source(constraint, where)
    if ("{value}" in meanings[constraint.code]) != (constraint.value is not None):
        wants = "needs a value" if constraint.value is None else f"takes no value, found {constraint.value!r}"
        raise TableError(f"{where}: constraint {constraint.code!r} {wants}")
    return constraint


def _check_source(constraint: Constraint, where: str) -> None:
    """A source may be anything but a known one misspelt."""
    source = constraint.source
    if source not in SOURCES and (close := difflib.get_close_matches(source, SOURCES, n=1, cutoff=ALIKE)):
        raise TableError(f"{where}: constraint {constraint.code!r}: source {source!r}, did you mean {close[0]!r}?")


def _check_used(table: Table, file: str) -> None:
    """Every meaning belongs to some constraint: a stray one is a misspelling or a leftover."""
    used = {c.code for c in table.common} | {c.code for row in table.rows for c in row.constraints}
    for code, _ in table.meanings:
        if code not in used:
            raise TableError(f"{file}: constraints: no operator uses {code!r}{nearest(code, used)}")


def _check_keys(data: Mapping[str, Any], known: Mapping[str, type], required: set[str], where: str) -> None:
    for key, value in data.items():
        _check_known(key, known, where, "key")
        _check_type(value, known[key], f"{where}: {key}")
    for key in known:
        if key in required and key not in data:
            raise TableError(f"{where}: key {key!r} is missing")


def _check_type(value: Any, kind: type, where: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TableError(f"{where}: expected {kind.__name__}, found {value!r} ({type(value).__name__})")


def _check_known(name: str, known: Collection[str], where: str, what: str) -> None:
    if name not in known:
        raise TableError(f"{where}: unknown {what} {name!r}{nearest(name, known)}")


def _check_text(text: str, where: str) -> None:
    if not text.strip() or not text.isprintable():
        raise TableError(f"{where}: expected a name, found {text!r}")
