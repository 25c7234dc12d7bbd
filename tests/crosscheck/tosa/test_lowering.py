"""What the compiler writes is valid, means on the TOSA reference model what torch computes, and suits Vela.

The simulated device gives the reference model's very numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from ethosu_runs import Compiled, compiled
from tosa_graph_families import Case
from tosa_graphs import CASES, widened

from tests.crosscheck.tosa.compilers import command_bytes
from tests.crosscheck.tosa.model import run_device, run_reference

RUNS = [(name, bits) for name, case in CASES.items() for bits in (8, 16) if bits == 8 or case.wide]


def on_reference_model(found: Compiled) -> list[torch.Tensor]:
    """The outputs of the reference model, which must be defined and equal the simulated device's."""
    inputs = [tensor.numpy() for tensor in found.inputs]
    returned, simulated = run_reference(found.blob, inputs), run_device(found.blob, inputs)
    assert returned is not None and simulated is not None
    for a, b in zip(returned, simulated, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b, strict=True)
    return [torch.from_numpy(np.asarray(array)) for array in returned]


def devices(case: Case, bits: int) -> list[str]:
    """Those that can run the case."""
    return ["u55", "u85"] if case.u55 and (bits == 8 or case.u55_wide) else ["u85"]


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("name", "bits"), RUNS)
def test_case(name: str, bits: int, tmp_path: Path) -> None:
    case = CASES[name]
    steps = case.steps if bits == 8 or case.wide_steps is None else case.wide_steps
    for device in devices(case, bits):
        found = compiled(case.graph if bits == 8 else widened(case.graph), device)
        assert found.steps(on_reference_model(found)) <= steps, found.operators
        assert command_bytes(found.blob, device, tmp_path) > 0


@pytest.mark.parametrize(
    ("name", "bits"),
    [("where", 8), ("embedding", 8), ("conv_3d", 8), ("conv_transposed", 16), ("bmm_2x4x5_2x5x3", 16)],
)
def test_the_u55_refuses(name: str, bits: int, tmp_path: Path) -> None:
    """The records of what the U55 cannot run are no excuse: Vela refuses these."""
    case = CASES[name]
    graph = case.graph if bits == 8 else widened(case.graph)
    with pytest.raises((RuntimeError, SystemExit)):
        command_bytes(compiled(graph, "u55").blob, "u55", tmp_path)
