"""XNNPACK's compiler on convolutions and pools, on layouts, dynamic shapes and whole programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from xnnpack_graphs import PRESERVE, Q, coded, graph, program, real, step
from xnnpack_lowered import IMAGE, ROWS, data, node, numbers, one, ops, unary

from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Graph, Quant, Step
from npu_assay.partitioners.exir import run_program, to_backend
from npu_assay.partitioners.xnnpack import XnnpackBackend, XnnpackPartitioner, XnnpackRuntime
from npu_assay.partitioners.xnnpack.configs import ALL_CONFIGS, LOWERED
from npu_assay.partitioners.xnnpack.xnn_model import (
    ALIGN_CORNERS,
    KEEP_DIMS,
    PerChannel,
    XModel,
)

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


# ------------------------------------------------------------------------------------ convolution, pooling, resize


def convolved(
    weight: Sequence[int], *args: Any, shape: Sequence[int] = IMAGE, groups: int = 1, transposed: bool = False
) -> Graph:
    """A convolution; `args` are stride, padding, dilation and output padding."""
    rank = len(weight) - 2
    defaults: list[Any] = [(1,) * rank, (0,) * rank, (1,) * rank, (0,) * rank]
    stride, padding, dilation, extra = [*args, *defaults[len(args) :]]
    rest = (None, stride, padding, dilation, transposed, extra, groups)
    values = [real("x", *shape), real("w", *weight, constant=True)]
    return graph(values, [step("y", "convolution", "x", "w", *rest)])


def test_a_convolution_is_channels_last_between_two_transposes() -> None:
    model = convolved((5, 3, 2, 3), (2, 1), (1, 0), (1, 2))
    found = one(model)
    assert [each.op for each in found.nodes] == ["StaticTranspose", "Conv2d", "StaticTranspose"]
    assert [each.options["perm"] for each in found.nodes[::2]] == [NHWC, NCHW]
    conv = node(found, "Conv2d")
    assert np.array_equal(data(found, conv.inputs[1]), numbers(model, "w").permute(NHWC).numpy())
    assert {name: conv.options[name] for name in conv.options if not name.startswith("group")} == {
        "padding_top": 1, "padding_bottom": 1, "padding_left": 0, "padding_right": 0,
        "kernel_height": 2, "kernel_width": 3, "subsampling_height": 2, "subsampling_width": 1,
        "dilation_height": 1, "dilation_width": 2, "adjustment_height": 0, "adjustment_width": 0,
    }  # fmt: skip


def test_neighbours_stay_channels_last() -> None:
    model = convolved((3, 3, 1, 1))
    more = graph(model.values, [*model.steps, step("z", "abs", "y"), step("p", "max_pool2d", "z", [2, 2], [2, 2])])
    assert ops(more) == ["StaticTranspose", "Conv2d", "Abs", "MaxPooling2d", "StaticTranspose"]


@pytest.mark.parametrize(("shape", "last"), [((1,), "Add"), ((1, 1), "Add"), ((3, 1, 1), "StaticTranspose")])
def test_what_has_one_element_fits_any_layout(shape: tuple[int, ...], last: str) -> None:
    """The convolution's result that it is added to stays channels last."""
    model = convolved((3, 3, 1, 1))
    values = [*model.values, real("c", *shape, constant=True)]
    found = ops(graph(values, [*model.steps, step("z", "add.Tensor", "y", "c")]))
    assert found[:3] == ["StaticTranspose", "Conv2d", last] and sorted(found[2:]) == ["Add", "StaticTranspose"]


@pytest.mark.parametrize(
    ("weight", "groups", "kind", "ends"),
    [
        ((6, 1, 2, 2), 3, "DepthwiseConv2d", (1, 2)),
        ((4, 2, 2, 2), 2, "Conv2d", (2, 2)),
        ((5, 3, 2, 2), 1, "Conv2d", (3, 5)),
    ],
)
def test_groups(weight: tuple[int, ...], groups: int, kind: str, ends: tuple[int, int]) -> None:
    shape = (1, weight[1] * groups, 4, 6)
    found = one(convolved(weight, shape=shape, groups=groups))
    o = node(found, kind).options
    assert (o["groups"], o["group_input_channels"], o["group_output_channels"]) == (groups, *ends)
    filters = found.values[node(found, kind).inputs[1]].shape
    assert filters == ((1, 2, 2, 6) if kind == "DepthwiseConv2d" else (weight[0], 2, 2, weight[1]))


