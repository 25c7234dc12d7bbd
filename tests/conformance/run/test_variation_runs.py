"""How variations run: once, with or without the backend's passes, and of dynamic sizes at other ones, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from torch import Tensor

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases.variations import variation
from npu_assay.conformance.cli import main
from npu_assay.conformance.fuzz import programs
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.seeds import stretched
from npu_assay.conformance.run.answering import FIRST, LAST, SECOND, THIRD, answer
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.one_case import asked, run_case
from npu_assay.conformance.run.selection import cases_of
from npu_assay.conformance.run.wire_format import inputs_bytes, read_inputs
from npu_assay.conformance.table import load_table

TABLE = load_table("xnnpack@1.5")
ROW = "aten.abs.default"
BACKEND = load_backend("xnnpack")


@cache
def named(label: str) -> Case:
    return variation(f"{ROW}/fp32/operator/variation/{label}.baseline", {c.id: c for c in cases_of(TABLE, ROW)}, TABLE)


def test_a_variation_is_tagged_compiled_and_run_once() -> None:
    case = named("special.x_zeros")
    found = answer(asked(case, TABLE), BACKEND, Drawing(case.graph))
    assert set(found.runs) == {FIRST} and len(found.blobs or ()) == 1
    assert found.tags_again is None and not found.blobs_again
    assert run_case(case, BACKEND, TABLE).failures == ()


def test_a_program_of_dynamic_sizes_runs_at_larger_ones() -> None:
    case = named("open.x_axis_1")
    found = answer(asked(case, TABLE), BACKEND, Drawing(case.graph))
    first, *later = (found.runs[name][0].shape[1] for name in (FIRST, SECOND, THIRD, LAST))
    assert later == [first + 1, first + 2, first]
    assert run_case(case, BACKEND, TABLE).failures == ()


class OfOneSize:
    """A device that keeps the sizes of what it ran first."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] | None = None

    def load(self, blob: bytes, specs: Any) -> Any:
        return BACKEND.runtime.load(blob, specs)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        found = BACKEND.runtime.execute(handle, inputs)
        self.shape = tuple(found[0].shape) if self.shape is None else self.shape
        whole = tuple(slice(size) for size in self.shape)
        return [_cut(x, whole) for x in found]


def _cut(x: Tensor, whole: tuple[slice, ...]) -> Tensor:
    made = x.clone().zero_()
    made[whole] = x[whole]
    return made


@pytest.mark.parametrize(("label", "fails"), [("open.x_axis_1", True), ("special.x_zeros", False)])
def test_a_device_of_one_size_is_noticed_at_others(label: str, fails: bool) -> None:
    found = run_case(named(label), replace(BACKEND, runtime=OfOneSize()), TABLE)
    assert bool(found.failures) == fails


def test_without_passes_none_runs() -> None:
    def refuse(program: Any) -> Any:
        raise AssertionError("a pass ran")

    broken = replace(BACKEND, passes=(refuse,))
    assert run_case(named("flow.without_passes"), broken, TABLE).failures == ()
    assert run_case(named("special.x_zeros"), broken, TABLE).failures


def test_those_who_judge_do_not_make_what_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each judge is a fork of the run, which has made all of them."""

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("made again")

    monkeypatch.setattr(programs, "variation", refuse)
    command = ["certify", "xnnpack", "-k", f"{ROW} and fp16", "-n", "1", "--out", str(tmp_path / "record")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0 and "made again" not in done.output, done.output


def test_sizes_cross_with_the_inputs() -> None:
    inputs = Drawing(named("open.all").graph)("blobs")
    assert read_inputs(inputs_bytes(inputs)) == inputs and len(set(inputs.sizes)) == 3


def test_sizes_of_one_and_fixed_ones_stay() -> None:
    graph = named("open.x_axis_1").graph
    (x,), (larger,) = graph.values, stretched(graph, 2).values
    grown = [b - a for a, b in zip(x.shape, larger.shape, strict=True)]
    assert grown == [2 if axis == 1 else 0 for axis in range(len(x.shape))]
