"""Every operator in both formats, with and without format conversion on the device, against torch."""

from __future__ import annotations

import pytest
import torch
from delegated import Run, run
from lowering_graphs import GRAPHS

from npu_assay.partitioners.neutron.operators import LOWERINGS

# Lowered by a function that other operators' graphs use: squeezes and copies arrive as views after the passes.
SAME_FUNCTION = {
    "aten.max_pool2d_with_indices.default",
    "aten.squeeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.unsqueeze_copy.default",
    "dim_order_ops._clone_dim_order.default",
}


def check(result: Run, exact: bool) -> None:
    for codes, expected in zip(result.codes, result.expected, strict=True):
        assert codes.shape == expected.shape
        # Equal codes everywhere would hide exchanged axes.
        assert bool((expected != expected.flatten()[0]).any())
    assert result.lsb() <= (0 if exact else 1), result.operators


@pytest.mark.parametrize("convert", [True, False], ids=["converted", "flagged"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.sampled(120)
def test_device_agrees_with_torch(name: str, convert: bool) -> None:
    graph, exact = GRAPHS[name]
    check(run(graph, convert=convert), exact)


@pytest.mark.parametrize("name", ["squeeze", "unsqueeze", "view_flat", "avg_pool_1d", "max_pool_1d", "split"])
def test_without_the_passes(name: str) -> None:
    """What the passes rewrite, the compiler also takes as it is."""
    graph, exact = GRAPHS[name]
    check(run(graph, passes=False), exact)


def test_every_lowering_has_a_graph() -> None:
    used = {step.op for graph, _ in GRAPHS.values() for step in graph.steps}
    assert not set(LOWERINGS) - used - SAME_FUNCTION


def test_a_fault_in_one_axis_is_found() -> None:
    """The comparison itself: exchanged height and width do not pass."""
    result = run(GRAPHS["bilinear_corners"][0])
    flipped = tuple(codes.flip(2) for codes in result.codes)
    assert Run(result.model, flipped, result.expected).lsb() > 1
    assert torch.equal(flipped[0].flip(2), result.codes[0])
