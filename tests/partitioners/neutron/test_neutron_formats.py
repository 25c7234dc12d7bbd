"""Which values are channels-first, and which transpositions the NPU can do."""

from __future__ import annotations

from itertools import permutations, product

import pytest
import torch
from neutron_graphs import Builder
from torch import fx

from npu_assay.partitioners.exir.layout import arranged, to_channels_first, to_channels_last
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.neutron.formats import (
    channel_dim,
    channels_first_nodes,
    is_trivial_transposition,
    supported_transposition,
)
from npu_assay.partitioners.neutron.operators import OPERATORS
from npu_assay.partitioners.neutron.support.layout import _permutation_supported

FIRST, LESS = True, False


def formats_of(builder: Builder, *outputs: fx.Node) -> dict[str, bool]:
    """Whether each node is channels-first, by name."""
    result = builder.graph.output(outputs)
    found = channels_first_nodes(builder.graph, OPERATORS)
    assert result not in found
    return {node.name: node in found for node in builder.graph.nodes if node is not result}


def test_a_convolution_makes_everything_tied_to_it_channels_first() -> None:
    b = Builder()
    y = b.op(
        "aten.relu.default", b.conv(b.op("aten.abs.default", b.input(1, 3, 8, 8)), b.weight(5, 3, 3, 3), b.bias(5))
    )
    found = formats_of(b, y)
    assert found.pop("c1") is LESS  # the bias
    assert found.pop("quantized_decomposed_dequantize_per_tensor_default_3") is LESS
    assert set(found.values()) == {FIRST}


def test_without_a_channels_first_operator_nothing_is() -> None:
    b = Builder()
    assert set(formats_of(b, b.op("aten.relu.default", b.input(1, 3, 8, 8))).values()) == {LESS}


def test_a_reshape_ends_the_tie() -> None:
    b = Builder()
    image = b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3))
    flat = b.op("aten.view_copy.default", image, [1, 5, 36])
    found = formats_of(b, b.op("aten.abs.default", flat))
    assert found["aten_convolution_default"] is FIRST
    assert found["aten_view_copy_default"] is LESS
    assert found["aten_abs_default"] is LESS


def test_a_reshape_takes_the_format_of_its_users() -> None:
    b = Builder()
    image = b.op("aten.view_copy.default", b.input(1, 192), [1, 3, 8, 8])
    found = formats_of(b, b.conv(image, b.weight(5, 3, 3, 3)))
    assert found["aten_view_copy_default"] is FIRST
    assert found["x0"] is LESS


def test_a_tie_spreads_to_other_users_and_their_operands() -> None:
    b = Builder()
    x, other = b.input(1, 8, 4, 4), b.input(1, 8, 4, 4)
    total = b.op("aten.add.Tensor", x, other)
    found = formats_of(b, total, b.op("aten.avg_pool2d.default", x, [2, 2]))
    assert found["x1"] is FIRST
    assert found["aten_add_tensor"] is FIRST


def test_ranks_below_three_take_no_part_in_a_tie() -> None:
    b = Builder()
    slope = b.weight(8)
    found = formats_of(b, b.op("aten.prelu.default", b.conv(b.input(1, 3, 4, 4), b.weight(8, 3, 1, 1)), slope))
    assert found["aten_prelu_default"] is FIRST
    assert found["c0"] is LESS


def test_no_tie_crosses_an_unknown_operator() -> None:
    b = Builder()
    image = b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3))
    assert formats_of(b, b.call("aten.exp.default", image))["aten_exp_default"] is LESS


def test_graph_outputs_tie_nothing() -> None:
    b = Builder()
    image = b.conv(b.input(1, 3, 8, 8), b.weight(5, 3, 3, 3))
    assert formats_of(b, image, b.op("aten.abs.default", b.input(1, 3, 8)))["aten_abs_default"] is LESS


@pytest.mark.parametrize(
    ("found", "shape", "dim"), [(FIRST, (1, 8, 4, 4), 1), (LESS, (1, 8, 4, 4), 3), (LESS, (5,), 0)]
)
def test_channel_dim(found: bool, shape: tuple[int, ...], dim: int) -> None:
    node = Builder().raw_input(*shape)
    assert channel_dim(node, {node} if found else ()) == dim


