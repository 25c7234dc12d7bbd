"""The list of XNNPACK's faults, made from its rules, from the schema of its blobs, and from schemes and kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from npu_assay.faults import Fault, Made, Patch, blobs, kernels, partitioning_with, rules, together, with_device
from npu_assay.faults.listing import listed
from npu_assay.partitioners.common.int8.output import Bounds, bounds
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.reachability import union
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, backend, partitioner, xnn_format, xnn_schema
from npu_assay.partitioners.xnnpack.configs import ALL_CONFIGS
from npu_assay.partitioners.xnnpack.device import elementwise
from npu_assay.partitioners.xnnpack.device.operators import RULES
from npu_assay.partitioners.xnnpack.kernels import dynamic
from npu_assay.partitioners.xnnpack.kernels import elementwise as sums
from npu_assay.partitioners.xnnpack.kernels import linear as products
from npu_assay.partitioners.xnnpack.runtime import Program
from npu_assay.partitioners.xnnpack.site import Rule
from npu_assay.partitioners.xnnpack.xnn_model import XModel, XNode, XValue
from npu_assay.reference.affine import Affine

# ------------------------------------------------------------------------------------ rules

# Of the rules of every operator, those whose limits no other rule sees as well.
COMMON = ("dtype", "nonempty", "max_rank")
# What is delegated beyond the support table, which promises nothing of it.
BEYOND = frozenset(
    {
        "aten._native_batch_norm_legit_no_training.default",
        "aten.addmm.default",
        "aten.clone.default",
        "aten.cos.default",
        "aten.max.dim",
        "aten.mm.default",
        "aten.prelu.default",
        "aten.sin.default",
        "aten.unsqueeze_copy.default",
        "aten.view_copy.default",
        "dim_order_ops._clone_dim_order.default",
    }
)
# Rules against programs that no quantizer and no export of a documented operator makes.
INTERNAL = frozenset(
    {
        "accumulators",
        "beta",
        "bias_shape",
        "float32_number",
        "first_result",
        "group_codes",
        "memory_format",
        "output_padding",
        "run_time_qparams",
        "tensor_operands",
        "weight_dtype",
        "weight_scales",
    }
)
# Pairs of a code and an operator that another rule of the operator implies.
IMPLIED = frozenset(
    {
        ("max_rank", "aten.avg_pool2d.default"),
        ("max_rank", "aten.bmm.default"),
        ("max_rank", "aten.convolution.default"),
        ("max_rank", "aten.max_pool2d.default"),
        ("max_rank", "aten.mean.dim"),
        ("max_rank", "aten.upsample_bilinear2d.vec"),
        ("rank", "aten.convolution.default"),
        ("rank", "aten.linear.default"),
    }
)
ROWS = {"aten.convolution.default": "aten.conv"}
JUDGES = ((partitioner, "private_rejections"), (XnnpackPartitioner, "_own_rejections"))
OPTIONS = {"configs": "configs", "config_precisions": "precision", "per_op_mode": "operator"}
"""The partitioner's options, and the constraint whose cases give them."""


def _asked() -> Iterator[tuple[str, list[Rule]]]:
    """The rules of the operators in the support table, and those of every operator that it has."""
    for config in ALL_CONFIGS:
        found = (*(rule for rule in config.common if rule.code in COMMON), *config.rules)
        if config.target not in BEYOND:
            known = [rule for rule in found if rule.code not in INTERNAL and (rule.code, config.target) not in IMPLIED]
            yield config.target, known


def _ignoring(right: Backend, option: str) -> Backend:
    """A backend whose partitioner ignores an option."""

    def make(**options: Any) -> Any:
        return right.partitioner(**{name: value for name, value in options.items() if name != option})

    return replace(right, partitioner=make)


def _greedy() -> Any:
    """Puts everything into one delegate, even what waits for operators outside."""
    right = XnnpackPartitioner._partitions

    def partitions(self: XnnpackPartitioner, reach: Any, accepted: Any) -> Any:
        found, refused = right(self, reach, accepted)
        return ({0: union(found.values())} if found else {}), refused

    return patch.object(XnnpackPartitioner, "_partitions", partitions)


