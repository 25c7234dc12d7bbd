"""Broken copies of the XNNPACK backend, each with one fault that a vendor could ship.

`assay mutate xnnpack` tries them all; `assay certify npu_assay.faults.xnnpack:half_up` certifies one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from npu_assay.faults import Fault, Patch, blobs, kernels, partitioning_with, rules, together, with_device
from npu_assay.faults.listing import Listing, Made, named, rows
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
from npu_assay.partitioners.xnnpack.xnn_model import XModel, XValue
from npu_assay.reference.affine import Affine

KINDS = {
    "delegation": "fewer_precisions_of_* per_op_mode_ignored",
    "attribute": "wrong_alpha wrong_negative_slope wrong_padding_value",
    "refused": "limits_of_clamps_lost",
    "precision": "nibbles_* groups_transposed flags_lost",
}
LEFT_OUT = {
    "another rule of the operator implies it": (
        "max_rank_of_aten.avg_pool2d.default max_rank_of_aten.bmm.default max_rank_of_aten.convolution.default"
        " max_rank_of_aten.max_pool2d.default max_rank_of_aten.mean.dim max_rank_of_aten.upsample_bilinear2d.vec"
        " rank_of_aten.linear.default"
    ),
    "equal to the right backend: the rules that read it say the same": (
        "wrong_axis_of_pad open_sizes_of_turned_sizes weight_axis_of_turned_sizes static_*_of_turned_sizes"
    ),
    "equal to the right backend: no row of the table becomes an operator that has other values in the field": (
        "adjustment_height_exchanged wrong_adjustment_*"
    ),
    "equal to the right backend: its sums are rounded to even": "half_even",
}
"""By reason, the derived faults that are in no list."""

# ------------------------------------------------------------------------------------ rules

# What is delegated beyond the support table, which promises nothing of it.
BEYOND = (
    "aten._native_batch_norm_legit_no_training.default aten.addmm.default aten.clone.default aten.cos.default"
    " aten.max.dim aten.mm.default aten.prelu.default aten.sin.default aten.unsqueeze_copy.default"
    " aten.view_copy.default dim_order_ops._clone_dim_order.default"
)
# Rules against programs that no quantizer and no export of a documented operator makes.
INTERNAL = (
    "accumulators beta bias_shape float32_number first_result group_codes memory_format output_padding"
    " run_time_qparams tensor_operands weight_dtype weight_scales"
)
CONFIGS = [config for config in ALL_CONFIGS if config.target not in BEYOND.split()]
# Of the rules of every operator, those whose limits no other rule sees as well.
COMMON = ("dtype", "nonempty", "max_rank")
ROWS = {"aten.convolution.default": "aten.conv"}
JUDGES = ((partitioner, "private_rejections"), (XnnpackPartitioner, "_own_rejections"))
OPTIONS = {"configs": "configs", "config_precisions": "precision", "per_op_mode": "operator"}
"""The partitioner's options, and the constraint whose cases give them."""


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


def _options() -> Iterator[Made]:
    """Options of the partitioner are ignored, and precisions of operators forgotten."""
    for option, constraint in OPTIONS.items():
        cases = (f"aten.abs.default/fp32/{constraint}/",)
        yield "wrong_default", f"{option}_ignored", cases, partial(_ignoring, option=option)
    for config in CONFIGS:
        if config.has_codes() and len(config.precisions) > 1:
            fewer = partial(patch.object, config, "precisions", config.precisions[:-1])
            cases = (f"{ROWS.get(config.target, config.target)}*/operator/",)
            yield "tightened", f"fewer_precisions_of_{config.target}", cases, partial(partitioning_with, patched=fewer)


def _rules() -> Iterator[Made]:
    every = {
        config.target: [*(rule for rule in config.common if rule.code in COMMON), *config.rules] for config in CONFIGS
    }
    known = {target: [rule for rule in found if rule.code not in INTERNAL.split()] for target, found in every.items()}
    codes = {target: [rule.code for rule in found] for target, found in known.items()}
    cases = ("aten.add.Tensor/static_int8/add_scale_ratio/",)
    yield from _options()
    yield rules.unstable("aten.abs.default/fp32/operator/", *JUDGES)
    yield "grouping", "cycles_closed", cases, partial(partitioning_with, patched=_greedy)
    yield from rules.dropped(codes, ROWS, *JUDGES)
    yield from rules.misnamed(codes, *JUDGES)
    yield from rules.of_numbers(known, ROWS)
    yield from rules.of_arguments(known, ROWS)
    yield from rules.of_sizes(known, ROWS)


