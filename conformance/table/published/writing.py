"""An imported table as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from npu_assay.conformance.table.published.cells import UNREAD, Read
from npu_assay.conformance.table.published.rows import Row, Rows
from npu_assay.conformance.table.published.vocabulary import Left

COMMON: Mapping[str, str] = MappingProxyType(
    {
        "quantized": "the operator must stand between dequantize and quantize nodes",
        "static_shape": "every dimension must be a known number, at least 1",
    }
)
"""What holds for every row where all are quantized."""
REAL = {"fp32", "fp16", "integers"}


def written(rows: Rows, left: Sequence[Left], name: str, version: str, backend_id: str, source: str) -> str:
    """A table of schema 2: every row with the published lines that it is from, and what was left out at the end."""
    quantized = not any(REAL & {*row.precisions} for row in rows.rows)
    common = COMMON if quantized else {}
    head = [
        f"schema = 2\nname = {_text(name)}\nversion = {_text(version)}\nbackend_id = {_text(backend_id)}",
        f'source = {_text(source)}\nrescale = ""\n\n[parameters]\n',
        f"# Holds for every row.\n[common]\nconstraints = {_list(f'{code} @document' for code in common)}\n",
        f"# unchecked = {_text(UNREAD)}: give it a predicate (docs/predicates.md), or the real reason.\n[constraints]",
        *(f"{code} = {_text(says)}" for code, says in common.items()),
    ]
    used = {read.code: read for row in rows.rows for read, _ in row.limits}
    body = [line for row in rows.rows for line in _row(row)]
    lost = ["\n# Left out:", *(f"# {_line(str(each))}" for each in left)] if left else []
    return "\n".join([*head, *map(_rule, used.values()), "\n[operators]", *body, *lost]) + "\n"


def _row(row: Row) -> Iterator[str]:
    for entry in row.entries:
        yield f"# line {entry.line}: {_line(entry.printed)}"
    document = "; or: ".join(dict.fromkeys(filter(None, (entry.document for entry in row.entries))))
    listed = f"precisions = {_list(row.precisions)}, " if row.precisions else ""
    constraints = _list(_limit(read, names) for read, names in row.limits)
    yield f"{_text(row.name)} = {{ document = {_text(document)}, {listed}constraints = {constraints} }}"


def _limit(read: Read, names: Sequence[str]) -> str:
    value = f" = {read.value}" if read.value else ""
    limited = f" for {', '.join(names)}" if names else ""
    return f"{read.code}{value}{limited} @document"


def _rule(read: Read) -> str:
    rest = f"holds = {_text(read.holds)}" if read.holds else f"unchecked = {_text(read.why)}"
    says = read.says if read.value else read.says.replace("{value}", "{ value }")
    return f"{read.code} = {{ says = {_text(says)}, {rest} }}"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _line(text: str) -> str:
    """A text as a comment."""
    return "".join(c if c.isprintable() else " " for c in text)


def _text(text: str) -> str:
    """A string of TOML, whose escapes are those of JSON."""
    return json.dumps(_line(text), ensure_ascii=False)
