"""The tool that makes mutants nobody chose: what it changes, what it calls a guard, and what kills a mutant."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from places import ROOT
from torch.export import ExportedProgram

from benchmarks.mutants.__main__ import interval, part
from benchmarks.mutants.answers import COMPILE, PARTITION, RUN, differs, known, program_of
from benchmarks.mutants.guards import guards
from benchmarks.mutants.lines import by_number, fingerprint, read
from benchmarks.mutants.pins import RECORDED, SNAPSHOT, Pins
from benchmarks.mutants.sites import Site, changed, sites
from benchmarks.mutants.trials import TYPES, in_a_process
from benchmarks.mutants.types_checked import Checked, spliced
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import CompileSpec, PartitionResult, PreprocessResult, Runtime
from npu_assay.partitioners.neutron import NeutronBackend, NeutronPartitioner, backend

MODULE = '''"""A module."""


def area(width: int, height: int) -> int:
    """A docstring with 3 in it."""
    if width < 0:
        raise ValueError(f"width {width - 1}")
    total: int = width * height
    return total
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    file = tmp_path / "module.py"
    file.write_text(MODULE)
    return file


def texts(file: Path) -> dict[str, bool]:
    return {site.text: site.guards for site in sites(file.parent, file)}


def test_operators_constants_conditions_and_returns_are_changed_and_nothing_else_is(module: Path) -> None:
    found = texts(module)
    raised = "if width < 0: raise ValueError(f'width {width - 1}')"
    assert set(found) == {
        "width < 0 -> width <= 0",
        f"{raised} -> {raised.replace('width < 0', 'not width < 0', 1)}",
        "0 -> 1",
        "0 -> -1",
        "width - 1 -> width + 1",
        "1 -> 2",
        "1 -> 0",
        "width * height -> width + height",
        "return total -> return None",
    }


def test_what_refuses_or_words_a_message_is_a_guard(module: Path) -> None:
    found = texts(module)
    assert {text for text, guard in found.items() if guard} == {
        "width < 0 -> width <= 0",
        "0 -> 1",
        "0 -> -1",
        "width - 1 -> width + 1",
        "1 -> 2",
        "1 -> 0",
    }


@pytest.mark.parametrize(
    "text",
    [
        "site.require(a < 1, a + 1)",
        "site.ratio(a + 1)",
        "def check_sizes(a):\n    return a + 1",
        'def ratio(a):\n    """Refuse large ones."""\n    return a + 1',
        "def f(a):\n    b = a + 1\n    require(b)",
    ],
)
def test_calls_functions_and_values_that_only_check_are_guards(text: str) -> None:
    tree = ast.parse(text)
    computed = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
    assert computed and all(id(node) in guards(tree) for node in computed)


def test_a_value_that_something_else_reads_too_is_none() -> None:
    tree = ast.parse("def f(a):\n    b = a + 1\n    require(b)\n    return b")
    assert not any(id(node) in guards(tree) for node in ast.walk(tree) if isinstance(node, ast.BinOp))


def test_a_partitioners_rule_is_none_whatever_its_name() -> None:
    tree = ast.parse("def check(node, context) -> str | None:\n    return None if node + 1 else 'text'")
    assert not any(id(node) in guards(tree) for node in ast.walk(tree) if isinstance(node, ast.BinOp))


def test_what_a_site_answers_is_none() -> None:
    tree = ast.parse("def f(site, a):\n    return site.scale(a + 1)")
    assert not any(id(node) in guards(tree) for node in ast.walk(tree) if isinstance(node, ast.BinOp))


def one(file: Path, text: str) -> Site:
    return next(site for site in sites(file.parent, file) if site.text == text)


def test_a_changed_module_computes_the_other_thing(module: Path) -> None:
    names: dict[str, object] = {}
    tree = changed(module.parent, one(module, "width * height -> width + height"))
    exec(compile(tree, "module", "exec"), names)
    area = names["area"]
    assert callable(area) and area(3, 4) == 7


def test_a_spliced_text_differs_in_the_change_alone(module: Path) -> None:
    found = spliced(MODULE, one(module, "width * height -> width + height"))
    assert found == MODULE.replace("width * height", "(width + height)")


# ------------------------------------------------------------------------------------ processes


def test_a_process_says_whether_it_killed_how_and_after_how_many() -> None:
    verdict = in_a_process(lambda: "1 3 gate1 some/case", 10.0)
    assert (verdict.killed, verdict.cases, verdict.how) == (True, 3, "gate1 some/case")
    assert not in_a_process(lambda: "0 3 -", 10.0).killed


def _spin() -> str:
    while True:
        pass


def test_a_process_that_computes_for_ever_hangs() -> None:
    verdict = in_a_process(_spin, 1.0)
    assert (verdict.killed, verdict.how) == (True, "hang")


def test_a_process_that_waits_while_others_compute_does_not() -> None:
    def late() -> str:
        time.sleep(2.0)
        return "0 1 -"

    assert not in_a_process(late, 1.0).killed


def test_a_process_that_ends_without_a_word_crashed() -> None:
    def leave() -> str:
        os._exit(0)

    verdict = in_a_process(leave, 10.0)
    assert (verdict.killed, verdict.how) == (True, "crash")


# ------------------------------------------------------------------------------------ answers


class OffByOne:
    """A device whose every result is one code too large, or -128."""

    def __init__(self, inner: Runtime) -> None:
        self.inner = inner

    def load(self, blob: bytes, specs: Sequence[CompileSpec]) -> Any:
        return self.inner.load(blob, specs)

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [output + 1 for output in self.inner.execute(handle, inputs)]


class Padded:
    """A compiler that ends blobs with a zero."""

    @staticmethod
    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        found = NeutronBackend.preprocess(program, specs)
        return PreprocessResult(processed_bytes=found.processed_bytes + bytes(1))


class Nothing(NeutronPartitioner):
    """Takes nothing."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        return PartitionResult(exported_program, {})


