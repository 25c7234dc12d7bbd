"""What the XNNPACK compiler writes where layouts, axes and ranks differ from the usual ones."""

from __future__ import annotations

import numpy as np
import pytest
from xnnpack_graphs import Q, coded, graph, partitioned, real, step
from xnnpack_lowered import compiled, data, node, numbers, one

from npu_assay.conformance.programs.graph import ChannelsLast, Fill, Graph, Quant
from npu_assay.partitioners.xnnpack.xnn_model import PerChannel

COLUMNS = Quant((0.01, 0.02, 0.03), 0, -127, axis=1)


def test_scales_of_a_matrix_that_stands_the_other_way_turn_with_it() -> None:
    """mm has [inputs, outputs] with a scale per column; XNNPACK has [outputs, inputs] with a scale per row."""
    model = graph(
        [coded("x", 2, 4), coded("w", 4, 3, quant=COLUMNS, constant=True)], [step("y", "mm", "x", "w", quant=Q)]
    )
    found = one(model)
    place = node(found, "FullyConnected").inputs[1]
    quant = found.values[place].quant
    assert isinstance(quant, PerChannel) and quant.axis == 0
    assert np.array_equal(quant.scales, np.asarray(COLUMNS.scale, np.float32))
    assert np.array_equal(data(found, place), numbers(model, "w").numpy().T)


def pooled(last: bool, shape: tuple[int, ...] = (1, 3, 4, 6)) -> Graph:
    kind = ChannelsLast if last else type(real("x", 1))
    return graph(
        [kind("x", shape, None, Fill(seed=1), dtype="float32")], [step("y", "avg_pool2d", "x", (2, 2), (2, 2))]
    )


def test_an_input_that_lies_channels_last_is_taken_as_it_lies() -> None:
    plain, last = one(pooled(False)), one(pooled(True))
    assert [each.op for each in plain.nodes] == ["StaticTranspose", "AvgPooling2d", "StaticTranspose"]
    assert [each.op for each in last.nodes] == ["AvgPooling2d"]
    assert plain.values[plain.inputs[0]].shape == (1, 3, 4, 6) and last.values[last.inputs[0]].shape == (1, 4, 6, 3)


def test_an_input_that_lies_both_ways_counts_as_torchs_order() -> None:
    """With one channel both orders are one."""
    found = one(pooled(True, (1, 1, 4, 6)))
    assert found.values[found.inputs[0]].shape == (1, 1, 4, 6)


@pytest.mark.parametrize(("shape", "made"), [((2, 3), (2, 3, 1, 1)), ((2, 3, 5), (2, 3, 5, 1))])
def test_a_batch_norm_of_fewer_axes_gets_axes_of_one(shape: tuple[int, ...], made: tuple[int, ...]) -> None:
    """With an open batch, 0 stands for that one alone."""
    for dynamic, wanted in (((), made), ((0,), (0, *made[1:]))):
        parts = [real(name, 3, constant=True) for name in "gbmv"]
        norm = step("y", "_native_batch_norm_legit_no_training", "x", "g", "b", "m", "v", 0.1, 1e-5)
        model = graph([real("x", *shape, dynamic=dynamic), *parts], [norm])
        (found,) = compiled(model)
        reshape = next(each for each in found.nodes if each.op == "StaticReshape")
        assert tuple(reshape.options["new_shape"]) == wanted


def test_the_option_for_computed_weights_is_for_products_alone() -> None:
    given = [real("x", 1, 3, 4, 6), real("w", 5, 3, 2, 2)]
    made = step("y", "convolution", "x", "w", None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    found = partitioned(graph(given, [made]), force_non_static_weights_for_f32_linear=True)
    assert [(one.code, one.found) for one in found.rejections] == [("static_weights", "weight w is computed")]
