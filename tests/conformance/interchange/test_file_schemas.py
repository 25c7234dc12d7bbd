"""docs/files.md against the shapes that files are checked with when they are read, and against files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from types import NoneType
from typing import Any

import fake_backend
import pytest
from places import ROOT

from benchmarks.report import certificate as made_up
from npu_assay.conformance.compare.difference import Run, compare
from npu_assay.conformance.compare.drift import drift
from npu_assay.conformance.covering.text import plain
from npu_assay.conformance.explain import record as explained
from npu_assay.conformance.interchange import judging, manifest
from npu_assay.conformance.mutation.report import Mutation
from npu_assay.conformance.mutation.report import as_json as mutations
from npu_assay.conformance.pte.options import SUMMARY
from npu_assay.conformance.reach.walk import Met
from npu_assay.conformance.record import certificate, results
from npu_assay.conformance.table import ROW, TOP, load_table
from npu_assay.conformance.table.changes import Change
from npu_assay.conformance.verify import attestation, rerun_record
from npu_assay.conformance.verify.submission import Problem

PAGE = ROOT / "docs" / "files.md"
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "object", list: "list"}
FAILURE: dict[str, Any] = results.SHAPE["failures"][0]  # type: ignore[index]  # a list
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "certificate.json": certificate.SHAPE,
    "results.jsonl": results.SHAPE | {"failures": [FAILURE | results.SHAPE_OF_TRACE]},
    "What failing cases leave besides": results.SHAPE_OF_EVIDENCE,
    "A record of cases run again": rerun_record.SHAPE,
    "attestation.json": attestation.SHAPE,
    "manifest.json": manifest.SHAPE,
    "assay-judged.json": judging.SHAPE,
    "TABLE.toml": TOP,
    "A row": ROW,
}


def words(kinds: Any) -> str:
    """Alternatives in words. A number may be whole: floats that are, are written so."""
    found = [kind for kind in (kinds if isinstance(kinds, tuple) else (kinds,)) if kind not in (None, NoneType)]
    named = [WORDS[kind] for kind in found if not (kind is int and float in found)]
    *others, last = [*named, *(["null"] if None in (kinds if isinstance(kinds, tuple) else ()) else [])]
    return f"{', '.join(others)} or {last}" if others else last


def flat(shape: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Every key of a shape, with its type in words."""
    if isinstance(shape, Mapping):
        for key, inner in shape.items():
            yield from flat(inner, f"{where}.{key}".removeprefix("."))
    elif isinstance(shape, tuple) and isinstance(shape[-1], Mapping):
        yield from flat(shape[-1], where)  # the alternatives lack what may be left out
    elif isinstance(shape, list):
        yield from flat(shape[0], f"{where}[]")
    else:
        yield where, words(shape)


def documented(text: str, heading: str) -> list[tuple[str, str]]:
    """Keys and types of the table below a heading."""
    section = text.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return [(key.strip(" `"), kind.strip()) for key, kind in rows]


@pytest.mark.parametrize("name", SHAPES)
def test_the_page_has_every_key_and_its_type(name: str) -> None:
    assert dict(documented(PAGE.read_text(), name)) == dict(flat(SHAPES[name]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("| `made` | text |", "| `mode` | text |"),
        ("| `schema` | whole number | 4", "| `schema` | text | 4"),
        ("| `trust` ", "| x "),
    ],
)
def test_the_comparison_sees_a_wrong_page(before: str, after: str) -> None:
    text = PAGE.read_text()
    assert before in text
    assert dict(documented(text.replace(before, after), "certificate.json")) != dict(flat(certificate.SHAPE))


def test_the_newest_schemas_are_named() -> None:
    assert f"| `schema` | whole number | {certificate.SCHEMA} |" in PAGE.read_text()


def other(name: str) -> set[str]:
    """The keys of a file that is not checked by a shape."""
    section = PAGE.read_text().partition("## Other files")[2]
    line = next(line for line in section.splitlines() if line.startswith("| ") and name in line.split("|")[1])
    return set(line.split("|")[3].split("`")[1::2])


def test_drift_json_has_these_keys() -> None:
    found = drift("backend", load_table(fake_backend.TABLE), ())
    assert set(found.as_json()) == other("drift.json") - {"level"}
    assert set(replace(found, level="tags").as_json()) == other("drift.json")


def printed() -> dict[str, set[str]]:
    """By what the page calls it, the keys of what a command prints."""
    table = load_table(fake_backend.TABLE)
    found = compare(*(Run(name, made_up(table, 0), {}) for name in "ab")).as_json()
    return {
        "`assay diff --json`": set(found),
        "`a` and `b` of it": set(found["a"]),
        "`assay mutate --json`": set(mutations(Mutation("backend", "table", 1.0, ()))),
        "`assay table coverage --json`": set(plain(table, ())),
        "`assay table diff --json`, each": {each.name for each in fields(Change)},
        "`assay inspect --json`": set(SUMMARY),
        "`assay submit --check --json`": {"complete", "records", "problems"},  # as test_submission.py finds them
        "a problem of it": set(Problem._fields),
        "a line of `assay reach --out`": set(Met("case", "end", "stage").as_data()),
    }


def test_the_page_has_the_keys_of_what_commands_print() -> None:
    section = PAGE.read_text().partition("## What commands print as JSON")[2]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith(("| `", "| a "))]
    assert {what.strip(): set(keys.split("`")[1::2]) for what, keys in rows} == printed()


def test_explain_json_has_the_keys_of_its_page() -> None:
    """Those of each backend in the first column; in the others' rows all that their items have."""
    section = (PAGE.parent / "explain.md").read_text().partition("## As JSON")[2]
    rows = {line.split("|")[1].strip(): line for line in section.splitlines() if line.startswith("| `")}
    keys = {key for each in rows for key in each.split("`")[1::2]}
    assert keys == {each.name for each in fields(explained.Explained)}
    items = {
        "`operators`": (explained.Operator, explained.Reason),
        "`causes`": (explained.Cause, explained.Change, explained.Gain),
        "`delegates`": (explained.Delegate,),
        "`numbers`": (explained.Comparison,),
        "`layers`": (explained.Layer,),
    }
    for key, kinds in items.items():
        named = set(rows[key].split("`")[1::2])
        assert {each.name for kind in kinds for each in fields(kind)} <= named, key
