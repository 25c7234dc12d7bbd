"""Features and contexts that installed packages bring: what they add, which faults they tell, how wrong ones end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cli import main
from npu_assay.conformance.predicates.outside import Context, Feature, _brought
from npu_assay.conformance.programs.graph import Case, Graph, Ref, Step
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.rules import rule
from npu_assay.reference.operators.lookup import outside_operators
from tests.reference.operators.test_outside import GLU, TABLE, brought, certify, limited
from tests.reference.operators.test_outside import example as example

Failures = set[tuple[str, str]]


def known() -> dict[str, Case]:
    return {case.id.removeprefix(f"{GLU}/int8/"): case for case in cases_for(load_table(TABLE))}


def failed(rules: dict[str, Any]) -> Failures:
    """The cases that fail, and the checks, where the example's partitioner has these rules."""
    backend = load_backend("glu_npu:backend")
    wrong = replace(backend, partitioner=type("Wrong", (backend.partitioner,), {"rules": rules}))  # type: ignore[arg-type]
    results = ((name, run_case(case, wrong, load_table(TABLE), level="tags")) for name, case in known().items())
    return {(name, failure.check) for name, result in results for failure in result.failures}


# ------------------------------------------------------------------------------------ what they add


@pytest.mark.usefixtures("example")
def test_a_feature_from_outside_has_programs_on_both_sides() -> None:
    """At the limit and one step past it, along each dimension that the operator has."""
    cases = [case for case in known().values() if case.constraint == "gates_fit"]
    found = {(case.side, _gates(case)) for case in cases}
    assert ("at_limit", 64) in found and ("outside", 65) in found
    assert all((gates <= 64) == (side != "outside") for side, gates in found)
    accepted = [case for case in known().values() if case.expect == "accept"]
    assert all(_gates(case) <= 64 for case in accepted)


def _gates(case: Case) -> int:
    """Half of the size along `dim`, as the test counts it."""
    step = next(step for step in case.graph.steps if step.name == case.subject)
    ref = step.args[0]
    shape = next((value.shape for value in case.graph.values if value.name == ref.name), case.graph.values[0].shape)
    return int(shape[step.args[1] if len(step.args) > 1 else -1]) // 2


@pytest.mark.usefixtures("example")
def test_a_context_from_outside_is_a_case_of_the_row() -> None:
    case = known()["operator/context/two_gates"]
    assert [step.op for step in case.graph.steps] == [GLU, GLU, "aten.mul.Tensor"] and case.expect == "accept"
    backend = load_backend("glu_npu:backend")
    assert run_case(case, backend, load_table(TABLE)).failures == ()


@pytest.mark.usefixtures("example")
def test_the_right_rules_fail_nothing() -> None:
    assert failed(load_backend("glu_npu:backend").partitioner.rules) == set()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("example")
def test_a_rule_that_is_left_out_fails() -> None:
    found = failed({GLU: ()})
    outside = {(name, "tag") for name, case in known().items() if case.side == "outside" and "gates_fit" in name}
    assert outside and found == outside


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("most", [63, 65])
def test_a_rule_that_is_off_by_one_fails(most: int) -> None:
    @rule("gates_fit")
    def gates_fit(node: Any, cluster: object) -> str | None:
        """at most 64 gates side by side"""
        dim = node.args[1] if len(node.args) > 1 else -1
        return "too many" if node.args[0].meta["val"].shape[dim] // 2 > most else None

    found = failed({GLU: (gates_fit,)})
    assert found and all(name.startswith("gates_fit/") or "limits_together" in name for name, _ in found)
    assert {name.split("/")[1] for name, _ in found if "gates_fit" in name} == {"at_limit" if most < 64 else "outside"}


@pytest.mark.usefixtures("example")
def test_a_backend_that_fails_in_a_context_from_outside_fails_there_alone() -> None:
    right = load_backend("glu_npu:backend").partitioner.rules[GLU]  # type: ignore[attr-defined]

    @rule("mood")
    def mood(node: Any, cluster: object) -> str | None:
        """no product of gates"""
        after = {node}
        for _ in range(3):  # a quantize node, a dequantize node, what takes that
            after = {user for each in after for user in each.users}
        return "one" if "aten.mul.Tensor" in {target_name(each.target) for each in after} else None

    assert failed({GLU: (*right, mood)}) == {("operator/context/two_gates", "tag")}


# ------------------------------------------------------------------------------------ how wrong ones end


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module `stranger` whose `found` a test sets; the example's operator is known."""
    module = ModuleType("stranger")
    monkeypatch.setitem(sys.modules, "stranger", module)
    monkeypatch.syspath_prepend(str(Path(TABLE).parent.parent))
    monkeypatch.syspath_prepend(str(Path(TABLE).parent.parent.parent / "glu"))
    brought(monkeypatch, "assay_glu:operator")
    limited(monkeypatch, "stranger:found")
    yield module
    outside_operators.cache_clear()
    _brought.cache_clear()


def table_with(folder: Path, predicate: str) -> str:
    """The example's table with another predicate."""
    file = folder / "glu_npu@1.0.toml"
    file.write_text(Path(TABLE).read_text().replace("gates <= value", predicate))
    return str(file)


def one_error(result: Result) -> str:
    """The one line of an error that a user can put right."""
    assert result.exit_code == 2 and "Traceback" not in result.output, result.output
    (line,) = result.output.strip().splitlines()
    return line


def gates(application: Any) -> int:
    return int(application.operands[0].shape[application.find("dim")]) // 2


