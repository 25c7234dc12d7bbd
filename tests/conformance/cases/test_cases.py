"""The cases as data: unique, deterministic, cheap, well formed, and independent of every partitioner."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import npu_assay.conformance.cases
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.make import SUBJECT, Q, call, model, quant
from npu_assay.conformance.cases.pieces.values import all_codes, one_hots, rescaling_pairs
from npu_assay.conformance.cases.witnesses import is_found
from npu_assay.conformance.programs.graph import Case, Graph, Ref, Step, Value
from npu_assay.conformance.table import load_table

TABLE = load_table("neutron@1.3")
CASES = cases_for(TABLE)
SIDES = {"accept", "at_limit", "outside", "context", "value"}


def test_there_are_thousands() -> None:
    assert 2000 < len(CASES) < 5000
    assert {case.row for case in CASES} == {row.name for row in TABLE.rows}


def test_ids_are_unique_and_say_what_the_case_is() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    for case in CASES:
        row, constraint, side, variant = case.id.rsplit("/", 3)
        assert (row, constraint, side) == (case.row, case.constraint, case.side)
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", variant), case.id


def test_every_verdict_names_a_constraint_of_its_row() -> None:
    for case in CASES:
        codes = {*TABLE.codes(TABLE.row(case.row)), "operator"}
        assert case.constraint in codes and case.side in SIDES, case.id
        assert (case.reason is not None) == (case.expect == "reject") == (case.side == "outside"), case.id
        assert case.reason in (None, case.constraint)
        assert (case.expect == "unspecified") <= (case.side == "context"), case.id


def test_generation_is_deterministic() -> None:
    assert cases_for(TABLE) == CASES
    hash(CASES)


def test_two_processes_make_the_same_cases() -> None:
    code = (
        "import hashlib; from npu_assay.conformance.cases import cases_for\n"
        "from npu_assay.conformance.table import load_table\n"
        "print(hashlib.sha256(repr(cases_for(load_table('neutron@1.3'))).encode()).hexdigest())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout != ""


def test_making_cases_needs_no_torch_and_no_partitioner() -> None:
    """Nor a golden: of the reference only the homes of operators, which are data."""
    code = (
        "import sys; from npu_assay.conformance.cases import cases_for\n"
        "from npu_assay.conformance.table import load_table\n"
        "cases_for(load_table('neutron@1.3'))\n"
        "loading = ('torch', 'numpy', 'npu_assay.partitioners', 'npu_assay.reference')\n"
        "homes = ('npu_assay.reference.operators', 'npu_assay.reference.outside')\n"
        "names = [n for n in sys.modules if n != 'npu_assay.reference' and not n.startswith(homes)]\n"
        "print([name for name in names if name.startswith(loading)])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_no_case_function_reads_a_partitioner_or_the_table() -> None:
    """Verdicts follow from how a case is built; only `cases_for` sees the table, for its rows' limits.

    What a table defines itself is a predicate, which is data; `boundaries` evaluates it.
    """
    folder = Path(npu_assay.conformance.cases.__path__[0])
    tables = "npu_assay.conformance.table"
    homes = {f"npu_assay.reference.operators{part}" for part in ("", ".home", ".lookup")}
    more = {
        "__init__.py": {
            *("npu_assay.conformance.table.constraints", "npu_assay.conformance.common.memory", tables, *homes),
            *("npu_assay.conformance.predicates.named", "npu_assay.conformance.predicates.own"),
            # Programs around an operator that installed packages bring, and whether torch takes them.
            *("npu_assay.conformance.predicates.outside", "npu_assay.conformance.predicates.applications"),
            "npu_assay.reference.outside",
        },
        "family.py": {tables},
        "homes.py": homes,
        # What a table excluded before is asked of its own definitions, which are predicates.
        "loosened.py": {
            *(f"npu_assay.conformance.predicates.{name}" for name in ("applications", "definitions", "evaluation")),
            tables,
        },
        "limits.py": {"npu_assay.conformance.common.errors", "npu_assay.conformance.predicates.own"},
        "pieces/options.py": {"npu_assay.conformance.programs.checks"},
        "rows.py": {tables, "npu_assay.reference.operators"},
        "witnesses.py": {tables},
        # Whether torch takes a program, and a golden knows what it must give: nothing of what a backend takes.
        "variations/__init__.py": {
            *(f"npu_assay.conformance.predicates.{name}" for name in ("applications", "decisions", "features")),
            *("npu_assay.conformance.judge.numerics", tables),
            *(f"npu_assay.conformance.programs.{name}" for name in ("build", "variation_names")),
            "npu_assay.reference.golden",
        },
        "variations/arguments.py": {"npu_assay.reference.golden.aten"},
        "variations/decomposed.py": {
            *("npu_assay.reference.golden.aten", "torch", "torch._decomp"),
            *("torch.fx.experimental.proxy_tensor", "torch.utils._pytree"),
        },
        "variations/base.py": {"npu_assay.conformance.predicates.features"},
    }
    for path in folder.rglob("*.py"):
        name = path.relative_to(folder).as_posix()
        imported = {name for node in ast.walk(ast.parse(path.read_text())) for name in _modules(node)}
        ours = {name for name in imported if name.split(".")[0] in ("npu_assay", "torch")}
        allowed = {"npu_assay.conformance.programs.graph"} | more.get(name, set())
        if not name.startswith("boundaries/"):
            assert {name for name in ours if not name.startswith("npu_assay.conformance.cases")} <= allowed, name


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


# ------------------------------------------------------------------------------------ graphs


def _references(argument: Any) -> list[Ref]:
    if isinstance(argument, Ref):
        return [argument]
    return [ref for item in argument for ref in _references(item)] if isinstance(argument, tuple) else []


def test_two_parts_of_a_graph_cannot_have_one_name() -> None:
    x = Value("x", (2,), None)
    with pytest.raises(ValueError, match="two parts of a graph are called 'x'"):
        Graph((x,), (Step("x", "aten.abs.default", (Ref("x"),)),), (Ref("x"),))


@pytest.mark.parametrize("row", [row.name for row in TABLE.rows])
def test_graphs_are_well_formed(row: str) -> None:
    for case in CASES:
        if case.row == row:
            _check(case.graph, case)


def _check(graph: Graph, case: Case) -> None:
    """Values and steps have different names, arguments refer to earlier ones, the subject is the row's operator."""
    names = [value.name for value in graph.values] + [step.name for step in graph.steps]
    assert len(set(names)) == len(names), case.id
    known = {Ref(value.name) for value in graph.values}
    for step in graph.steps:
        assert set(_references(step.args)) <= known, case.id
        known |= {Ref(step.name, index) for index in range(step.outputs)}
    assert set(graph.outputs) <= known and graph.outputs, case.id
    assert next(s.op for s in graph.steps if s.name == case.subject) == TABLE.row(case.row).operator, case.id
    for value in graph.values:
        quant_ = value.quant
        if quant_ is not None and quant_.dtype == "int8":
            assert -128 <= quant_.qmin <= quant_.zero_point <= quant_.qmax <= 127, case.id


