"""Reproduction scripts: they are what the case is, and stand on their own. Whether they show a fault: crosscheck."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from page_scripts import nameless

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.compare.drift import Drift, drift
from npu_assay.conformance.programs.build import materialise, model_inputs, module
from npu_assay.conformance.programs.graph import Case, Fill, Quant, Ref, Step, Value
from npu_assay.conformance.programs.graph import Graph as CaseGraph
from npu_assay.conformance.record.results import METRICS, CaseResult, Failure, program_sha256, status_of, tag_failures
from npu_assay.conformance.repro import file_name, script_of, write_scripts
from npu_assay.conformance.repro.model import codes, input_sources, model_source
from npu_assay.conformance.run.selection import all_cases, smoke
from npu_assay.conformance.table import load_table

TABLES = {"executorch:xnnpack": "xnnpack@1.5", "executorch:ethos-u55": "ethos_u55@1.5"}
ALLOWED = {"torch", "executorch", "tosa_reference_model", "sys", "os"}


def first_looks() -> list[Case]:
    return [case for name in TABLES.values() for case in smoke(all_cases(load_table(name)))[::5]]


def opposite(case: Case, *failures: Failure) -> CaseResult:
    """The result of a backend that does the opposite of what the table says."""
    verdict = "reject" if case.expect == "accept" else "accept"
    found = (*tag_failures(case, verdict, None), *failures)
    return CaseResult(
        case=case.id,
        row=case.row,
        constraint=case.constraint,
        side=case.side,
        expect=case.expect,
        reason=case.reason,
        program=program_sha256(case.graph),
        verdict=verdict,
        reasons=None,
        status=status_of(case.expect, found),
        failures=found,
        metrics=dict.fromkeys(METRICS),
        partitions=0,
        blobs=(),
    )


def drifting(backend: str, *failures: Failure, every: int = 5) -> Drift:
    table = load_table(TABLES[backend])
    cases = [case for case in smoke(all_cases(table)) if case.expect != "unspecified"][::every]
    return drift(backend, table, [opposite(case, *failures) for case in cases])


def run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch}
    exec(source, names)
    return names


def test_models_and_inputs_are_those_of_the_cases() -> None:
    cases = first_looks()
    assert len(cases) > 60
    for case in cases:
        names = run(model_source(case.graph))
        lines = "".join(f"    {text},\n" for text in input_sources(case.graph))
        inputs = run(f"inputs = (\n{lines})")["inputs"]
        theirs = model_inputs(case.graph)
        assert len(inputs) == len(theirs)
        for mine, expected in zip(inputs, theirs, strict=True):
            assert mine.dtype == expected.dtype and torch.equal(mine.nan_to_num(), expected.nan_to_num()), case.id
        model, known = names["Model"](), dict(module(case.graph).named_buffers())
        assert {name for name, _ in model.named_buffers()} == set(known), case.id
        for name, buffer in model.named_buffers():
            assert buffer.dtype == known[name].dtype and torch.equal(buffer, known[name]), (case.id, name)


def test_a_model_computes_what_the_case_does() -> None:
    for case in first_looks()[::4]:
        if any(0 in value.shape for value in case.graph.values):
            continue
        inputs = model_inputs(case.graph)
        mine, theirs = run(model_source(case.graph))["Model"]()(*inputs), module(case.graph)(*inputs)
        pairs = zip(mine, theirs, strict=True) if isinstance(mine, tuple) else [(mine, theirs[0])]
        assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs), case.id


@pytest.mark.parametrize("kind", ["random", "one_hot", "ramp", "min", "alternating", "list", "all_codes"])
@pytest.mark.parametrize("quant", [None, Quant(0.5, 3), Quant(0.5, 9, 0, 255, dtype="uint8")])
def test_every_way_to_fill_a_value(kind: str, quant: Quant | None) -> None:
    values = (1.5, float("nan"), float("-inf")) if quant is None else (1.0, 2.0, 300.0)
    value = Value("x", (3, 5, 7), quant, Fill(kind, seed=4, index=2, values=values))
    found, expected = run(f"x = {codes(value)}")["x"], materialise(value)
    assert found.dtype == expected.dtype and torch.equal(found.nan_to_num(), expected.nan_to_num())


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("backend", TABLES)
@pytest.mark.parametrize("check", ["", "crash", "gate1", "leak"])
def test_scripts_need_torch_and_executorch_alone(backend: str, check: str, tmp_path: Path) -> None:
    failures = [Failure(check, 'run: "quoted" \\ text')] if check else []
    found = drifting(backend, *failures, every=30 if check == "gate1" else 60)
    if check == "gate1":  # numbers are wrong only where a golden says what is right
        found = replace(found, entries=tuple(entry for entry in found.entries if entry.result.expect == "accept"))
    said = write_scripts(found, tmp_path)
    written = sorted((tmp_path / "repro").iterdir())
    assert said == f"{tmp_path / 'repro'}: {len(written)} scripts" and len(written) == len(found.found) > 0
    for path in written:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= ALLOWED
        assert "sys.exit(1)" in path.read_text() and nameless(path.read_text()) == []
    (tmp_path / "repro" / "stale.py").touch()
    write_scripts(found, tmp_path)
    assert sorted((tmp_path / "repro").iterdir()) == written


def test_what_a_script_asks_depends_on_the_fault() -> None:
    died = Failure("crash", "run: MachineError: its process died (signal SIGABRT)")
    for failure, text in (
        (None, "delegated, but"),
        (Failure("crash", "compile: ValueError"), "except Exception as error"),
        (died, "os.fork()"),
        (Failure("gate3", "out[0] = 1"), "limits = ["),
    ):
        found = drifting("executorch:xnnpack", *([failure] if failure else []))
        case = next(entry.result.case for entry in found.entries if entry.result.expect == "reject")
        assert text in script_of(found, case)


def test_errors(tmp_path: Path) -> None:
    found = drifting("executorch:xnnpack", every=40)
    with pytest.raises(UsageError, match="the run has no such case"):
        script_of(found, "nothing")
    name = found.entries[0].result.case
    with pytest.raises(UsageError, match=f"the run has no such case, did you mean {re.escape(repr(name))}"):
        script_of(found, f"{name}x")
    with pytest.raises(UsageError, match="expected a folder"):
        write_scripts(found, tmp_path / "no")
    first = found.entries[0].result
    agreed = drift(found.backend, found.table, [replace(first, verdict=first.expect, failures=())])
    with pytest.raises(UsageError, match="nothing to show"):
        script_of(agreed, first.case)
    other = drift(found.backend, found.table, [replace(first, program="0" * 64)])
    with pytest.raises(UsageError, match="another case of that name"):
        script_of(other, first.case)
    assert file_name("aten.a.b/fp32/x y/z:1") == "aten.a.b-fp32-x-y-z-1" and sys.version_info


def test_outputs_that_torch_computes_otherwise_are_written_out() -> None:
    """Codes that the exact golden and torch round apart stand in the script themselves."""
    from npu_assay.conformance.repro.script import _near

    assert not _near(torch.tensor([1.0]), torch.tensor([2.0], dtype=torch.float64), 0.5)
    assert _near(torch.tensor([1.0]), torch.tensor([1.1], dtype=torch.float64), 0.5)
    step = Step("y", "aten.abs.default", (Ref("x"),))
    assert "torch.ops.aten.abs.default(x)" in model_source(CaseGraph((Value("x", (2,), None),), (step,), (Ref("y"),)))


def test_integers_are_expected_to_the_last_bit() -> None:
    backend = "executorch:ethos-u55"
    table = load_table(TABLES[backend])
    name = "aten.__rshift__.Scalar/integers/integer_operands/at_limit/int32"
    case = next(case for case in all_cases(table) if case.id == name)
    failure = Failure("gate1", "out[0,0,0,1] = 0, expected -1 (exact)")
    wrong = replace(opposite(case, failure), verdict="accept", failures=(failure,), status="fail")
    assert "limits = [0]  #" in script_of(drift(backend, table, [wrong]), name)
