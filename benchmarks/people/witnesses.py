"""A program for each fault on which its backend breaks the contract and the right one keeps it, by the fault"s name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step, Value

Q, OTHER, WIDE = Quant(0.05, 3), Quant(0.1, -7), Quant(0.4, 10)
SYMMETRIC, UNIT, LAST = Quant(0.01, 0, -127), Quant(1 / 256, -128), Quant(1 / 128, 0)
CONV, ADD, POOL = "aten.convolution.default", "aten.add.Tensor", "aten.max_pool2d.default"
X, Y, W, B = Ref("x"), Ref("y"), Ref("w"), Ref("b")
S = "subject"


def _value(name: str, shape: Sequence[int], quant: Quant | None = Q, constant: bool = False, **rest: Any) -> Value:
    fill = rest.pop("fill", Fill(seed=1 + sum(map(ord, name)) + len(shape)))
    return Value(name, tuple(shape), quant, fill, constant, **rest)


def _x(*shape: int, quant: Quant | None = Q, **rest: Any) -> Value:
    return _value("x", shape, quant, **rest)


def _y(*shape: int, quant: Quant | None = Q, **rest: Any) -> Value:
    return _value("y", shape, quant, **rest)


def _w(*shape: int, quant: Quant | None = SYMMETRIC) -> Value:
    return _value("w", shape, quant, constant=True)


def _b(size: int, quant: Quant | None) -> Value:
    return _value("b", (size,), quant, constant=True)


def _int32(scale: float | tuple[float, ...]) -> Quant:
    return Quant(scale, 0, -2000, 2000, 0 if isinstance(scale, tuple) else None, "int32")


def _graph(values: Sequence[Value], *steps: Step, outputs: Sequence[str] = (S,)) -> Graph:
    return Graph(tuple(values), steps, tuple(map(Ref, outputs)))


def _one(values: Sequence[Value], op: str, *args: Any, quant: Quant | None = Q, **kwargs: Any) -> Graph:
    return _graph(values, Step(S, op, args, tuple(kwargs.items()), quant))


def _conv(weight: Any, bias: Any = None, x: Ref = X, **given: Any) -> tuple[Any, ...]:
    """The arguments of a convolution in two dimensions."""
    stride, padding, groups = given.get("stride", (1, 1)), given.get("padding", (0, 0)), given.get("groups", 1)
    return (x, weight, bias, stride, padding, (1, 1), given.get("transposed", False), (0, 0), groups)


def _floats(graph: Graph) -> Graph:
    """The program in real numbers."""
    values = tuple(replace(value, quant=None) for value in graph.values)
    return replace(graph, values=values, steps=tuple(replace(step, quant=None) for step in graph.steps))


def tagged(graph: Graph, reason: str | None = None, precision: str | None = None) -> Case:
    """A case whose subject the table promises, or refuses for a reason."""
    row = next(step.op for step in graph.steps if step.name == S)
    expect, side = ("accept", "accept") if reason is None else ("reject", "outside")
    return Case(f"{row}/people", row, reason or "operator", side, expect, reason, graph, S, precision)


def run(graph: Graph) -> Case:
    """A case about which the table need not say anything: its numbers count, and that it runs."""
    return Case("fuzz/0/000000", graph.steps[-1].op, "fuzz", "random", "unspecified", None, graph, "")


AFFINE = tuple(_value(name, (3,), None, constant=True) for name in ("g", "h", "m"))
NORM = "aten._native_batch_norm_legit_no_training.default"
VARIANCE = _value("v", (3,), None, constant=True, fill=Fill("list", values=(0.5, 1.0, 2.0)))
NORMED = Step("norm", NORM, (Ref("conv"), Ref("g"), Ref("h"), Ref("m"), Ref("v"), 0.1, 1e-5), outputs=3)
RELU, LEAKY, SOFTMAX = "aten.relu.default", "aten.leaky_relu.default", "aten._softmax.default"
CHANNELS = Quant((0.001, 0.002, 0.004, 0.008), 0, -127, 127, 0)

WITNESSES: Mapping[str, Case] = {
    "cat_first_operand": tagged(
        _one([_x(1, 4), _y(1, 4, quant=OTHER)], "aten.cat.default", (X, Y), 1), "same_qparams", "static_int8"
    ),
    "mean_dims_as_written": tagged(_floats(_one([_x(1, 3, 4, 5)], "aten.mean.dim", X, (2, 3), True)), precision="fp32"),
    "pool_stride_of_height": tagged(
        _floats(_one([_x(1, 3, 6, 9)], POOL, X, (2, 2), (1, 3))), "stride_within_kernel", "fp32"
    ),
    "counted_without_padding": tagged(
        _floats(_one([_x(1, 3, 6, 6)], "aten.avg_pool2d.default", X, (2, 2), (2, 2))), precision="fp32"
    ),
    "ceil_without_dilation": run(_floats(_one([_x(1, 3, 8, 8)], POOL, X, (3, 3), (2, 2), (0, 0), (2, 2), True))),
    "norm_folded_for_all": run(
        _graph(
            [_x(1, 2, 4, 4, quant=None), _w(3, 2, 3, 3, quant=None), *AFFINE, VARIANCE],
            Step("conv", CONV, _conv(W)),
            NORMED,
            Step(S, RELU, (Ref("norm"),)),
            outputs=("conv", S),
        )
    ),
    "relu_fused_for_all": run(
        _floats(
            _graph([_x(2, 8), _y(2, 8)], Step("sum", ADD, (X, Y)), Step(S, RELU, (Ref("sum"),)), outputs=("sum", S))
        )
    ),
    "slice_start_clipped": run(_floats(_one([_x(2, 8)], "aten.slice_copy.Tensor", X, 1, -3, 8))),
    "padding_on_the_other_end": run(
        _graph(
            [_x(1, 4, 6), _w(6, 4, 2)],
            Step("pad", "aten.constant_pad_nd.default", (X, (0, 1), 0.0)),
            Step(S, CONV, (Ref("pad"), W, None, (1,), (0,), (1,), False, (0,), 1), quant=Q),
        )
    ),
    "pool_kernels_shared": run(
        _floats(
            _graph(
                [_x(1, 2, 6, 6)],
                Step("a", "aten.avg_pool2d.default", (X, (3, 3), (1, 1))),
                Step(S, "aten.avg_pool2d.default", (Ref("a"), (3, 3), (1, 1), (1, 1), False, False)),
            )
        )
    ),
    "leaky_as_maximum": run(_floats(_one([_x(2, 8)], LEAKY, X, 1.5))),
    "softmax_of_matrices": run(_floats(_one([_x(2, 3, 4)], SOFTMAX, X, -1, False))),
    "zero_points_not_compared": tagged(
        _graph(
            [_x(1, 8, 4, 4), _y(1, 8, 4, 4)],
            Step("sum", ADD, (X, Y), quant=Q),
            Step(S, "aten.view_copy.default", (Ref("sum"), (8, 16)), quant=Quant(0.05, -9)),
        ),
        "same_qparams",
    ),
    "padded_channels_first": tagged(
        _one([_x(1, 8, 4, 8)], "aten.constant_pad_nd.default", X, (1, 1), 0.0), "channel_and_batch_padding"
    ),
    "softmax_dim_as_written": tagged(_one([_x(2, 16)], SOFTMAX, X, -1, False, quant=UNIT)),
    "bias_scale_of_first_channel": run(
        _one(
            [_x(1, 8, 5, 5), _w(4, 8, 3, 3, quant=CHANNELS), _b(4, _int32((5e-05, 0.0001, 0.0003, 0.0004)))],
            CONV,
            *_conv(W, B),
        )
    ),
    "zero_bias_shared": run(
        _graph(
            [_x(1, 8, 6, 6), _w(8, 8, 3, 3)],
            Step("a", CONV, _conv(W), quant=WIDE),
            Step(S, CONV, _conv(W, x=Ref("a")), quant=WIDE),
        )
    ),
    "cat_axis_of_torch": run(
        _graph(
            [_x(1, 8, 6, 6), _w(8, 8, 1, 1)],
            Step("a", CONV, _conv(W), quant=Q),
            Step("b", CONV, _conv(W, x=Ref("a")), quant=Q),
            Step(S, "aten.cat.default", ((Ref("a"), Ref("b")), 1), quant=Q),
        )
    ),
    "pad_without_zero_point": run(_one([_x(1, 8, 4, 8)], "aten.constant_pad_nd.default", X, (0, 0, 1, 1), 1.5)),
    "transposed_scales_along_inputs": run(
        _one(
            [_x(1, 8, 1, 6), _w(8, 8, 1, 2, quant=replace(CHANNELS, scale=CHANNELS.scale * 2, axis=1))],
            CONV,
            *_conv(W, stride=(1, 2), transposed=True),
        )
    ),
    "flattened_weights_not_permuted": run(
        _graph(
            [_x(1, 8, 4, 4), _w(8, 8, 3, 3), _value("m", (32, 8), SYMMETRIC, constant=True)],
            Step("conv", CONV, _conv(W), quant=Q),
            Step("flat", "aten.view_copy.default", (Ref("conv"), (1, 32)), quant=Q),
            Step(S, "aten.mm.default", (Ref("flat"), Ref("m")), quant=Q),
        )
    ),
    "softmax_first_row": run(_one([_x(3, 16)], SOFTMAX, X, 1, False, quant=UNIT)),
    "saturated_before_zero_point": run(_one([_x(1, 8, 8), _y(1, 8, 8)], ADD, X, Y, quant=Quant(0.05, 60))),
    "leaky_table_of_reals": run(_one([_x(8, 32, fill=Fill("all_codes"))], LEAKY, X, 0.5)),
    "first_operand_whole": tagged(_one([_x(1, 8), _y(4, 8)], ADD, X, Y)),
    "extreme_of_first_parameters": tagged(
        _one([_x(2, 8), _y(2, 8, quant=OTHER)], "aten.maximum.default", X, Y), "same_qparams"
    ),
    "resize_by_height": tagged(_one([_x(1, 8, 4, 4)], "aten.upsample_nearest2d.vec", X, (8, 12), None), "axis_scale"),
    "cat_counts_operands": tagged(_one([_x(1, 8)], "aten.cat.default", (X, X), 1), "min_inputs"),
    "difference_sorted": run(_one([_x(1, 8), _y(4, 8)], "aten.sub.Tensor", X, Y)),
    "no_dims_are_none": run(_one([_x(2, 8)], "aten.sum.dim_IntList", X, None, False, quant=WIDE)),
    "reduced_in_device_order": run(
        _graph(
            [_x(1, 8, 6, 8), _w(8, 8, 1, 1)],
            Step("conv", CONV, _conv(W), quant=Q),
            Step(S, "aten.amax.default", (Ref("conv"), (2,), False), quant=Q),
        )
    ),
    "slopes_along_last_axis": run(_one([_x(2, 8, 8), _w(8)], "aten.prelu.default", X, W)),
    "sums_of_16_bits": run(
        _one([_x(4, 512, fill=Fill("max"))], "aten.sum.dim_IntList", X, (1,), False, quant=Quant(20.0, 0))
    ),
    "maximum_in_place": run(
        _graph(
            [_x(2, 8), _y(2, 8)],
            Step("a", "aten.abs.default", (X,), quant=Q),
            Step("b", "aten.maximum.default", (Ref("a"), Y), quant=Q),
            Step(S, ADD, (Ref("a"), Ref("b")), quant=OTHER),
        )
    ),
    "products_of_16_bits": run(
        _one([_x(8, 8, quant=Quant(0.05, 100)), _y(8, 8, quant=Quant(0.05, 100))], "aten.mul.Tensor", X, Y, quant=WIDE)
    ),
    "mean_over_images": run(_one([_x(2, 8, 3, 5)], "aten.mean.dim", X, (1,), True)),
}
"""Those of the first three backends; `ETHOSU` has the others."""

RESIZED, INDEXED = "aten.upsample_bilinear2d.vec", "aten.index.Tensor"
SIGMOID, TANH, SPLIT = "aten.sigmoid.default", "aten.tanh.default", "aten.split_with_sizes_copy.default"
INDEX = _value("i", (2,), None, dtype="int32", fill=Fill("list", values=(1.0, 0.0)))
FEWER = _value("i", (2, 3, 2), None, dtype="int32", fill=Fill("list", values=(1.0, 0.0, 2.0)))
GATHERED = _value("i", (2, 3), None, dtype="int32", fill=Fill("list", values=(1.0, 0.0, 2.0)))

ETHOSU: Mapping[str, Case] = {
    "padding_of_height": tagged(
        _one([_x(1, 3, 8, 8), _w(4, 3, 3, 3)], CONV, *_conv(W, stride=(1, 4), padding=(0, 1))), "stride_or_whole"
    ),
    "channels_as_batch": tagged(_one([_x(3, 6, 8)], "aten.avg_pool2d.default", X, (2, 2), (2, 2))),
    "reduced_dims_as_written": tagged(_one([_x(1, 300, 300)], "aten.mean.dim", X, (-1,), True)),
    "upper_limit_not_looked_at": tagged(
        _graph(
            [_x(1, 3, 6, 6), _w(4, 3, 3, 3)],
            Step(S, CONV, _conv(W)),
            Step("a", "aten.hardtanh.default", (Ref(S), 0.0, 3.0), quant=Quant(0.05, -128)),
            outputs=("a",),
        ),
        "quantized_outputs",
    ),
    "limits_in_operand_codes": run(_one([_x(4, 8)], "aten.hardtanh.default", X, -1.0, 2.0, quant=OTHER)),
    "joined_without_rescale": run(_one([_x(2, 4), _y(2, 4, quant=OTHER)], "aten.cat.default", (X, Y), 1)),
    "negative_index_kept": run(_one([_x(2, 4, 5)], "aten.select_copy.int", X, 1, -1)),
    "scales_of_first_group": run(_one([_x(1, 4, 5, 5), _w(4, 2, 3, 3, quant=CHANNELS)], CONV, *_conv(W, groups=2))),
    "codes_spread_over_range": run(_one([_x(4, 8, quant=Quant(0.05, 3, -127))], SIGMOID, X, quant=UNIT)),
    "first_image_only": run(_one([_x(2, 4, 5, 5), _w(4, 1, 3, 3)], CONV, *_conv(W, groups=4))),
    "sums_of_16_bits": run(_one([_x(2, 512, fill=Fill("max"))], "aten.mean.dim", X, (1,), True)),
    "transposed_backwards": run(_one([_x(2, 3, 4, 2, 3)], "aten.permute_copy.default", X, (2, 0, 4, 1, 3))),
    "gather_dim_as_written": tagged(_one([_x(2, 4), GATHERED], "aten.gather.default", X, -1, Ref("i"))),
    "channels_before_folding": run(
        _one(
            [_x(1, 4, 5, 5), _w(4, 2, 3, 3, quant=Quant((0.001, 0.002), 0, -127, 127, 1))],
            CONV,
            *_conv(W, groups=2, transposed=True),
        )
    ),
    "gathered_batches_only": run(_one([_x(2, 4, 5), FEWER], "aten.gather.default", X, 1, Ref("i"))),
    "gap_between_indices": run(_one([_x(3, 4, 5), INDEX], INDEXED, X, (Ref("i"), None, Ref("i")))),
    "one_factor_for_both": run(_one([_x(1, 3, 4, 4)], RESIZED, X, (8, 16), False, None)),
    "step_of_first_operand": run(_one([_x(2, 8, quant=Quant(0.001, 3)), _y(2, 8, quant=WIDE)], ADD, X, Y, quant=WIDE)),
    "equal_parts": run(
        _graph(
            [_x(2, 8)],
            Step("split", SPLIT, (X, (3, 1, 4), 1), (), Q, 3),
            Step(S, "aten.abs.default", (Ref("split", 2),), quant=Q),
        )
    ),
    "extreme_in_first_scale": run(_one([_x(2, 8, quant=OTHER), _y(2, 8)], "aten.maximum.default", X, Y, quant=OTHER)),
    "first_matrix_for_all": run(_one([_x(2, 3, 4), _y(2, 4, 5)], "aten.bmm.default", X, Y)),
    "maximum_from_zero": run(
        _one(
            [_x(4, 8, quant=Quant(0.05, 90), fill=Fill("min"))],
            "aten.amax.default",
            X,
            (1,),
            True,
            quant=Quant(0.05, 90),
        )
    ),
    "padded_with_zero": run(
        _one(
            [_x(1, 3, 6, 6, quant=Quant(0.05, 90), fill=Fill("min"))],
            POOL,
            X,
            (3, 3),
            (2, 2),
            (1, 1),
            quant=Quant(0.05, 90),
        )
    ),
    "tables_kept_by_shape": run(
        _graph([_x(4, 8)], Step("a", SIGMOID, (X,), quant=UNIT), Step(S, TANH, (Ref("a"),), quant=LAST))
    ),
}


def witness(name: str, backend: str) -> Case:
    """The program that shows a fault."""
    return (ETHOSU if backend.startswith("ethos") else WITNESSES)[name]
