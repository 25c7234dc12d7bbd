"""The Ethos-U partitioner answers for every well-formed program, and what it tags compiles, however little there is."""

from __future__ import annotations

import pytest
import torch
from ethosu_graphs import U55, U85, Builder, judge, partitioned
from ethosu_wellformed import tiny_programs
from torch import fx

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner
from npu_assay.partitioners.ethosu.operators import OPERATORS as ROWS
from npu_assay.partitioners.ethosu.support.common import ANY_DEQUANTIZE, ANY_QUANTIZE
from npu_assay.partitioners.ethosu.support.rules import RULES
from npu_assay.partitioners.exir import EdgeProgramManager
from npu_assay.partitioners.exir.config import EdgeCompileConfig
from npu_assay.partitioners.exir.ops import GETITEM
from npu_assay.partitioners.exir.program import copy_program

OPERATORS = sorted(set(RULES) - ANY_QUANTIZE - ANY_DEQUANTIZE - {GETITEM})
TALLER = frozenset(
    {
        "aten._adaptive_avg_pool2d.default",
        "aten.avg_pool2d.default",
        "aten.bmm.default",
        "aten.clamp.Tensor",
        "aten.clamp.default",
        "aten.convolution.default",
        "aten.index.Tensor",
        "aten.index_put.default",
        "aten.max_pool2d.default",
        "aten.max_pool2d_with_indices.default",
        "aten.mm.default",
        "aten.upsample_bilinear2d.vec",
        "aten.upsample_nearest2d.vec",
    }
)
"""Operators that torch applies to none of these, as they want more dimensions, a bound or indices."""
LOOSE = EdgeCompileConfig(_check_ir_validity=False)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("target", [U55, U85])
def test_every_program_has_an_answer(operator: str, target: str) -> None:
    made = 0
    for tiny in tiny_programs(operator):
        program = tiny.program()
        if program is None:
            continue
        made += 1
        twin = copy_program(program, verify=False)
        verdict = partitioned(twin, EthosUPartitioner(EthosUCompileSpec(target)))
        if verdict.tags:
            manager = EdgeProgramManager({"forward": program}, compile_config=LOOSE)
            manager.to_backend(EthosUPartitioner(EthosUCompileSpec(target)))
        elif 0 in tiny.shape and not ROWS[operator].is_constant:
            assert "unsupported" in verdict.of(operator) or "not_empty" in verdict.of(operator), tiny
    assert bool(made) == (operator not in TALLER)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("aten.sum.dim_IntList", ([0],)),
        ("aten.mean.dim", ([-1],)),
        ("aten.cumsum.default", (0,)),
        ("aten.amax.default", ([0],)),
        ("aten.flip.default", ([0],)),
    ],
)
@pytest.mark.parametrize("target", [U55, U85])
@pytest.mark.parametrize("quantised", [True, False], ids=["quantised", "float"])
def test_scalars_are_refused_along_a_dimension(
    operator: str, arguments: tuple[object, ...], target: str, quantised: bool
) -> None:
    def write(b: Builder) -> fx.Node:
        return b.op(operator, b.input(), *arguments) if quantised else b.call(operator, b.raw_input(), *arguments)

    assert "min_rank" in judge(write, target).of(operator)


@pytest.mark.parametrize("operator", ["aten.any.dim", "aten.logical_not.default"])
def test_empty_truths_are_refused(operator: str) -> None:
    rest = (0,) if operator == "aten.any.dim" else ()
    found = judge(lambda b: b.call(operator, b.integers(0, 3, dtype=torch.bool), *rest), U85)
    assert "not_empty" in found.of(operator)
