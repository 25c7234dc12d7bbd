"""What the Ethos-U compiler refuses beside programs of one fault (`test_refusals.py`), and what is next to it."""

from __future__ import annotations

import pytest
from delegated import delegated
from ethosu_runs import compiled
from tosa_graph_families import unary
from tosa_graphs import widened

from npu_assay.conformance.programs.build import build
from npu_assay.partitioners.ethosu.backend import EthosUBackend
from npu_assay.partitioners.exir import CompileSpec
from npu_assay.partitioners.exir.compiling import CompileError


def test_windows_apart_fit_the_other_device() -> None:
    pool = unary("max_pool2d", (1, 3, 9, 9), (5, 4), (4, 4)).graph()
    compiled(pool, "u85")


def test_16_bit_codes_without_a_zero_point() -> None:
    compiled(widened(unary("neg").graph()), "u85")


@pytest.mark.parametrize(
    "specs",
    [
        [],
        [CompileSpec("tosa_spec", b"TOSA-1.0+FP")],
        [CompileSpec("tosa_spec", b"TOSA-0.80+INT")],
        [CompileSpec("tosa_spec", b"TOSA-1.0+INT")] * 2,
        [CompileSpec("tosa_spec", b"\xff")],
    ],
)
def test_compile_specs(specs: list[CompileSpec]) -> None:
    part = delegated(build(unary("abs").graph()))
    with pytest.raises(CompileError, match="specification of TOSA"):
        EthosUBackend.preprocess(part, specs)