# ------------------------------------------------------------------------------------ blobs

SPECIAL = {
    **dict.fromkeys(("bias_dropped", "bias_reversed", "weights_reversed"), "linear.default/static_int8"),
    "nibbles_swapped": "linear.default/dynamic_int4",
    "nibbles_signed": "linear.default/dynamic_int4",
}
"""By name of a change, the rows that show it."""
PRODUCTS = "FullyConnected Conv2d DepthwiseConv2d"


FIELDS = {code: tuple(one.options) for code, one in xnn_schema.OPERATORS.items()}
BEGUN = rows(FIELDS, ["aten.conv2d.default", *(config.target for config in CONFIGS)]) | SPECIAL
FORM = blobs.Format(xnn_format.read, xnn_format.write, "nodes", "op", "options", {"values": "data"}, FIELDS, BEGUN)


def _turned(value: XValue) -> XValue:
    """Scales of channels or groups in another order."""
    scales = getattr(value.quant, "scales", None)
    if scales is None:
        return value
    turned = np.ascontiguousarray(scales.T if scales.ndim == 2 else scales[::-1]).reshape(scales.shape)
    quant: Any = value.quant
    return replace(value, quant=replace(quant, scales=turned))


def _of_values(model: XModel) -> XModel:
    return replace(model, values=tuple(map(_turned, model.values)))


def _blobs() -> Iterator[Made]:
    yield from blobs.of_fields(FORM)
    yield from blobs.of_operators(FORM, "Abs Negate", "Maximum Minimum", "Sigmoid Tanh")
    yield from blobs.of_operands(FORM, "Subtract Div Concatenate2")
    yield from blobs.of_constants(
        FORM,
        ("bias", "bias", PRODUCTS, 2, "dropped reversed"),
        ("layout", "weights", PRODUCTS, 1, "reversed"),
        ("precision", "weights", "FullyConnected", 1, "in_float16"),
        ("layout", "nibbles", "FullyConnected", 1, "swapped"),
        ("zero_point", "nibbles", "FullyConnected", 1, "signed"),
    )
    for kind, name, row, change in (
        ("per_channel", "scales_reversed", "linear.default/static_int8_per_channel", _of_values),
        ("layout", "groups_transposed", "linear.default/dynamic_int4", _of_values),
        ("fused_activation", "limits_lost", "add.Tensor/static_int8", FORM.each(partial(replace, limits=None), FIELDS)),
        ("fused_activation", "limits_of_clamps_lost", "hardtanh", FORM.each(partial(replace, limits=None), ["Clamp"])),
        ("attribute", "flags_lost", "upsample", FORM.each(partial(replace, flags=0), ["StaticResizeBilinear2D"])),
    ):
        yield kind, name, (f"aten.{row}*/operator/",), FORM.rewriting(change)
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
        found = right(reals)
        return replace(found, **{field: change(getattr(found, field))})

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


SUMS = {
    "": tuple(f"aten.{row}/static_int8/operator/" for row in ("linear.default", "mul.Tensor", "add.Tensor")),
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


def _kernels() -> Iterator[Made]:
    yield from kernels.of_schemes(_ending, SUMS)
    yield from kernels.of_kernels(RULES, BEGUN, CHANGES)
    yield from kernels.of_functions(elementwise.UNARY, BEGUN, "Ceiling Floor", "Gelu Hardswish Tanh")
    row = ("aten.linear.default/dynamic_int8/operator/",)
    yield "per_channel", "rows_exchanged", row, _rows("scales", lambda scales: scales.flip(0))
    yield "zero_point", "points_one_more", row, _rows("zero_points", lambda points: points + 1)
    softmax = partial(patch.dict, elementwise.UNARY, {"Softmax": _unlimited_softmax})
    yield "overflow", "plain_softmax", ("aten._softmax.default/fp32/operator/",), partial(with_device, patched=softmax)
    grown = partial(with_device, patched=together, after=_at_bounds)
    yield "shape", "sizes_of_the_bounds", ("aten.abs.default/fp32/operator/",), grown


# ------------------------------------------------------------------------------------ the list

LISTING = Listing(backend, KINDS, LEFT_OUT, partitioner=_rules, compiler=_blobs, device=_kernels)


def catalogue(right: Backend) -> tuple[Fault, ...]:
    """All faults of XNNPACK."""
    return LISTING.faults


def __getattr__(name: str) -> Backend:
    """The broken backend of that name."""
    return named(name, LISTING)