def test_layout_permutations() -> None:
    assert (to_channels_last(4), to_channels_first(4)) == ((0, 2, 3, 1), (0, 3, 1, 2))
    assert (to_channels_last(3), to_channels_first(3)) == ((0, 2, 1), (0, 2, 1))
    assert to_channels_last(2) == to_channels_first(2) == (0, 1)


@pytest.mark.parametrize("rank", range(1, 6))
def test_layout_permutations_are_inverse(rank: int) -> None:
    shape = tuple(range(10, 10 + rank))
    assert arranged(arranged(shape, to_channels_last(rank)), to_channels_first(rank)) == shape


@pytest.mark.parametrize(
    ("shape", "permutation", "supported"),
    [
        ((8, 8), (0, 1), True),
        ((8, 8), (1, 0), False),
        ((1, 8), (1, 0), True),
        ((1, 8, 8, 8), (0, 3, 1, 2), True),
        ((1, 4, 2, 8), (0, 3, 1, 2), True),
        ((1, 4, 1, 8), (0, 3, 1, 2), False),
        ((1, 8, 8, 7), (0, 3, 1, 2), False),
        ((2, 8, 8, 8), (0, 3, 1, 2), False),
        ((1, 8, 8, 8), (0, 2, 3, 1), True),
        ((1, 8, 1, 8), (0, 2, 3, 1), True),
        ((1, 8, 4, 4), (0, 2, 3, 1), False),
        ((1, 4, 8, 8), (0, 2, 3, 1), False),
        ((1, 8, 8, 8), (0, 1, 3, 2), False),
    ],
)
def test_supported_transpositions(shape: tuple[int, ...], permutation: tuple[int, ...], supported: bool) -> None:
    assert supported_transposition(shape, permutation) is supported


def test_a_trivial_transposition_moves_no_element() -> None:
    data = torch.arange(16).reshape(1, 2, 1, 8)
    for permutation in [(1, 0, 2, 3), (0, 1, 3, 2), (3, 1, 0, 2)]:
        same = torch.equal(data.permute(permutation).flatten(), data.flatten())
        assert is_trivial_transposition(data.shape, permutation) is same


def test_names_of_channels_first_operators_exist() -> None:
    b = Builder()
    pooled = b.max_pool(b.input(1, 8, 4, 4), [2, 2])
    b.graph.output((pooled,))
    found = channels_first_nodes(b.graph, OPERATORS)
    assert {n in found for n in b.graph.nodes if target_name(n.target) == "getitem"} == {FIRST}


def _chained(sizes: tuple[int, ...], steps: list[tuple[int, ...]], whole: tuple[int, ...] | None = None) -> bool:
    """Whether the steps can be done, each alone or merged with its neighbors; all in one on the sizes `whole`."""
    if not steps:
        return True
    for count in range(1, len(steps) + 1):
        merged = tuple(range(len(sizes)))
        for step in steps[:count]:
            merged = arranged(merged, step)
        judged = whole if whole is not None and count == len(steps) else sizes
        if supported_transposition(judged, merged) and _chained(arranged(sizes, merged), steps[count:]):
            return True
    return False


@pytest.mark.parametrize("formats", list(product([False, True], repeat=2)))
def test_a_transposition_is_any_chain_of_supported_ones(formats: tuple[bool, bool]) -> None:
    enters, leaves = formats
    told = set()
    for sizes in product((1, 2), (1, 3, 8), (1, 3, 8, 16), (1, 5, 8)):
        for dims in permutations(range(4)):
            device = arranged(sizes, to_channels_last(4))
            steps = [to_channels_first(4)] * enters + [dims] + [to_channels_last(4)] * leaves
            trivial = is_trivial_transposition(sizes, dims) and is_trivial_transposition(device, dims)
            whole = sizes if enters and leaves else None
            expected = trivial or _chained(device if enters else sizes, steps, whole)
            assert _permutation_supported(sizes, dims, formats, 8) == expected, (sizes, dims)
            told.add(expected)
    assert told == {False, True}
