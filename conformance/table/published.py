"""`assay table import`: a vendor's published table of operators, in CSV or Markdown, as a table to begin with.

Columns are known by their headings. What stands in the constraints' column stays as the row's `document`; what can be
read of it becomes constraints that the table defines, and the rest a constraint that no case checks, marked as not
read. Operators that the suite does not know stand in comments.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from npu_assay.conformance.cases import every_operator, has_cases
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.table.operator_names import called
from npu_assay.reference.golden.aten import canonical, parameters

HEADINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "operator": ("operator", "edgeir operator", "op", "name", "aten operator"),
        "namespace": ("namespace",),
        "dtype": ("compute dtype", "dtype", "data type", "precision"),
        "quantization": ("quantization",),
        "constraints": ("constraints", "notes", "constraint", "limitations", "remarks"),
    }
)
LARGEST, LONGEST = 2**20, 60  # characters of a file, and of a code
UNREAD = "not read from the published table"
PRECISIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "8x8": ("int8",),
        "16x8": ("int16",),
        "fp32": ("fp32",),
        "fp16": ("fp16",),
    }
)
_EQUAL = re.compile(r"([a-z_]\w*)\s*=\s*(True|False|-?\d+(?:\.\d+)?)(?:\s+required)?", re.ASCII)
_COMPARED = re.compile(r"([a-z][a-z_ ]*?)\s*(<=|>=|<|>)\s*(\d+)", re.ASCII)
_MULTIPLE = re.compile(r"([a-z][a-z_ ]*?)\s*%\s*(\d+)\s*=\s*0", re.ASCII)
_RANK = re.compile(r"(\d)D (?:tensors?|inputs?)(?: only)?", re.IGNORECASE)
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "rank": "x.rank",
        "channels": "channels",
        "flat input size": "x.elements",
        "batch": "batch",
        "batch size": "batch",
        "groups": "groups",
    }
)
"""What published tables call features."""
COMMON: Mapping[str, str] = MappingProxyType(
    {
        "quantized": "the operator must stand between dequantize and quantize nodes",
        "static_shape": "every dimension must be a known number, at least 1",
    }
)
"""What holds for every row where all are quantized."""
WINDOWS = ("dilation", "kernel", "padding", "stride")


@dataclass(frozen=True)
class Entry:
    """One operator of a published table, as it is printed there; `line` counts from 1."""

    line: int
    operator: str
    kinds: str = ""
    constraints: str = ""


@dataclass(frozen=True)
class Read:
    """A constraint that a text was read as: its code, the sentence, and a predicate ("" where it was not read)."""

    code: str
    says: str
    holds: str = ""


# ------------------------------------------------------------------------------------ the file


def entries(text: str, file: str) -> list[Entry]:
    """The operators of a published table, CSV or Markdown. Raises UsageError for what is neither."""
    if len(text) > LARGEST:
        raise UsageError(f"{file}: {len(text)} characters, expected at most {LARGEST}")
    lines = list(_markdown(text) if re.search(r"^\s*\|.*\|\s*$", text, re.MULTILINE) else _csv(text, file))
    for number, cells in lines[:1]:
        columns = _columns(cells)
        if "operator" not in columns:
            expected = ", ".join(repr(name) for name in HEADINGS["operator"])
            raise UsageError(
                f"{file}: line {number}: found the headings {cells}, expected one of them to be {expected}"
            )
        found = [_entry(line, columns, cells) for line, cells in lines[1:]]
        return [entry for entry in found if entry.operator]
    raise UsageError(f"{file}: found no table, expected CSV with a line of headings, or a table of Markdown")


def _csv(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) and not cells[0].startswith("#"):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise UsageError(f"{file}: line {reader.line_num}: {error}") from error


def _markdown(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith("|") and not re.fullmatch(r"[\s|:-]+", line):
            yield number, [cell.strip() for cell in line.strip().strip("|").split("|")]


def _columns(cells: Sequence[str]) -> dict[str, int]:
    """Which column is what, by its heading."""
    words = [cell.lower().strip("`* ") for cell in cells]
    return {name: words.index(word) for name, known in HEADINGS.items() for word in known if word in words}


def _entry(line: int, columns: Mapping[str, int], cells: Sequence[str]) -> Entry:
    def cell(name: str) -> str:
        return cells[columns[name]].strip("`") if name in columns and columns[name] < len(cells) else ""

    space, name = cell("namespace"), cell("operator")
    kinds = " ".join(filter(None, (cell("dtype"), cell("quantization"))))
    return Entry(line, f"{space}.{name}" if space and name else name, kinds, cell("constraints"))


# ------------------------------------------------------------------------------------ operators and precisions


def rows_called(name: str) -> tuple[str, ...]:
    """The suite's operators that a published name means: itself, with `aten.` in front, or every overload of it."""
    known = every_operator()
    for exact in (name, f"aten.{name}"):
        if exact in known:
            return (exact,)
    found = called(name, known) or called(name.removesuffix(".default"), known)
    return tuple(sorted(found))


def precisions(row: str, kinds: str) -> tuple[str, ...] | None:
    """The precisions of a row, of those that the columns name and that the suite has cases in.

    () for static int8 where a row says nothing of it; None where there are none. Without such columns floats come
    first, then int8; where they have nothing for a row, int8.
    """
    named = [each for word, names in PRECISIONS.items() if word in kinds.lower() for each in names]
    if "int8" in kinds.lower() and not named:
        named = [""]
    known = [each for each in named if has_cases(row, each)]
    if not known:  # integers are what is left of 8 bits where nothing is quantized
        plain = ("", "int8", "fp32") if kinds.strip() else ("fp32", "int8", "")
        others = {"": ("int8", "integers"), "int8": ("integers",)}.get(named[0], ()) if named else plain
        known = [each for each in others if has_cases(row, each)][:1]
    return tuple(each for each in known if each) if known else None