def test_most_tensors_are_small() -> None:
    """All but a few of those that are not about the number of elements or of terms."""
    others = [case for case in CASES if not re.search(r"/(elements|sums)_(past|of)_\d+$", case.id)]
    assert sum(_largest(case) > 4096 for case in others if not is_found(case)) < 20
    assert sum(_largest(case) > 8192 for case in others if is_found(case)) < 5  # of rank 8 all have 8192 elements


def _largest(case: Case) -> int:
    return max(_count(value.shape) for value in case.graph.values)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def test_no_two_cases_of_one_row_and_constraint_are_the_same_question() -> None:
    """Beside spellings that torch itself makes equal, repetition inside a constraint is a mistake."""
    repeated = Counter((case.row, case.constraint, case.expect, repr(case.graph)) for case in CASES)
    assert [key[:3] for key, count in repeated.items() if count > 2] == []


# ------------------------------------------------------------------------------------ helpers


def test_helpers_put_the_subject_into_its_context() -> None:
    graph = model(call("aten.abs.default", (1, 8)))
    assert [step.name for step in graph.steps] == [SUBJECT]
    assert graph.outputs == (Ref(SUBJECT),)


def test_one_hots_reach_both_ends() -> None:
    indices = [draft.graph.values[0].fill.index for draft in one_hots(call("aten.abs.default", (2, 3)))]
    assert indices[0] == 0 and indices[-1] == 5


def test_all_codes_hold_every_code_once() -> None:
    drafts = all_codes(call("aten.abs.default", (1, 8)), rescaling_pairs())
    values = drafts[0].graph.values[0].fill.values
    assert sorted(values) == [float(code) for code in range(-128, 128)]


def test_a_row_without_cases_is_an_error() -> None:
    stranger = replace(TABLE.rows[0], name="aten.logical_not.default")
    with pytest.raises(KeyError, match=r"aten\.logical_not\.default"):
        cases_for(replace(TABLE, rows=(stranger,)))


def test_a_repeated_row_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"two cases are called 'aten\.abs\.default/"):
        cases_for(replace(TABLE, rows=TABLE.rows[:1] * 2))


def test_scales_are_float32() -> None:
    assert Q.scale != 0.05 and Q.scale == quant(0.05).scale
