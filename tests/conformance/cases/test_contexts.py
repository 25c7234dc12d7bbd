"""Contexts of real models see what plain ones do not: each with a fault that it alone tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import any_backend
import pytest
import torch
from torch import Tensor

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import build, model_inputs, module
from npu_assay.conformance.programs.graph import ChannelsLast
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR

NEW = ("channels_last", "constant_shared_with_add", "used_twice_at_two_scales")


class OneScale(any_backend.EveryRuntime):
    """Remembers the scales that it saw first, as a device does that keeps prepared layers by their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.scales: Any = None

    def _result(self, target: str, args: Any, kwargs: Any, codes: Any) -> Any:
        if target == DEQUANTIZE_PER_TENSOR:
            self.scales = codes if self.scales is None else self.scales
            codes = self.scales
        return super()._result(target, args, kwargs, codes)


class Dense(any_backend.EveryRuntime):
    """Reads images as if their numbers always lay row by row."""

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        laid = [torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) for x in inputs]
        return super().execute(handle, laid)


def failing(runtime: Callable[[], any_backend.EveryRuntime], name: str, folder: Path, monkeypatch: Any) -> set[str]:
    """The contexts of a row that a device fails, each tried anew."""
    path = folder / "any@1.0.toml"
    path.write_text(any_backend.table([name], "int8"))
    table, found = load_table(str(path)), set[str]()
    monkeypatch.setattr(any_backend.EveryPartitioner, "only", name)
    for case in cases_for(table):
        if case.side == "context":
            backend = any_backend.backend_with(runtime())
            found |= {case.id.rpartition("/")[2]} if run_case(case, backend, table).failures else set()
    return found


def test_a_device_that_remembers_a_scale_fails_one_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing(OneScale, "aten.mish.default", tmp_path, monkeypatch) == {"used_twice_at_two_scales"}


def test_a_device_that_reads_rows_fails_one_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing(Dense, "aten.mish.default", tmp_path, monkeypatch) == {"channels_last"}


def cases_of(table: str) -> list[Any]:
    return [case for case in cases_for(load_table(table)) if case.id.endswith(NEW)]


@pytest.mark.long
@pytest.mark.parametrize("table", ["neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5"])
def test_every_shipped_table_has_them(table: str) -> None:
    found = {name for name in NEW for case in cases_of(table) if case.id.endswith(name)}
    assert found == set(NEW)


def test_images_of_the_other_layout_are_that_everywhere() -> None:
    """The program's placeholder says so, the input is so, and the module gives the same."""
    (case, *_) = [case for case in cases_of("neutron@1.3") if case.id.endswith("context/channels_last")]
    assert any(isinstance(value, ChannelsLast) for value in case.graph.values)
    (x,) = model_inputs(case.graph)
    assert x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    program = build(case.graph)
    (placeholder,) = [node for node in program.graph.nodes if node.name == "x"]
    assert placeholder.meta["val"].stride() == x.stride()
    assert torch.export.export(module(case.graph), (x,)).module()(x)[0].shape == x.shape