def test_a_transposed_convolution_with_groups() -> None:
    """[inputs, outputs / groups, kh, kw] becomes [outputs, kh, kw, inputs / groups]."""
    model = convolved((4, 3, 2, 2), (2, 1), (0, 0), (1, 1), (1, 0), shape=(1, 4, 3, 3), groups=2, transposed=True)
    found = one(model)
    conv = node(found, "ConvTranspose2d")
    w = numbers(model, "w")
    expected = torch.cat([w[:2].transpose(0, 1), w[2:].transpose(0, 1)]).permute(NHWC)
    assert np.array_equal(data(found, conv.inputs[1]), expected.numpy())
    assert (conv.options["adjustment_height"], conv.options["adjustment_width"]) == (1, 0)


def test_one_spatial_dimension_gets_a_second() -> None:
    found = one(convolved((5, 3, 3), shape=(2, 3, 7)))
    assert [each.op for each in found.nodes] == [
        "StaticReshape", "StaticTranspose", "Conv2d", "StaticTranspose", "StaticReshape",
    ]  # fmt: skip
    assert found.nodes[0].options["new_shape"] == (2, 3, 7, 1)
    assert node(found, "Conv2d").options["kernel_width"] == 1
    assert found.nodes[-1].options["new_shape"] == (2, 5, 5)


def test_scales_per_channel_follow_the_channels() -> None:
    """Axis 0 of torch's weights; 3 of a depthwise filter."""
    for weight, groups, axis in (((3, 3, 2, 2), 1, 0), ((3, 1, 2, 2), 3, 3)):
        one_, zero = (1, 1), (0, 0)
        conv = step("y", "convolution", "x", "w", None, one_, zero, one_, False, zero, groups, quant=Q)
        found = one(graph([coded("x", *IMAGE), coded("w", *weight, quant=ROWS, constant=True)], [conv]))
        kind = "Conv2d" if groups == 1 else "DepthwiseConv2d"
        quant = found.values[node(found, kind).inputs[1]].quant
        assert isinstance(quant, PerChannel) and quant.axis == axis
        assert quant.scales.tolist() == pytest.approx([0.01, 0.02, 0.03])


def test_convolutions_of_single_elements_at_run_time_are_products() -> None:
    weight = coded("w", 4, 3, 1, 1, quant=Quant((0.01,) * 4, 0, -127, axis=0), constant=True)
    one_, zero = (1, 1), (0, 0)
    steps = [step("y", "convolution", "x", "w", None, one_, zero, one_, False, zero, 1, dynamic="per_tensor")]
    assert "FullyConnected" in ops(graph([real("x", *IMAGE), weight], steps))


def test_max_pool_in_ceil_mode_pads_more_at_the_end() -> None:
    found = one(unary("max_pool2d", [2, 2], [2, 2], [0, 0], [1, 1], True, shape=(1, 2, 5, 4)))
    o = node(found, "MaxPooling2d").options
    assert [o[f"padding_{side}"] for side in ("top", "bottom", "left", "right")] == [0, 1, 0, 0]
    assert node(found, "MaxPooling2d").flags == KEEP_DIMS


def test_a_last_window_that_begins_behind_the_image_is_none() -> None:
    """Of 3 numbers and 1 on either side: windows at -1 and 1, and none at 3."""
    found = one(unary("max_pool2d", [2, 2], [2, 2], [1, 1], [1, 1], True, shape=(1, 2, 3, 3)))
    o = node(found, "MaxPooling2d").options
    assert [o[f"padding_{side}"] for side in ("top", "bottom", "left", "right")] == [1, 1, 1, 1]


@pytest.mark.parametrize(("shape", "dim"), [((), -1), ((3,), 0), ((2, 3), 1), ((2, 3), -1)])
def test_softmaxes_over_the_last_dimension(shape: tuple[int, ...], dim: int) -> None:
    assert ops(unary("_softmax", dim, False, shape=shape)) == ["Softmax"]


def test_windows_of_one_element_are_a_product_with_one() -> None:
    found = one(unary("avg_pool2d", [1, 1], [2, 2], shape=IMAGE))
    depthwise = node(found, "DepthwiseConv2d")
    assert data(found, depthwise.inputs[1]).tolist() == [[[[1.0, 1.0, 1.0]]]]
    assert depthwise.options["subsampling_height"] == 2


def test_means_and_resizes() -> None:
    found = one(unary("mean.dim", [-1, -2], True, shape=IMAGE))
    assert node(found, "GlobalAvgPooling2d").flags == KEEP_DIMS
    for corners in (True, False):
        found = one(unary("upsample_bilinear2d.vec", [8, 9], corners, None, shape=IMAGE))
        resize = node(found, "StaticResizeBilinear2D")
        assert dict(resize.options) == {"new_height": 8, "new_width": 9}
        assert resize.flags == (ALIGN_CORNERS if corners else 0)


