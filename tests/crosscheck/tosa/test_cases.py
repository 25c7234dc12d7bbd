"""Every case of the Ethos-U tables, row by row, on Arm's own tools.

Each delegate gives the TOSA reference model's very numbers on the inputs that the case gives it, Vela compiles it
for the backend's target, and TOSA's validation of flatbuffers finds nothing. So for the delegates that a rejected
case leaves beside its subject.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch
from tosa_building import Building

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85, tosa_format
from npu_assay.partitioners.ethosu.runtime import EthosURuntime, Program
from npu_assay.partitioners.exir import Backend
from tests.crosscheck.tosa.case_runs import Compiled, Run, differing, refused, runs
from tests.crosscheck.tosa.validator import refusals


@dataclass(frozen=True)
class Group:
    """The cases of one row in one precision."""

    backend: Backend
    table: Table
    name: str
    cases: tuple[Case, ...]


def groups(backend: Backend) -> list[Group]:
    """All cases of a backend's table."""
    table = load_table(backend.table)

    def name(case: Case) -> str:
        return f"{backend.name}-{case.row}-{case.precision}"

    found = groupby(sorted(cases_for(table), key=name), name)
    return [Group(backend, table, each, tuple(cases)) for each, cases in found]


GROUPS = [group for backend in (ethos_u55, ethos_u85) for group in groups(backend)]


WIDE = [
    f"aten.avg_pool2d.default/int8/operator/accept/ceil_mode_turned_{each}"
    for each in (
        *(f"x_rank_3_and_kernel_size_{axis}_9" for axis in (0, 1)),
        *(f"kernel_size_{axis}_9_and_stride_{other}_3" for axis in (0, 1) for other in (0, 1)),
        "kernel_size_0_9_and_kernel_size_1_8",
        "kernel_size_0_8_and_kernel_size_1_9",
    )
]
FAR = [
    f"aten.convolution.default/{precision}/operator/accept/1_turned_padding_1_8192{more}"
    for precision in ("int16", "int16_per_channel")
    for more in ("", "_and_dilation_0_8192")
]
FAR.append("aten.convolution.default/int16_per_channel/operator/accept/1_turned_padding_2_8192")
KNOWN = {
    **{name: ["Vela: RuntimeError: Non-passthrough operation (AvgPool) could not run on NPU"] for name in WIDE},
    **{name: ["Vela: RuntimeError: Non-passthrough operation (Transpose) could not run on NPU"] for name in FAR},
}
"""What Vela 5.1.0 refuses although the tables promise it.

Average pools of more than 8 rows or columns that ceil_mode pads, which Arm's quantizer does not write.
Conv3d in 16 bits on Ethos-U55 whose results have planes of more than 16,384 rows: the table has no limit for how they
are turned back, and nobody looked whether users of 1.5.1 meet it.
"""
ENDING = frozenset(f"aten.amin.default/int8/operator/accept/dim_minus_{dim}_of_5" for dim in (1, 2, 3, 5))
"""What ends the process when Vela 5.1.0 compiles it for Ethos-U55: the smallest number along one axis of five."""


def wrong(group: Group, folder: Path) -> dict[str, list[str]]:
    """What is wrong with which case of a group; each flatbuffer is compiled and validated once."""
    cases = [case for case in group.cases if group.backend.name != "ethos-u55" or case.id not in ENDING]
    found = {case: runs(case, group.backend, group.table) for case in cases}
    words = refused((run for each in found.values() for run in each), folder)
    said = {case.id: list(_wrong(case, each, words)) for case, each in found.items()}
    return {name: each for name, each in said.items() if each}


def _wrong(case: Case, found: Sequence[Run], words: Mapping[Compiled, Sequence[str]]) -> Iterator[str]:
    if case.expect == "accept" and not found:
        yield "it has no delegate"
    for run in found:
        yield from words.get(run.compiled, ())
        if count := differing(run):
            yield f"{count} numbers are not those of the reference model"


@pytest.mark.long
@pytest.mark.sampled(100)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_row(group: Group, tmp_path: Path) -> None:
    assert wrong(group, tmp_path) == {case.id: KNOWN[case.id] for case in group.cases if case.id in KNOWN}