TABLE = load_table("neutron@1.3")
CASE = next(case for case in all_cases(TABLE) if case.id == "aten.abs.default/operator/accept/baseline")
BROKEN = {
    "device": (replace(backend, runtime=OffByOne(backend.runtime)), RUN),
    "compiler": (replace(backend, details=type("NeutronBackend", (Padded,), {})), COMPILE),
    "partitioner": (replace(backend, partitioner=Nothing), PARTITION),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("stages", [{PARTITION}, {COMPILE}, {RUN}, {PARTITION, COMPILE}, {PARTITION, RUN}], ids=str)
def test_an_answer_is_another_one_from_the_stage_that_broke_on(name: str, stages: set[int]) -> None:
    broken, stage = BROKEN[name]
    before = known(CASE, TABLE, backend, lambda stage: None)
    assert not differs(CASE, TABLE, backend, program_of(CASE, TABLE), before, stages)
    looked_at = stage <= max(stages) if stages != {RUN} else stage == RUN
    assert differs(CASE, TABLE, broken, program_of(CASE, TABLE), before, stages) is looked_at


def test_every_stage_is_told() -> None:
    told: list[int] = []
    known(CASE, TABLE, backend, told.append)
    assert told == [PARTITION, COMPILE, RUN]


def test_what_golden_holds_of_a_case_is_found_and_misses_other_tags_and_results() -> None:
    pins, result = Pins.of(TABLE, ROOT), run_case(CASE, backend, TABLE)
    assert pins.moved(CASE, result) == ""
    assert pins.moved(CASE, replace(result, verdict="reject")) == f"{SNAPSHOT} {CASE.id}"
    assert pins.moved(CASE, replace(result, blobs=("another",))) == f"{RECORDED} {CASE.id}"


# ------------------------------------------------------------------------------------ sums


def test_an_interval_is_that_of_wilson() -> None:
    """Worked by hand: 9 of 10, z = 1.96: middle 1.0921 / 1.3842, half width 0.2673 / 1.3842."""
    low, high = interval(9, 10)
    assert (round(low, 3), round(high, 3)) == (0.596, 0.982)
    assert interval(10, 10)[1] == pytest.approx(1) and interval(0, 10)[0] == pytest.approx(0)


def test_rows_and_what_rules_share_are_rules() -> None:
    rules = "neutron/operators/pooling.py", "xnnpack/configs/pooling.py", "common/rules.py", "ethosu/support/rule.py"
    others = "neutron/device/operators.py", "common/machine.py", "neutron/lowering/pooling.py"
    assert {part(f"partitioners/{file}") for file in rules} == {"rules"}
    assert {part(f"partitioners/{file}") for file in others} == {"compilers and devices"}


# ------------------------------------------------------------------------------------ caches


def test_a_cache_is_read_only_where_it_was_written_of_the_same_files(module: Path) -> None:
    cache, known = module.with_name("cache.json"), fingerprint([module], "cases")
    assert read(cache, known) is None
    cache.write_text(f'{{"of": "{known}", "lines": {{"a": {{"3": [1]}}}}}}')
    stored = read(cache, known)
    assert stored is not None and by_number(stored["lines"]) == {"a": {3: [1]}}
    assert read(cache, fingerprint([module], "other cases")) is None
    module.write_text(MODULE + "\n")
    assert read(cache, fingerprint([module], "cases")) is None


# ------------------------------------------------------------------------------------ the type checker


def test_the_type_checker_refuses_a_return_of_nothing_and_takes_another_product(module: Path, tmp_path: Path) -> None:
    (module.parent / "pyproject.toml").write_text('[tool.mypy]\nstrict = true\nfiles = ["module.py"]\n')
    checked = Checked.of(module.parent, tmp_path.with_name(f"{tmp_path.name}_copy"))
    refused = checked.judged(one(module, "return total -> return None"))
    assert refused.killed and refused.how.startswith(TYPES)
    assert not checked.judged(one(module, "width * height -> width + height")).killed
    assert (checked.copy / "module.py").read_text() == MODULE


def test_a_project_that_the_type_checker_refuses_as_it_is_judges_nothing(module: Path, tmp_path: Path) -> None:
    (module.parent / "pyproject.toml").write_text('[tool.mypy]\nstrict = true\nfiles = ["module.py"]\n')
    module.write_text(MODULE.replace("-> int", "-> str"))
    with pytest.raises(RuntimeError, match="mypy on the unchanged project"):
        Checked.of(module.parent, tmp_path.with_name(f"{tmp_path.name}_copy"))


# ------------------------------------------------------------------------------------ unit tests

PROBE = """
import ast
from pathlib import Path
from benchmarks.mutants import unit_tests

root, cache = Path.cwd(), Path({cache!r})
file = root / "partitioners" / "common" / "stored.py"
unit_tests.named = lambda *_: ["tests/partitioners/common/test_stored.py"]
tests = unit_tests.traced(("common",), root, [file], cache)["partitioners/common/stored.py"]
text = file.read_text().replace("return total", "return {returned}")
unit_tests.time.process_time = lambda: {spent}
verdict = unit_tests.judged(max(tests.values()), root, "partitioners/common/stored.py", ast.parse(text), 60.0)
print(verdict.killed, verdict.cases)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("returned", "spent", "expected"),
    [("total", 0.0, "False 1"), ("None", 0.0, "True 1"), ("None", 31.0, "False 0")],
)
def test_unit_tests_that_execute_a_line_judge_its_mutants_in_time(
    tmp_path: Path, returned: str, spent: float, expected: str
) -> None:
    """In a process that has not loaded the vendor's modules."""
    script = PROBE.format(cache=str(tmp_path / "tests.json"), returned=returned, spent=spent)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{expected}\n"
