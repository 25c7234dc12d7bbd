"""The plain program of every row of the Ethos-U tables, in every precision, on two implementations of TOSA.

The flatbuffers that our compilers write give the same numbers on Arm's reference model and on Arm's emulation layer
for Vulkan, which share no kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from places import ROOT

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.ethosu.tosa_format import read, write
from npu_assay.partitioners.ethosu.tosa_model import TTensor
from npu_assay.partitioners.exir import Backend
from tests.crosscheck.tosa.case_runs import Run, differing, runs
from tests.crosscheck.vgf.emulation import Array, RefusedError, missing, run_emulation

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

PLAIN = "/operator/accept/baseline"


@dataclass(frozen=True)
class Plain:
    """The plain program of a row in one precision, for one backend."""

    case: Case
    backend: Backend
    table: Table


def plain_programs(backend: Backend) -> list[Plain]:
    """All that a table promises to take."""
    table = load_table(backend.table)
    plain = [case for case in cases_for(table) if case.id.endswith(PLAIN) and case.expect == "accept"]
    return [Plain(case, backend, table) for case in plain]


PROGRAMS = [each for backend in (ethos_u55, ethos_u85) for each in plain_programs(backend)]
ROWS = sorted({each.case.row for each in PROGRAMS})


def row_runs(row: str) -> dict[str, Run]:
    """The runs of a row's programs by id; a flatbuffer that both compilers write has one."""
    found = dict[bytes, tuple[str, Run]]()
    for each in PROGRAMS:
        if each.case.row == row:
            (run,) = runs(each.case, each.backend, each.table)
            found.setdefault(run.compiled[0], (f"{each.backend.name}/{each.case.id}", run))
    return dict(found.values())


def emulated(run: Run, folder: Path, blob: bytes | None = None) -> Run:
    """The run with the emulation layer's outputs, of its own flatbuffer if no other is given."""
    folder.mkdir()
    return replace(run, outputs=tuple(run_emulation(blob or run.compiled[0], run.inputs, folder)))


@pytest.mark.long
@pytest.mark.sampled(20)
@pytest.mark.parametrize("row", ROWS)
def test_row(row: str, tmp_path: Path) -> None:
    found = {name: emulated(run, tmp_path / str(n)) for n, (name, run) in enumerate(row_runs(row).items())}
    assert found and {name: count for name, run in found.items() if (count := differing(run))} == {}


def test_the_page_lists_every_row() -> None:
    page = (ROOT / "docs" / "lab" / "vulkan-emulation.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"`((?:aten|dim_order_ops)\.[\w.]+)`", page)) == ROWS
    assert f"| programs | {len(PROGRAMS)}: " in page and f"| rows | {len(ROWS)} |" in page


@cache
def tangent() -> Run:
    """A run of a table of 256 codes."""
    return next(run for name, run in row_runs("aten.tanh.default").items() if "/int8/" in name)


def test_one_flipped_code_of_the_emulation_layer_is_noticed(tmp_path: Path) -> None:
    run = emulated(tangent(), tmp_path / "run")
    assert differing(run) == 0
    run.outputs[-1].reshape(-1)[-1] ^= 1
    assert differing(run) == 1


def test_one_flipped_code_of_a_table_is_noticed(tmp_path: Path) -> None:
    """In the flatbuffer that the emulation layer is given: as often as the inputs have its place."""
    run = tangent()
    (x,) = run.inputs
    code = int(x.reshape(-1)[0])
    flip = (np.arange(256) == code + 128).astype(np.int8)
    blob = changed(run.compiled[0], "TABLE", lambda table: table ^ flip)
    assert differing(emulated(run, tmp_path / "run", blob)) == int((x == code).sum()) > 0


def test_lavapipe_ends_long_loops(tmp_path: Path) -> None:
    """After 65,535 turns of all loops of a shader, inner and outer: a sum of 65,536 products has the first 43,691."""
    name = "aten.convolution.default/int16/operator/accept/65536_turned_x_2_2"
    table = load_table(ethos_u85.table)
    (run,) = runs(next(case for case in cases_for(table) if case.id == name), ethos_u85, table)
    found = emulated(run, tmp_path / "run")
    assert differing(run) == 0 and differing(found) == found.outputs[0].size
    (blob, specs), first = run.compiled, np.arange(65536) < 43691
    assert differing(replace(found, compiled=(changed(blob, "CONV2D", lambda weights: weights * first), specs))) == 0


def changed(blob: bytes, code: str, change: Callable[[Array], Array]) -> bytes:
    """The flatbuffer with other numbers in the second operand of its operator of that code."""
    model = read(blob)
    (name,) = (operator.inputs[1] for operator in model.operators if operator.code == code)

    def other(tensor: TTensor) -> TTensor:
        if tensor.name != name or tensor.data is None:
            return tensor
        return replace(tensor, data=change(tensor.data).astype(tensor.data.dtype))

    return write(replace(model, tensors=tuple(map(other, model.tensors))))


def test_a_refusal_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"^ai-ml-sdk-model-converter: exit code "):
        run_emulation(b"no flatbuffer", [], tmp_path)


def test_another_type_or_shape_counts_all(tmp_path: Path) -> None:
    (output,) = emulated(tangent(), tmp_path / "run").outputs
    for other in (output.astype(np.int16), output.reshape(-1)):
        assert differing(replace(tangent(), outputs=(other,))) == output.size