def _rules() -> Iterator[Made]:
    known = dict(_asked())
    codes = {target: [rule.code for rule in found] for target, found in known.items()}
    for option, constraint in OPTIONS.items():
        cases = (f"aten.abs.default/fp32/{constraint}/",)
        yield "wrong_default", f"{option}_ignored", cases, partial(_ignoring, option=option)
    for config in ALL_CONFIGS:
        if config.target not in BEYOND and config.has_codes() and len(config.precisions) > 1:
            fewer = partial(patch.object, config, "precisions", config.precisions[:-1])
            cases = (f"{ROWS.get(config.target, config.target)}*/operator/",)
            yield "tightened", f"fewer_precisions_of_{config.target}", cases, partial(partitioning_with, patched=fewer)
    yield rules.unstable("aten.abs.default/fp32/operator/", *JUDGES)
    yield (
        "grouping",
        "cycles_closed",
        ("aten.add.Tensor/static_int8/add_scale_ratio/",),
        partial(partitioning_with, patched=_greedy),
    )
    yield from rules.dropped(codes, ROWS, *JUDGES)
    yield from rules.misnamed(codes, *JUDGES)
    yield from rules.of_numbers(known, ROWS)
    yield from rules.of_arguments(known, ROWS, ("wrong_axis_of_pad",))
    yield from rules.of_sizes(("depthwise", "group_size", "exact_scale"))


# ------------------------------------------------------------------------------------ blobs

BEGINNINGS = {
    "AvgPooling2d": "avg_pool2d",
    "BatchMatrixMultiply": "bmm",
    "Ceiling": "ceil",
    "Clamp": "hardtanh",
    "Concatenate2": "cat",
    "Concatenate3": "cat",
    "DepthwiseConv2d": "conv2d",
    "FullyConnected": "linear",
    "GlobalAvgPooling2d": "mean",
    "LeakyReLU": "leaky_relu",
    "MaxPooling2d": "max_pool2d",
    "Multiply": "mul",
    "Negate": "neg",
    "ReciprocalSquareRoot": "rsqrt",
    "Softmax": "_softmax",
    "Square": "pow",
    "SquareRoot": "sqrt",
    "StaticConstantPad": "constant_pad",
    "StaticResizeBilinear2D": "upsample",
    "StaticSlice": "slice",
    "StaticTranspose": "permute",
    "Subtract": "sub",
}
# Fields of operators that no program of the table has.
UNREAD = ("adjustment_height", "adjustment_width", "new_shape")
PRODUCTS = ("FullyConnected", "Conv2d", "DepthwiseConv2d")


def _fields(code: str) -> blobs.Fields:
    found = xnn_schema.OPERATORS[code]
    return {name: (found.table.fields[name][1], 0) for name in found.options}


def _form() -> blobs.Format:
    begun = {code: BEGINNINGS.get(code, code.lower()) for code in xnn_schema.OPERATORS}
    targets = ["aten.conv2d.default", *(each.target for each in ALL_CONFIGS if each.target not in BEYOND)]
    rows = {code: row for code, row in begun.items() if any(each.startswith(f"aten.{row}") for each in targets)}
    special = {"nibbles_swapped": "linear.default/dynamic_int4", "nibbles_signed": "linear.default/dynamic_int4"}
    schema = {code: _fields(code) for code in xnn_schema.OPERATORS}
    return blobs.Format(
        xnn_format.read, xnn_format.write, "nodes", "op", "options", {"values": "data"}, schema, rows | special
    )


def _quantized(field: str, change: Callable[[Any], Any]) -> Callable[[XModel], XModel]:
    """Changes a field of the quantization of every value that has it."""

    def apply(value: XValue) -> XValue:
        if not hasattr(value.quant, field):
            return value
        quant: Any = value.quant
        return replace(value, quant=replace(quant, **{field: change(getattr(quant, field))}))

    return lambda model: replace(model, values=tuple(map(apply, model.values)))


def _unlimited(node: XNode) -> XNode:
    return replace(node, limits=None)


def _upper_lost(node: XNode) -> XNode:
    return node if node.limits is None else replace(node, limits=(node.limits[0], float("inf")))


def _transposed(scales: Any) -> Any:
    return np.ascontiguousarray(scales.T if scales.ndim == 2 else scales[::-1]).reshape(scales.shape)


def _blobs(form: blobs.Format) -> Iterator[Made]:
    yield from blobs.of_fields(form, UNREAD)
    yield from blobs.of_operators(form, "operator", "Abs Negate", "Maximum Minimum", "Sigmoid Tanh")
    yield from blobs.of_operands(form, "Subtract Div Concatenate2")
    yield from blobs.of_constants(
        form,
        ("bias", "bias", " ".join(PRODUCTS), 2, "dropped reversed"),
        ("layout", "weights", " ".join(PRODUCTS), 1, "reversed"),
        ("precision", "weights", "FullyConnected", 1, "in_float16"),
        ("layout", "nibbles", "FullyConnected", 1, "swapped"),
        ("zero_point", "nibbles", "FullyConnected", 1, "signed"),
    )
    per_channel, per_group = "linear.default/static_int8_per_channel", "linear.default/dynamic_int4"
    for kind, name, row, change in (
        ("per_channel", "scales_reversed", per_channel, _quantized("scales", _transposed)),
        ("layout", "groups_transposed", per_group, _quantized("scales", _transposed)),
        ("fused_activation", "clamp_lost", "add.Tensor/static_int8", form.each(_unlimited, {*form.schema} - {"Clamp"})),
        ("fused_activation", "upper_limit_lost", "hardtanh", form.each(_upper_lost, ["Clamp"])),
        ("attribute", "flags_lost", "upsample", form.each(partial(replace, flags=0), ["StaticResizeBilinear2D"])),
    ):
        yield kind, name, (f"aten.{row}*/operator/",), form.rewriting(change)
    yield blobs.unstable("aten.abs.default/fp16/operator/", lambda blob, n: n.to_bytes(4, "little") + blob[4:])