@pytest.mark.parametrize("name", sorted(ENDING))
def test_what_ends_vela_still_does(name: str, tmp_path: Path) -> None:
    """In a process of its own; the numbers are the reference model's."""
    group = _group("u55", "aten.amin.default", "int8")
    (found,) = runs(next(case for case in group.cases if case.id == name), group.backend, group.table)
    assert differing(found) == 0
    process = fork(lambda: refused([found], tmp_path))
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGSEGV


def _group(device: str, row: str, precision: str) -> Group:
    return next(group for group in GROUPS if group.name == f"ethos-{device}-{row}-{precision}")


def test_every_case_is_in_one_group() -> None:
    for backend in (ethos_u55, ethos_u85):
        own = [group for group in GROUPS if group.backend is backend]
        grouped = [case.id for group in own for case in group.cases]
        assert sorted(grouped) == sorted(case.id for case in cases_for(own[0].table))


class Faulty(EthosURuntime):
    """The lowest bit of the last number of the last output is flipped."""

    def execute(self, handle: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        outputs = super().execute(handle, inputs)
        outputs[-1].view(-1)[-1:] ^= 1
        return outputs


def test_one_flipped_bit_of_the_device_is_noticed(tmp_path: Path) -> None:
    """In every case of a group, and by nothing else than the comparison."""
    group = _group("u55", "aten.relu.default", "int8")
    faulty = replace(group, backend=replace(group.backend, runtime=Faulty()))
    found = wrong(faulty, tmp_path)
    assert set(found) == {case.id for case in group.cases if case.expect == "accept"}
    assert set().union(*found.values()) == {"1 numbers are not those of the reference model"}


def test_a_case_without_a_delegate_is_noticed(tmp_path: Path) -> None:
    group = _group("u85", "aten.where.self", "int8")
    found = wrong(replace(group, backend=ethos_u55), tmp_path)
    assert ["it has no delegate"] in found.values()


def test_a_refusal_of_vela_is_noticed(tmp_path: Path) -> None:
    """What is compiled for the U85 is refused for the U55, when it selects."""
    group = _group("u85", "aten.where.self", "int8")
    case = next(case for case in group.cases if case.expect == "accept")
    (run,) = runs(case, ethos_u85, group.table)
    (other,) = runs(_group("u55", "aten.relu.default", "int8").cases[0], ethos_u55, load_table("ethos_u55@1.5"))
    moved = replace(run, compiled=(run.compiled[0], other.compiled[1]))
    assert refused([run, other], tmp_path) == {}
    ((compiled, (words,)),) = refused([run, moved, other], tmp_path).items()
    assert compiled == moved.compiled and words.startswith("Vela: ")


def _invalid(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A well-formed flatbuffer whose sum has a place more than its terms."""
    b = Building()
    x = b.input(np.zeros((1, 2, 3)), "INT32")
    model = b.program(b.apply("ADD", x, x)).model
    longer = [replace(each, shape=(1, 2, 4)) if each.name in model.outputs else each for each in model.tensors]
    with monkeypatch.context() as patch:
        patch.setattr(tosa_format, "check", lambda model: None)
        return tosa_format.write(replace(model, tensors=tuple(longer)))


def test_a_refusal_of_the_validation_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of the right flatbuffer among others: invalid, cut short, without its mark, or empty."""
    group = _group("u55", "aten.relu.default", "int8")
    (run,) = runs(group.cases[0], group.backend, group.table)
    good = run.compiled[0]
    bad = [_invalid(monkeypatch), good[: len(good) // 2], good.replace(b"TOSA", b"ASOT"), b""]
    found = refusals([good, *bad, good], tmp_path)
    assert found[0] == found[-1] == "" and all(found[1:-1])
    assert "'tosa.add' op" in found[1]
    ((compiled, words),) = refused([run, replace(run, compiled=(bad[0], run.compiled[1]))], tmp_path).items()
    assert compiled[0] == bad[0] and any(word.startswith("validation: ") for word in words)
