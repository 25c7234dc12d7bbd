"""What no program file can hold is an ExirError that names it, as are configurations that mean nothing."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram, export

from npu_assay.partitioners.exir import (
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    ExirError,
    MemoryPlanningPass,
    to_edge,
)
from npu_assay.partitioners.exir.pte.run import load

X = torch.ones(2, 4)


@pytest.fixture(scope="module")
def program() -> ExportedProgram:
    return export(torch.nn.ReLU(), (X,))


@pytest.fixture(scope="module")
def edge(program: ExportedProgram) -> EdgeProgramManager:
    return to_edge(program)


def without_data() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2)


def quantised() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch is about to give them up
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


CONSTANTS = {
    "sparse": (torch.eye(3).to_sparse(), "of layout torch.sparse_coo"),
    "meta": (torch.ones(2, device="meta"), "on device meta"),
    "fake": (without_data(), "without data"),
    "quantised": (quantised(), "quantized"),
    "surrogate": ("\ud800", r"'\\ud800', expected a str without lone surrogates"),
    "wide": (2**64, "18446744073709551616, expected one of 64 bits"),
    "layout": (torch.sparse_coo, "torch.sparse_coo"),
    "within": ({"a": [-(2**63) - 1]}, "-9223372036854775809"),
}


@pytest.mark.parametrize(("constant", "message"), CONSTANTS.values(), ids=CONSTANTS)
def test_constants_that_no_file_can_hold(
    edge: EdgeProgramManager, program: ExportedProgram, constant: Any, message: str
) -> None:
    with pytest.raises(ExirError, match=rf"constant_methods\['c'\].*found {message}"):
        to_edge(program, constant_methods={"c": constant})
    execution = {"forward": edge.to_executorch().exported_program()}
    with pytest.raises(ExirError, match=r"constant_methods\['c'\]"):
        ExecutorchProgramManager(execution, {"c": constant})


def test_constants_that_just_fit(program: ExportedProgram) -> None:
    conjugate = torch.tensor([1 + 2j]).conj()
    loaded = load(to_edge(program, {"c": [2**63 - 1, -(2**63), "é", conjugate]}).to_executorch().buffer)
    *plain, tensor = loaded.execute("c", [])
    assert plain == [2**63 - 1, -(2**63), "é"] and torch.equal(tensor, torch.tensor([1 - 2j]))


@pytest.mark.parametrize("name", [3, None, "\ud800"])
def test_names_of_methods_that_no_file_can_hold(program: ExportedProgram, name: Any) -> None:
    for arguments in ({"programs": program, "constant_methods": {name: 1}}, {"programs": {name: program}}):
        with pytest.raises(ExirError, match="method name"):
            to_edge(**arguments)


def test_parameters_without_data_are_refused() -> None:
    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, device="meta"))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, self.weight

    manager = to_edge(export(Weighted(), (X,)))
    with pytest.raises(ExirError, match="p_weight: tensor that no program file can hold: found on device meta"):
        manager.to_executorch()


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "number": ({"memory_planning_pass": 3}, "memory_planning_pass: wrong type: found int"),
    "nothing": ({"memory_planning_pass": None}, "memory_planning_pass: wrong type: found NoneType"),
    "number for a method": ({"memory_planning_pass": {"forward": 3}}, r"pass\['forward'\]: wrong type: found int"),
    "unknown method": (
        {"memory_planning_pass": {"nope": MemoryPlanningPass()}},
        r"unknown method: found 'nope', .*'fo",
    ),
    "padding": ({"memory_planning_pass": MemoryPlanningPass(delegate_padding=-1000)}, "delegate_padding: .*-1000"),
    "alignment": ({"memory_planning_pass": MemoryPlanningPass(alignment=3)}, "alignment: .*found 3"),
    "no offsets": ({"memory_planning_pass": MemoryPlanningPass(algorithm=lambda *_: None)}, "found None"),  # type: ignore[arg-type]
    "no algorithm": ({"memory_planning_pass": MemoryPlanningPass(algorithm=3)}, "not an algorithm: found int"),  # type: ignore[arg-type]
    "passes": ({"passes": 3}, "config.passes: wrong type: found int, expected a list of passes"),
}


@pytest.mark.parametrize(("fields", "message"), CONFIGS.values(), ids=CONFIGS)
def test_configurations_that_mean_nothing(edge: EdgeProgramManager, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ExirError, match=message):
        edge.to_executorch(ExecutorchBackendConfig(**fields))


def test_methods_that_are_named_get_their_own_plan(edge: EdgeProgramManager) -> None:
    planning = {"forward": MemoryPlanningPass(alignment=256)}
    wide = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)).memory_plan()
    assert wide.arena_bytes > edge.to_executorch().memory_plan().arena_bytes