@pytest.mark.parametrize(
    ("found", "predicate", "message"),
    [
        (Feature("gates", gates), "gate <= value", "unknown feature 'gate' of aten.glu.default, did you mean 'gates'?"),
        (Context("beside", lambda graph, subject: None), "gates <= value", "unknown feature 'gates'"),
        (Feature("gates", lambda a: 1 // 0), "gates <= value", "feature 'gates' of npu_assay.constraints, of aten.glu"),
        (Feature("gates", lambda a: 1 // 0), "gates <= value", "ZeroDivisionError: integer division or modulo by zero"),
        (Feature("gates", lambda a: a.operands[9]), "gates <= value", "IndexError"),
        (Feature("gates", lambda a: vars(a)["nothing"]), "gates <= value", "KeyError: 'nothing'"),
        (Feature("gates", lambda a: [1]), "gates <= value", "found a list, expected a number, a string, a bool"),
        (Feature("gates", lambda a: "many"), "gates <= value", "cannot be"),
        (Feature("gates", lambda a: None), "gates <= value", "no program near the plain one was found for which gates"),
        (
            Feature("gates", lambda a: 7),
            "gates <= value",
            "no two programs were found of which 'gates <=",
        ),
        (Feature("dim", gates), "dim <= value", "aten.glu.default has one of this name already, expected another"),
        (Feature("batch", gates), "batch <= value", "aten.glu.default has one of this name already, expected another"),
        (Feature("Gates", gates), "gates <= value", "its name is 'Gates', expected lower-case letters, digits and _"),
        (Feature("in", gates), "gates <= value", "its name is 'in', expected lower-case letters, digits and _"),
        ((Feature("gates", gates),) * 2, "gates <= value", "gates is there already"),
        (gates, "gates <= value", "found a function, expected a Feature, a Context or a tuple of these"),
        ((Feature("gates", gates), 3), "gates <= value", "found a int, expected a Feature, a Context or a tuple"),
    ],
)
def test_a_wrong_feature_is_one_error(
    stranger: ModuleType, tmp_path: Path, found: object, predicate: str, message: str
) -> None:
    stranger.found = found  # type: ignore[attr-defined]
    table = table_with(tmp_path, predicate)
    result = CliRunner().invoke(main, ["certify", "glu_npu:backend", "--table", table, "--out", str(tmp_path / "out")])
    assert message in one_error(result)
    assert not (tmp_path / "out").exists()


def _around(graph: Graph, *steps: Step) -> Graph:
    return Graph(graph.values, (*graph.steps, *steps), graph.outputs)


@pytest.mark.parametrize(
    ("around", "message"),
    [
        (lambda graph, subject: vars(graph)["no"], "of npu_assay.constraints, around aten.glu.default: KeyError: 'no'"),
        (lambda graph, subject: 3, "found a int, expected a Graph or None"),
        (lambda graph, subject: Graph(graph.values, (), ()), "of aten.glu.default, expected it as it was given"),
        (
            lambda graph, subject: _around(graph, Step("bad", "aten.mm.default", (Ref(subject), Ref(subject)), ())),
            "context 'beside' of npu_assay.constraints: torch refuses its program: aten.mm.default",
        ),
    ],
)
def test_a_wrong_context_is_one_error(stranger: ModuleType, tmp_path: Path, around: Any, message: str) -> None:
    stranger.found = (Feature("gates", gates), Context("beside", around))  # type: ignore[attr-defined]
    assert message in one_error(certify(tmp_path))


def test_a_context_of_a_name_that_is_there_is_one_error(stranger: ModuleType, tmp_path: Path) -> None:
    stranger.found = (Feature("gates", gates), Context("before_abs", lambda g, s: g))  # type: ignore[attr-defined]
    message = "context 'before_abs' of npu_assay.constraints: the suite has one of this name already"
    assert message in one_error(certify(tmp_path))


def test_a_context_that_cannot_be_makes_no_case(stranger: ModuleType) -> None:
    stranger.found = (Feature("gates", gates), Context("beside", lambda g, s: None))  # type: ignore[attr-defined]
    assert "operator/context/beside" not in known()


def _steps(application: Any) -> int:
    return len(application.around.graph.steps)


def test_a_feature_sees_the_program_around_it(stranger: ModuleType, tmp_path: Path) -> None:
    """How many steps there are; the generator turns nothing of that, which the error says."""
    stranger.found = Feature("steps", _steps)  # type: ignore[attr-defined]
    result = CliRunner().invoke(main, ["certify", "glu_npu:backend", "--table", table_with(tmp_path, "steps <= value")])
    assert "no two programs were found of which 'steps <= value'" in one_error(result)


@pytest.mark.parametrize("value", ["no_such_module:found", "stranger:nothing"])
def test_an_entry_that_does_not_load_is_one_error(
    stranger: ModuleType, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limited(monkeypatch, value)
    assert f"constraint {value!r} of npu_assay.constraints: " in one_error(certify(tmp_path))


@pytest.mark.usefixtures("example")
def test_a_backend_that_brings_its_own_constraints_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limited(monkeypatch, "glu_npu:backend")
    line = one_error(certify(tmp_path))
    assert "package 'glu_npu' brings constraints (npu_assay.constraints) and is part of the backend" in line


def test_without_the_package_the_table_is_one_error(
    monkeypatch: pytest.MonkeyPatch, stranger: ModuleType, tmp_path: Path
) -> None:
    limited(monkeypatch)
    assert "unknown feature 'gates' of aten.glu.default" in one_error(certify(tmp_path))
