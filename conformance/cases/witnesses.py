"""Cases that were found by search for the limits that written cases leave: read from files, nothing is searched here.

`covering.renew` looks for programs near a row's accepted cases which show what no case shows, and writes what it found
to `found/`, by the content of a row: its name, precision, constraints with their values, and its table's parameters.
A row of any table that says the same has the same cases. A witness is a case of the row, its start, with changes; where
a table's row has no such start, it has no such case.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, inside, outside
from npu_assay.conformance.programs.graph import Case, ChannelsLast, Fill, Graph, LayerInParts, Quant, Ref, Step, Value
from npu_assay.conformance.table import Row, Table

FOLDER = Path(__file__).with_name("found")
TURNED = "_turned_"  # in the names of cases that were found
KINDS: Mapping[str, Any] = {
    each.__name__: each for each in (CaseDraft, Graph, Quant, Fill, Step, Ref, Value, ChannelsLast, LayerInParts)
}
"""What stands in a case, by the names that files have."""


def content_key(table: Table, row: Row, precision: str | None) -> str:
    """The digest of all that a row in one precision says: 16 hexadecimal digits."""
    held = [(c.code, c.value) for c in (*table.common, *row.constraints) if c.holds_for(precision)]
    said = (row.name, precision, held, table.parameters)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


@cache
def shipped() -> Mapping[str, Mapping[str, Any]]:
    """What was found for the rows of the shipped tables, by the content of each."""
    found = dict[str, Mapping[str, Any]]()
    for path in sorted(FOLDER.glob("*.json")):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def witnesses(told: Mapping[str, Any], drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """The cases that were found for a row, from its drafts."""
    found = told.get("cases", ())
    starts = {name_of(draft): draft for draft in drafts} if found else {}
    for each in found:
        start, options = starts.get(each["start"]), starts.get(each.get("options", each["start"]))
        if start is not None and options is not None:
            yield _draft(each, start, options)


def is_found(case: Case) -> bool:
    """Whether a case was found by search: its name says what was turned."""
    return TURNED in case.id.rpartition("/")[2]


def name_of(draft: CaseDraft) -> str:
    """What tells a draft from the others of its row."""
    return f"{draft.constraint}/{draft.side}/{draft.variant}"


def _draft(found: Mapping[str, Any], start: CaseDraft, options: CaseDraft) -> CaseDraft:
    graph, variant = changed(start.graph, found["changes"]), found["variant"]
    reason = found.get("reason")
    draft = inside(OPERATOR, variant, graph) if reason is None else outside(reason, variant, graph)
    return replace(draft, options=options.options)


# ------------------------------------------------------------------------------------ programs as changes of others


def changes(before: Graph, after: Graph) -> dict[str, Any]:
    """What makes one program of another, as plain data: values and steps that differ, and what the model returns."""
    return {
        **_differing("values", before.values, after.values),
        **_differing("steps", before.steps, after.steps),
        **({"outputs": plain(after.outputs)} if before.outputs != after.outputs else {}),
    }


def _differing(name: str, before: Sequence[Any], after: Sequence[Any]) -> dict[str, Any]:
    """The items that differ, by name: null for one that is gone, all of one that is new, else what differs in it."""
    old, new = ({each.name: each for each in listed} for listed in (before, after))
    found: dict[str, Any] = {gone: None for gone in old if gone not in new}
    for key, item in new.items():
        if key not in old:
            found[key] = plain(item)
        elif item != old[key]:
            differ = (f.name for f in fields(item) if getattr(item, f.name) != getattr(old[key], f.name))
            found[key] = {each: plain(getattr(item, each)) for each in differ}
    return {name: found} if found else {}


def changed(graph: Graph, found: Mapping[str, Any]) -> Graph:
    """The program with these changes."""
    values = _with(graph.values, found.get("values", {}))
    steps = _with(graph.steps, found.get("steps", {}))
    outputs = read(found["outputs"]) if "outputs" in found else graph.outputs
    return Graph(values, steps, outputs)


def _with(items: Sequence[Any], found: Mapping[str, Any]) -> tuple[Any, ...]:
    known = {item.name for item in items}
    kept = (item for item in items if found.get(item.name, item) is not None)
    made = [replace(item, **{k: read(v) for k, v in found.get(item.name, {}).items()}) for item in kept]
    return (*made, *(read(item) for name, item in found.items() if name not in known))


def plain(found: Any) -> Any:
    """Plain data: lists for tuples, and of a record the fields that have not their defaults."""
    if isinstance(found, tuple):
        return [plain(item) for item in found]
    if type(found).__name__ in KINDS:
        told = {f.name: getattr(found, f.name) for f in fields(found)}
        defaults = {f.name: f.default for f in fields(found)}
        return {type(found).__name__: {k: plain(v) for k, v in told.items() if v != defaults[k]}}
    return found


def read(found: Any) -> Any:
    """What `plain` made plain data of. Raises AttributeError, KeyError, TypeError or ValueError for anything else."""
    if isinstance(found, list):
        return tuple(read(item) for item in found)
    if isinstance(found, dict):
        ((kind, told),) = found.items()
        return KINDS[kind](**{name: read(item) for name, item in told.items()})
    return found