# ------------------------------------------------------------------------------------ kernels


def _ending(finish: kernels.Finish) -> Patch:
    """Kernels of products and sums on codes that end in another rescale."""

    def stage(multiplier: Tensor, y: Affine, activation: Bounds | None = None) -> Kernel:
        low, high = bounds(y, activation)

        def apply(acc: Tensor) -> Tensor:
            right = (acc.float() * multiplier).round()
            found = finish(kernels.Rescale(acc, multiplier, right, y.zero_point, low, high))
            return found.float() - y.zero_point

        return apply

    return lambda: together(*(patch.object(module, "fp32_stage", stage) for module in (sums, products)))


def _rows(field: str, change: Callable[[Tensor], Tensor]) -> Callable[[Backend], Backend]:
    """A device that quantizes rows at run time with other parameters."""
    right = dynamic.quantize_rows

    def quantize(reals: Tensor) -> dynamic.Rows:
        rows = right(reals)
        return replace(rows, **{field: change(getattr(rows, field))})

    return partial(with_device, patched=lambda: patch.object(dynamic, "quantize_rows", quantize))


def _unlimited_softmax(x: Tensor) -> Tensor:
    powers = torch.exp(x)
    return powers / powers.sum(-1, keepdim=True)


def _at_bounds(program: Program, outputs: list[Tensor]) -> list[Tensor]:
    """Outputs of the sizes that the blob was compiled for, whatever the inputs' are."""
    made = []
    for port, output in zip(program.outputs, outputs, strict=True):
        shape = [port.bounds[axis] for axis in (0, 3, 1, 2)] if port.channels_last else list(port.bounds)
        whole = output.new_zeros([] if port.is_scalar else shape)
        whole[tuple(slice(size) for size in output.shape)] = output
        made.append(whole)
    return made


SCHEMES = {"": tuple(f"aten.{row}/static_int8/operator/" for row in ("linear.default", "mul.Tensor", "add.Tensor"))} | {
    "per_channel": ("aten.linear.default/static_int8_per_channel/operator/",),
    "fused_activation": ("aten.linear.default/static_int8/",),
}
CHANGES: dict[str, Any] = {
    "mirrored": RULES,
    "one_more_bit": ("Add", "Div", "Multiply"),
    "constant": ("Sigmoid",),
    "overwriting": ("Abs",),
    "positive": ("MaxPooling2d",),
    "farther": ("Tanh", "Sigmoid"),
    "in_bfloat16": ("FullyConnected", "GlobalAvgPooling2d", "ReciprocalSquareRoot"),
    "last_left_out": ("GlobalAvgPooling2d",),
    "operands_exchanged": ("Div",),
}


def _kernels(form: blobs.Format) -> Iterator[Made]:
    yield from kernels.of_schemes(_ending, SCHEMES, "half_even")
    yield from kernels.of_kernels(RULES, form.rows, CHANGES)
    yield from kernels.of_functions(elementwise.UNARY, form.rows, "Ceiling Floor", "Gelu Hardswish Tanh")
    row = ("aten.linear.default/dynamic_int8/operator/",)
    yield "per_channel", "rows_exchanged", row, _rows("scales", lambda scales: scales.flip(0))
    yield "zero_point", "points_one_more", row, _rows("zero_points", lambda points: points + 1)
    softmax = partial(patch.dict, elementwise.UNARY, {"Softmax": _unlimited_softmax})
    yield "overflow", "plain_softmax", ("aten._softmax.default/fp32/operator/",), partial(with_device, patched=softmax)
    grown = partial(with_device, patched=together, after=_at_bounds)
    yield "shape", "sizes_of_the_bounds", ("aten.abs.default/fp32/operator/",), grown


def catalogue(right: Backend) -> tuple[Fault, ...]:
    """All faults of XNNPACK."""
    return _catalogue()


@cache
def _catalogue() -> tuple[Fault, ...]:
    form = _form()
    return (
        *listed("partitioner", backend, _rules()),
        *listed("compiler", backend, _blobs(form)),
        *listed("device", backend, _kernels(form)),
    )
