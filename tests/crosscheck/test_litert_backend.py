"""What the Neutron compiler writes, run by LiteRT's reference kernels and by the simulated device: equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from delegated import compiled, delegated
from lowering_graphs import GRAPHS

from npu_assay.conformance.programs.build import build, materialise
from npu_assay.partitioners.exir import transform_program
from npu_assay.partitioners.neutron import NeutronRuntime, backend

pytest.importorskip("ai_edge_litert")

from tests.crosscheck.litert import run_litert

NEGATIVE = pytest.mark.xfail(strict=True, reason="LiteRT 2.3.0's reference SUM is wrong where a sum is negative")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[NEGATIVE] * name.startswith("sum")) for name in GRAPHS])
def test_litert_agrees_with_the_device(name: str) -> None:
    graph = GRAPHS[name][0]
    blob = compiled(delegated(transform_program(build(graph), backend.passes)))
    codes = [materialise(value) for value in graph.values if not value.constant]
    runtime = NeutronRuntime()
    found = [output.numpy() for output in runtime.execute(runtime.load(blob), codes)]
    expected = run_litert(blob, [code.numpy() for code in codes])
    assert differing(found, expected) == [0] * len(expected)


def differing(found: Sequence[npt.NDArray[np.int8]], expected: Sequence[npt.NDArray[np.int8]]) -> list[int]:
    """Differing codes per output; all of them when the shapes differ."""
    pairs = zip(found, expected, strict=True)
    return [int((a != b).sum()) if a.shape == b.shape else b.size for a, b in pairs]


def test_one_other_code_is_found() -> None:
    codes = np.zeros((2, 3), np.int8)
    changed = codes.copy()
    changed[1, 2] = 1
    assert differing([codes, codes], [changed, codes[:1]]) == [1, 3]
