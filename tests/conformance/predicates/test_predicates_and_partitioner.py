"""Rows decide what our partitioners do, on both sides, of every program that the suite generates for their tables.

`--whole` asks every case and chosen variation; else those of a few rows of each table, drawn by the seed. Of limits of
Neutron that written cases only sample, programs are generated besides.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases.around import behind_conv
from npu_assay.conformance.cases.families.convolution.transposed import _transposed
from npu_assay.conformance.cases.families.padding import pad
from npu_assay.conformance.cases.make import SUBJECT, Call, model
from npu_assay.conformance.cases.variations import variations
from npu_assay.conformance.predicates.decisions import Decision, decide
from npu_assay.conformance.predicates.definitions import definitions
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.run.selection import cases_of
from npu_assay.conformance.run.tagging import Tagging, prepare, tag
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.neutron.support.rules import RULES

BACKENDS = ("neutron", "neutron-1.4", "xnnpack", "ethos-u55", "ethos-u85")
ROWS, DRAWN = 3, 60
POOL = "aten.max_pool2d.default"
SHAPES = ((8,), (5, 8), (2, 5, 8), (1, 8, 5, 6), (2, 8, 3, 5))
PLACES = (0, 1, 2)
Program = tuple[str, Graph]


def padded() -> Iterator[Program]:
    """One or two dimensions padded on one side or both, of every rank; images also behind a convolution."""
    for shape in SHAPES:
        choices = itertools.product(PLACES, repeat=2)
        for (before, after), dim in itertools.product(choices, range(len(shape))):
            sides = [0] * (2 * len(shape))
            sides[2 * dim : 2 * dim + 2] = (before, after)
            yield f"{shape}_{sides}", model(pad(shape, tuple(sides)))
            if len(shape) == 4 and shape[0] == 1:
                yield f"behind_{shape}_{sides}", model(pad(shape, tuple(sides)), behind_conv)


def transposed() -> Iterator[Program]:
    """Kernels, strides and paddings that fit each other or nearly do, and one or two other arguments."""
    kernels = ((1, 1), (1, 2), (1, 3), (1, 4), (1, 6), (1, 8), (2, 2), (2, 4))
    strides, paddings = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 2)), ((0, 0), (0, 1), (0, 3), (0, 4), (1, 0))
    others: tuple[dict[str, object], ...] = (
        {},
        {"dilation": (2, 1)},
        {"dilation": (1, 2)},
        {"output_padding": (0, 1)},
        {"groups": 2},
        {"cin": 7},
    )
    for kernel, stride, padding, height, other in itertools.product(kernels, strides, paddings, (1, 3), others):
        given = {"cin": 8, "cout": 16, "kernel": kernel, "stride": stride, "padding": padding, "size": (height, 8)}
        yield f"{given | other}", model(_call(**given | other))


def _call(**given: object) -> Call:
    return _transposed(**given)  # type: ignore[arg-type]  # whatever a program is generated with


CODES = {
    "channel_and_batch_padding": ("aten.constant_pad_nd.default", padded),
    "transposed": ("aten.convolution.default", transposed),
}


def differences(backend: str, cases: Iterable[Case]) -> Iterator[str]:
    """How rows and partitioner disagree, program by program; nothing of those that a row does not decide."""
    judged = load_backend(backend)
    table = load_table(judged.table)
    rows = {row.name: row for row in table.rows}
    for case in cases:
        if case.row not in rows:
            continue
        decision = decide(table, rows[case.row], case.graph, case.subject, dict(case.options))
        found = None if decision.expect == "unspecified" else _answer(judged, table, case)
        if found is not None and (text := _difference(decision, found)):
            yield f"{case.id}: {text}"


def _answer(backend: Any, table: Table, case: Case) -> Tagging | None:
    """What the partitioner says; None of a program that cannot be an edge program."""
    try:
        program = prepare(case, backend, table)
    except (RuntimeError, TypeError, ValueError):  # torch's own, of what no case may ask
        return None
    return tag(case, backend, table.row(case.row), program)


def _difference(decision: Decision, found: Tagging) -> str | None:
    codes = [reason.code for reason in found.reasons or ()]
    if found.verdict == decision.expect and (decision.reason is None or decision.reason in codes):
        return None
    return f"{decision.expect} {decision.broken}, but the partitioner {found.verdict} {codes}"


def generated(table: Table, rows: Sequence[str]) -> Iterator[Case]:
    """The cases of these rows, and their chosen variations."""
    cases = cases_of(table, *rows)
    yield from cases
    # A row decides nothing of other operators, as its parts are; no feature tells of a second reader of the same codes.
    own, twins = set(map(operator, cases)), "^quantized_decomposed.dequantize.*/twin[.]"
    more = variations(cases, "chosen", table)
    yield from (case for case in more if operator(case) in own and not re.match(twins, case.id))


def operator(case: Case) -> str:
    return next(step.op for step in case.graph.steps if step.name == case.subject)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_and_partitioner_agree(backend: str, pytestconfig: pytest.Config) -> None:
    table = load_table(load_backend(backend).table)
    rows = [row.name for row in table.rows]
    if not pytestconfig.option.whole:
        rows = random.Random(pytestconfig.option.seed or 0).sample(rows, ROWS)
    assert list(differences(backend, generated(table, rows))) == []


@pytest.mark.parametrize("code", CODES)
def test_no_generated_program_differs(code: str, pytestconfig: pytest.Config) -> None:
    row, programs = CODES[code]
    cases = [Case(name, row, code, "accept", "accept", None, graph, SUBJECT) for name, graph in programs()]
    if not pytestconfig.option.whole:
        cases = random.Random(pytestconfig.option.seed or 0).sample(cases, DRAWN)
    assert list(differences("neutron", cases)) == []


@pytest.mark.parametrize("wrong", ["stride_h == 1", "stride_h in (1, 2, 3, 4)"])
def test_a_wrong_predicate_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(definitions()["static_int8"], "stride_h", wrong)
    found = list(differences("neutron", cases_of(load_table("neutron@1.3"), POOL)))
    assert found and all("stride_h" in text for text in found)


@pytest.mark.parametrize("lost", ["stride_h", "dilation", "batch"])
def test_a_rule_that_a_partitioner_lost_is_noticed(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "aten.max_pool2d_with_indices.default"
    left = tuple(rule for rule in RULES[name] if rule.code != lost)
    assert len(left) == len(RULES[name]) - 1
    monkeypatch.setitem(RULES, name, left)
    found = list(differences("neutron", generated(load_table("neutron@1.3"), [POOL])))
    assert any(f"reject ('{lost}',), but the partitioner accept" in text for text in found)


def test_a_rule_too_many_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejections of what a row takes are seen by the accept side alone."""
    name = "aten.max_pool2d_with_indices.default"
    rank = replace(RULES[name][0], code="invented", check=lambda node, context: "of no table")
    monkeypatch.setitem(RULES, name, (*RULES[name], rank))
    cases = [case for case in cases_of(load_table("neutron@1.3"), POOL) if case.expect == "accept"]
    found = list(differences("neutron", cases))
    assert len(found) > len(cases) / 2 and all("invented" in text for text in found)
