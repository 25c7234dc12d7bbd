"""What XNNPACK's compiler must not take for something else: arguments left out, and operators that stay apart."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import fx
from xnnpack_graphs import WEIGHT, Q, coded, graph, real, step
from xnnpack_lowered import compiled, node, one

from npu_assay.partitioners.exir.reachability import Reach
from npu_assay.partitioners.xnnpack.grouping import merged


@pytest.mark.parametrize(("start", "offset"), [(None, 0), (0, 0), (1, 1), (-5, 1), (-9, 0)])
def test_a_slice_without_a_start_begins_at_the_first_element(start: int | None, offset: int) -> None:
    """A start below 0 counts from the end, and one before the first element is the first."""
    found = one(graph([real("x", 2, 6, 5)], [step("y", "slice_copy.Tensor", "x", 1, start, 4)]))
    assert node(found, "StaticSlice").options == {"offsets": (0, offset, 0), "sizes": (2, 4 - offset, 5)}


@pytest.mark.parametrize("seed", range(40))
def test_groups_that_are_merged_stay_disjoint(seed: int) -> None:
    """Of random graphs: every node is in one delegate, and no path leads out of a delegate and back in."""
    draw, made = Random(seed), fx.Graph()
    nodes = [made.placeholder("x")]
    for _ in range(12):
        nodes.append(made.call_function(torch.add, (draw.choice(nodes), draw.choice(nodes))))
    reach, kept = Reach(made), [node for node in nodes[1:] if draw.random() < 0.7]
    found = merged([reach.of([node]) for node in kept]).values()
    assert sorted(node.name for group in found for node in reach.members(group)) == sorted(n.name for n in kept)
    assert all(group.is_convex for group in found)


def test_channels_are_not_padded_with_a_convolution() -> None:
    values = [coded("x", 1, 2, 4, 6), coded("w", 3, 3, 2, 3, quant=WEIGHT, constant=True)]
    padded = step("p", "constant_pad_nd", "x", (1, 2, 1, 0, 1, 0), 0.0)
    product = step("y", "convolution", "p", "w", None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, quant=Q)
    found = {each.op for model in compiled(graph(values, [padded, product])) for each in model.nodes}
    assert "StaticConstantPad" in found and "Conv2d" not in found


@pytest.mark.parametrize("transposed", [False, True])
def test_codes_are_padded_with_a_convolution_that_is_not_transposed(transposed: bool) -> None:
    """Between dequantize node and product the pad has numbers; only an ordinary convolution takes it along."""
    values = [coded("x", 1, 3, 4, 6), coded("w", 3, 3, 2, 3, quant=WEIGHT, constant=True)]
    padded = step("p", "constant_pad_nd", "x", (1, 2, 1, 0), 0.0)
    product = step("y", "convolution", "p", "w", None, (1, 1), (0, 0), (1, 1), transposed, (0, 0), 1, quant=Q)
    found = {each.op for model in compiled(graph(values, [padded, product])) for each in model.nodes}
    assert found == {"Convert", "StaticConstantPad"} | (set() if transposed else {"Conv2d", "StaticTranspose"})