# ------------------------------------------------------------------------------------ constraints


def read_constraints(row: str, text: str) -> Iterator[Read]:
    """What a cell says of an operator, part by part: `keepdim=True`, `4D tensor only`; the rest is not read."""
    for part in _parts(text):
        holds = _holds(row, part)
        if holds:
            yield Read(_code(part), part, holds)
        elif part.lower() not in ("n/a", "none", "-"):
            yield Read(f"unread_{_code(part)}"[:LONGEST].rstrip("_"), part)


def _holds(row: str, part: str) -> str:
    """A part as a predicate, "" where it cannot be read."""
    rank, compared, multiple, equal = (form.fullmatch(part) for form in (_RANK, _COMPARED, _MULTIPLE, _EQUAL))
    if rank is not None:
        return f"x.rank == {rank[1]}"
    if compared is not None:
        return _of_feature(row, compared[1], f"{compared[2]} {compared[3]}")
    if multiple is not None:
        return _of_feature(row, multiple[1], f"% {multiple[2]} == 0")
    if equal is None:
        return ""
    default = {name: default for name, _, default in parameters(canonical(row))}.get(equal[1])
    truth = equal[2] in ("True", "False")
    if truth and isinstance(default, bool):
        return equal[1] if equal[2] == "True" else f"not {equal[1]}"
    if not truth and type(default) in (int, float):
        return f"{equal[1]} == {equal[2]}"
    return "" if truth else _of_feature(row, equal[1], f"== {equal[2]}")


def _of_feature(row: str, name: str, rest: str) -> str:
    if name in WINDOWS:
        directions = ("w",) if "1d" in row else ("h", "w")
        return " and ".join(f"{name}_{direction} {rest}" for direction in directions)
    return f"{WORDS[name]} {rest}" if name in WORDS else ""


def _parts(text: str) -> Iterator[str]:
    """Parts between commas and semicolons that are neither in parentheses nor before a further number."""
    depth, part = 0, ""
    for place, letter in enumerate(f"{text},"):
        depth += (letter in "([") - (letter in ")]")
        if letter in ",;" and depth <= 0 and not re.match(r"\s*\d", text[place + 1 :]):
            if part.strip():
                yield part.strip()
            part = ""
        else:
            part += letter


def _code(text: str) -> str:
    """A text as a code: letters, digits and underscores, its comparisons in words."""
    for sign, word in (("<=", " at most "), (">=", " at least "), ("<", " below "), (">", " above "), ("%", " mod ")):
        text = text.replace(sign, word)
    found = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:LONGEST].strip("_")
    return found if found[:1].isalpha() else f"c_{found}"


# ------------------------------------------------------------------------------------ the table


def imported(found: Iterable[Entry], name: str, version: str, backend_id: str, source: str) -> str:
    """A table of schema 2, as text."""
    rules, rows, unknown = dict[str, Read](), dict[str, str](), list[str]()
    quantized = True
    for entry in found:
        names = rows_called(entry.operator)
        for row in names:
            kinds = precisions(row, entry.kinds)
            if kinds is None:
                unknown.append(f"# line {entry.line}: {row}: the suite has no cases in {_text(entry.kinds)}")
            elif row not in rows:
                read = [_told_apart(each, rules) for each in read_constraints(row, entry.constraints)]
                rules.update((each.code, each) for each in read)
                rows[row] = _row(row, entry, kinds, read)
                quantized = quantized and not {"fp32", "fp16", "integers"} & {*kinds}
        if not names:
            unknown.append(f"# line {entry.line}: {_text(entry.operator)} is not an operator of the suite")
    common = _list(f"{code} @document" for code in COMMON if quantized)
    head = [
        f"schema = 2\nname = {_text(name)}\nversion = {_text(version)}\nbackend_id = {_text(backend_id)}",
        f'source = {_text(source)}\nrescale = ""\n\n[parameters]\n',
        f"# Holds for every row.\n[common]\nconstraints = {common}\n",
        f"# unchecked = {_text(UNREAD)}: give it a predicate (docs/predicates.md), or the real reason.\n[constraints]",
        *(f"{code} = {_text(says)}" for code, says in COMMON.items() if quantized),
    ]
    return "\n".join([*head, *map(_rule, rules.values()), "\n[operators]", *rows.values(), *unknown]) + "\n"


def _told_apart(read: Read, rules: Mapping[str, Read]) -> Read:
    """With a code of its own where another constraint has it: `stride < 4096` of a line is not that of an image."""
    while rules.get(read.code, read) != read:
        read = replace(read, code=f"{read.code}_again")
    return read


def _row(row: str, entry: Entry, kinds: Sequence[str], read: Sequence[Read]) -> str:
    listed = f"precisions = {_list(kinds)}, " if kinds else ""
    constraints = _list([f"{code} @document" for code in dict.fromkeys(each.code for each in read)])
    return f"{_text(row)} = {{ document = {_text(entry.constraints)}, {listed}constraints = {constraints} }}"


def _rule(read: Read) -> str:
    rest = f"holds = {_text(read.holds)}" if read.holds else f"unchecked = {_text(UNREAD)}"
    return f"{read.code} = {{ says = {_text(read.says)}, {rest} }}"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _text(text: str) -> str:
    """A string of TOML, whose escapes are those of JSON."""
    return json.dumps("".join(c if c.isprintable() else " " for c in text), ensure_ascii=False)