# ------------------------------------------------------------------------------------------------ layout


def test_paddings_slices_and_permutations_in_both_layouts() -> None:
    """Behind a convolution the value is channels-last: numbers per axis are reordered, and a permute is composed."""
    conv = convolved((3, 3, 1, 1))

    def behind(found: Step) -> XModel:
        return one(graph(conv.values, [*conv.steps, found]))

    pad = node(behind(step("z", "constant_pad_nd", "y", [1, 2, 3, 4], 0.5)), "StaticConstantPad")
    assert pad.options["pre_paddings"] == (0, 3, 1, 0) and pad.options["post_paddings"] == (0, 4, 2, 0)
    cut = node(behind(step("z", "slice_copy.Tensor", "y", 2, -3, 100)), "StaticSlice")
    assert cut.options["offsets"] == (0, 1, 0, 0) and cut.options["sizes"] == (1, 3, 6, 3)
    moved = behind(step("z", "permute_copy", "y", [0, 2, 3, 1]))
    assert moved.nodes[-1].op == "StaticTranspose" and moved.nodes[-1].options["perm"] == (0, 1, 2, 3)
    plain = one(unary("constant_pad_nd", [1, 2, 3, 4], 0.5, shape=IMAGE))
    assert node(plain, "StaticConstantPad").options["pre_paddings"] == (0, 0, 3, 1)


def test_many_operands_are_concatenated_in_turns() -> None:
    values = [real(f"x{i}", 1, i + 1) for i in range(7)]
    found = one(graph(values, [step("y", "cat", tuple(f"x{i}" for i in range(7)), -1)]))
    assert [(each.op, each.options["axis"]) for each in found.nodes] == [("Concatenate5", 1), ("Concatenate3", 1)]
    assert found.values[found.outputs[0]].shape == (1, 28)


# ------------------------------------------------------------------------------------------------ dynamic shapes


def test_open_sizes_are_written_as_bounds_and_computed_from_the_inputs() -> None:
    model = graph([real("x", 4, 3, dynamic=(0,))], [step("y", "abs", "x")])
    found = one(model)
    assert found.values[found.inputs[0]].shape[0] >= 4
    made = to_backend(program(model), XnnpackPartitioner(), details={"XnnpackBackend": XnnpackBackend})
    for rows in (2, 3):
        x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
        (output,) = run_program(made, [x], {"XnnpackBackend": XnnpackRuntime()})
        assert isinstance(output, torch.Tensor) and torch.equal(output, x.abs())


def test_a_view_with_an_open_size_lets_the_device_infer_it() -> None:
    model = graph([real("x", 4, 3, dynamic=(0,))], [step("y", "unsqueeze_copy", "x", -1)])
    assert node(one(model), "StaticReshape").options["new_shape"] == (0, 3, 1)


# ------------------------------------------------------------------------------------------------ as a whole


def test_scalars_and_inputs_that_are_returned() -> None:
    found = one(unary("abs", shape=()))
    assert found.scalars == (0, 1) and found.values[0].shape == (1,)


def test_the_same_program_compiles_to_the_same_bytes() -> None:
    model = convolved((5, 3, 2, 3))
    first, second = (
        to_backend(program(model), XnnpackPartitioner(), details={"XnnpackBackend": XnnpackBackend}) for _ in range(2)
    )
    blobs = [next(iter(made.graph_module.children())).processed_bytes for made in (first, second)]
    assert blobs[0] == blobs[1]


def test_every_config_has_a_lowering() -> None:
    without = {config.target for config in ALL_CONFIGS} - set(LOWERED)
    assert all("quantize" in name or "choose_qparams" in name for name in without)
    assert set(PRESERVE) <= set(LOWERED)


def test_the_device_computes_what_torch_computes() -> None:
    """The tests above look at what is written; this one, on the least symmetric of them, at what comes of it."""
    model = convolved((4, 3, 2, 2), (2, 1), (0, 0), (1, 1), (1, 0), shape=(1, 4, 3, 3), groups=2, transposed=True)
    inputs = list(model_inputs(model))
    made = to_backend(program(model), XnnpackPartitioner(), details={"XnnpackBackend": XnnpackBackend})
    (output,) = run_program(made, inputs, {"XnnpackBackend": XnnpackRuntime()})
    (expected,) = run_program(program(model), inputs)
    assert isinstance(output, torch.Tensor) and isinstance(expected, torch.Tensor)
    assert torch.allclose(output, expected, atol=1e-4)
