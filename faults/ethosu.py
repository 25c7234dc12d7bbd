"""Broken copies of the Ethos-U backends, each with one fault that a vendor could ship.

`assay mutate ethos-u55` tries them all; `assay certify npu_assay.faults.ethosu:half_away` certifies one.
Those of Ethos-U85 that Ethos-U55 has as well have `u85_` before their name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from inspect import getclosurevars
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from npu_assay.faults import Fault, Patch, blobs, kernels, partitioning_with, rules, together, with_device
from npu_assay.faults.listing import Listing, Made, named, rows
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.common.rescale import tosa_single_round
from npu_assay.partitioners.ethosu import EthosUPartitioner, ethos_u55, ethos_u85, partitioner, tosa_format, tosa_schema
from npu_assay.partitioners.ethosu.boundary import SENTENCES
from npu_assay.partitioners.ethosu.device import elementwise
from npu_assay.partitioners.ethosu.device.operators import RULES
from npu_assay.partitioners.ethosu.kernels import pooling
from npu_assay.partitioners.ethosu.kernels import rescale as scaling
from npu_assay.partitioners.ethosu.kernels.numbers import Codes
from npu_assay.partitioners.ethosu.support import common
from npu_assay.partitioners.ethosu.support.common import EVERY_NODE
from npu_assay.partitioners.ethosu.support.quantization import AROUND
from npu_assay.partitioners.ethosu.support.rules import REFUSED, rescale, supported_operators
from npu_assay.partitioners.ethosu.support.rules import RULES as LIMITS
from npu_assay.partitioners.ethosu.tosa_model import TShape
from npu_assay.partitioners.exir.backend import Backend

KINDS = {
    "implied": (
        "dtype_of_all quantized_of_all quantized_inputs_of_all quantized_outputs_of_all io_dtype_of_all"
        " indices_unused_of_all int32_indices_of_all window_within_of_all index_dtype_of_all"
    ),
    "refused": "offsets_dropped",
    "attribute": "wrong_round wrong_min_val wrong_max_val wrong_pad",
}
"""By kind the faults that are of it, whatever they are derived from."""
IMPLIED = {ethos_u55.name: "cropped_of_*", ethos_u85.name: "dims_of_all"}
"""By chip more that are implied."""
LEFT_OUT = {
    "equal to the right backend: integers do not look at the field, or graphs have one value of it": (
        "wrong_acc_type wrong_local_bound wrong_nan_mode wrong_rounding_mode"
    ),
    "equal to the right backend: RESCALE rounds halves up": "half_up",
    "equal to the right backend: the results of the row are the same both ways": "LOGICAL_XOR_mirrored",
    "equal to the right backend: no slope of a table lies between": "HALF_more_in_* MAX_SLOPE_* 128_* 32768_*",
    "equal to the right backend: other rules refuse ranks beyond": "*_wider_in_rank_of_*",
    "equal to the right backend: the rules that read it say the same": (
        "wrong_axis_of_pad wrong_default_of_storage_offset wrong_sign_of_dims contiguous_of_turned_sizes"
        " level_side_of_turned_sizes number_operand_of_turned_sizes"
    ),
}
"""By reason, the derived faults that are in no list."""
ON_CHIP = {
    ethos_u55.name: {
        "other rules of the operators imply it": "integer_operands_* rank_*",
        "equal to the right backend: the rules of this chip that read it say the same": (
            "window_side_of_turned_sizes padded_kernel_of_turned_sizes reduced_size_of_turned_sizes"
        ),
    },
    ethos_u85.name: {
        "other rules of the operators imply it": (
            "max_elements_* no_bool_* weight_sum_* *_in_max_elements_of_* *_in_weight_sum_of_*"
        ),
        "every row of the table is supported": "unsupported_*",
        "equal to the right backend: the rules of this chip that read it say the same": (
            "wrong_axis_of_dims wrong_axis_of_kernel_size mask_alone_of_turned_sizes"
        ),
    },
}
"""By chip the same of one chip."""

# ------------------------------------------------------------------------------------ rules

# Codes that no operator of a table can be refused for alone: what holds between operators, or elsewhere.
BETWEEN = frozenset(("bounds", "condition_dtype", "control_flow", "no_conversion", "real_input", "real_output", "step"))
JUDGES = ((EthosUPartitioner, "_all_rejections"), (partitioner, "partition_rejections"))


def _limits(is_u55: bool) -> rules.Rules:
    """The rules of a chip's operators."""
    return {
        name: [one for one in LIMITS[name] if getclosurevars(one.check).nonlocals.get("holds", is_u55) is is_u55]
        for name in sorted(supported_operators(is_u55))
    }


def _rules(right: Backend) -> Iterator[Made]:
    is_u55 = right is ethos_u55
    limits = _limits(is_u55)
    every = [one.code for one in (*EVERY_NODE, *AROUND, rescale, *(one for found in limits.values() for one in found))]
    codes = {None: [code for code in (*REFUSED, *every, *SENTENCES, "additional_check") if code not in BETWEEN]}
    # By then max pools are those with indices.
    known = {
        name: [one for one in found if one.code not in BETWEEN]
        for name, found in limits.items()
        if name != "aten.max_pool2d.default"
    }
    yield from rules.dropped(codes, {}, *JUDGES)
    yield from rules.misnamed(codes, *JUDGES)
    yield from rules.of_numbers(known, {})
    yield from rules.of_arguments(known, {})
    yield from rules.of_sizes(known, {})
    yield rules.unstable("aten.add.Tensor/int8/operator/accept/", *JUDGES)
    unmarked = partial(patch.object, common, "MARK", "_another_mark")
    cases = ("aten.add.Tensor/int8/quantized/",)
    yield "wrong_default", "marks_ignored", cases, partial(partitioning_with, patched=unmarked)
    if is_u55:
        as_u85 = partial(replace, partitioner=lambda **options: ethos_u85.partitioner(**options))
        yield "wrong_default", "u55_as_u85", ("aten.flip.default/int8/dims/",), as_u85


# ------------------------------------------------------------------------------------ blobs

SPECIAL = {
    "of_32_bits": "linear.default/int16",
    "in_float32": "linear.default/int16",
    "multipliers_reversed": "linear.default/int8_per_channel",
    "shifts_less": "linear.default/int8",
}
"""By name of a change, the rows that show it."""
CONVOLUTIONS = "CONV2D DEPTHWISE_CONV2D TRANSPOSE_CONV2D"


def _form(right: Backend) -> blobs.Format:
    fields = {code: tuple(one.attributes) for code, one in tosa_schema.OPERATORS.items()}
    begun = rows(fields, supported_operators(right is ethos_u55)) | SPECIAL
    constants = {"tensors": "data", "shapes": "values"}
    return blobs.Format(
        tosa_format.read, tosa_format.write, "operators", "code", "attributes", constants, fields, begun
    )


def _blobs(right: Backend) -> Iterator[Made]:
    form = _form(right)
    yield from blobs.of_fields(form)
    yield from blobs.of_operators(form, "REDUCE_MAX REDUCE_MIN", "MAXIMUM MINIMUM", "GREATER GREATER_EQUAL")
    yield from blobs.of_operands(form, "SUB CONCAT SELECT MATMUL")
    yield from blobs.of_constants(
        form,
        ("bias", "bias", CONVOLUTIONS, 2, "dropped reversed"),
        ("layout", "weights", CONVOLUTIONS, 1, "transposed reversed"),
        ("per_channel", "multipliers", "RESCALE", 1, "reversed"),
        ("scale", "multipliers", "RESCALE", 1, "of_16_bits"),
        ("scale", "shifts", "RESCALE", 2, "less"),
        ("zero_point", "input_zero_point", CONVOLUTIONS, 3, "dropped"),
        ("zero_point", "operand_zero_point", "RESCALE", 3, "dropped"),
        ("zero_point", "result_zero_point", "RESCALE", 4, "dropped"),
        ("zero_point", "matrix_zero_point", "MATMUL", 2, "dropped"),
        ("zero_point", "pool_zero_point", "AVG_POOL2D", 1, "dropped less"),
        ("lut", "table", "TABLE", 1, "rolled reversed"),
        ("padding", "pads", "PAD", 1, "sides_exchanged"),
        ("padding", "pad_code", "PAD", 2, "dropped"),
        ("attribute", "begin", "SLICE", 1, "earlier"),
        ("attribute", "offsets", "RESIZE", 2, "dropped"),
    )
    yield blobs.unstable("aten.add.Tensor/int8/operator/accept/baseline", _dated)


def _dated(blob: bytes, number: int) -> bytes:
    model = tosa_format.read(blob)
    return tosa_format.write(replace(model, shapes=(*model.shapes, TShape("build", (number,)))))


# ------------------------------------------------------------------------------------ kernels


def _ending(finish: kernels.Finish) -> Patch:
    """A device with another RESCALE."""

    def rounded(multiplier: Tensor, shift: Tensor, y: Codes, bound: int, scale32: bool = True) -> Kernel:
        ratio = multiplier.double() / 2.0**shift

        def apply(acc: Tensor) -> Tensor:
            right = tosa_single_round(acc.long(), multiplier, shift)
            found = finish(kernels.Rescale(acc.long(), ratio, right, y.zero_point, y.low, y.high))
            return y.stored(found.clamp(y.low, y.high).long())

        return apply

    def of_product(product: Any, multipliers: Any, shifts: Any, y: Codes, scale32: bool = True) -> Kernel:
        last = rounded(torch.tensor(multipliers), torch.tensor(shifts), y, product.bound)
        offset = torch.zeros(1, dtype=torch.int64) if product.offset is None else product.offset
        return lambda raw: last(raw.to(torch.int64) + offset)

    return lambda: together(
        patch.object(scaling, "rounded", rounded),
        patch.object(pooling, "rounded", rounded),
        patch.object(elementwise, "of_product", of_product),
    )


def _all_of_window(size: Any, kernel: tuple[int, int], stride: Any, padding: Any) -> Tensor:
    """Averages divide by the whole window, whether inside the image or not."""
    return torch.tensor(kernel[0] * kernel[1])


SUMS = {
    "": tuple(f"aten.{row}/int8/operator/" for row in ("add.Tensor", "linear.default", "convolution.default")),
    "per_channel": ("aten.linear.default/int8_per_channel/operator/",),
}
CHANGES: dict[str, Any] = {
    "mirrored": RULES,
    "one_more": ("AVG_POOL2D", "RESCALE", "REDUCE_SUM"),
    "axes_exchanged": ("RESIZE", "MAX_POOL2D"),
    "operands_exchanged": ("SUB", "GREATER"),
    "largest_wraps": ("NEGATE",),
    "positive": ("MAX_POOL2D",),
    "overwriting": ("CLAMP", "NEGATE"),
    "of_32_bits": ("CONV2D",),
    "in_float32": ("CONV2D",),
    "of_16_bits": ("CONV2D", "REDUCE_SUM", "MUL"),
    **dict.fromkeys(("constant", "table_shifted", "table_unsigned", "table_clipped"), ("TABLE",)),
}


def _kernels(right: Backend) -> Iterator[Made]:
    begun = _form(right).rows
    yield from kernels.of_schemes(_ending, SUMS)
    yield from kernels.of_kernels(RULES, begun, CHANGES)
    yield from kernels.of_functions(RULES, begun, "REDUCE_MAX REDUCE_MIN", "MAXIMUM MINIMUM")
    counted = partial(patch.object, pooling, "_counts", _all_of_window)
    cases = ("aten.avg_pool2d.default/int8/operator/",)
    yield "count_include_pad", "padding_counted", cases, partial(with_device, patched=counted)


# ------------------------------------------------------------------------------------ the lists


def _listing(right: Backend) -> Listing:
    made = {"partitioner": _rules, "compiler": _blobs, "device": _kernels}
    stages = {stage: partial(each, right) for stage, each in made.items()}
    kinds = KINDS | {"implied": f"{KINDS['implied']} {IMPLIED[right.name]}"}
    return Listing(right, kinds, LEFT_OUT | ON_CHIP[right.name], **stages)


LISTINGS = {right.name: _listing(right) for right in (ethos_u55, ethos_u85)}


def catalogue(right: Backend) -> tuple[Fault, ...]:
    """The faults of Ethos-U85 for a backend of that name, else those of Ethos-U55."""
    return LISTINGS.get(right.name, LISTINGS[ethos_u55.name]).faults


def __getattr__(name: str) -> Backend:
    """The broken backend of that name."""
    u55, u85 = LISTINGS.values()
    return named(name.removeprefix("u85_"), u85) if name.startswith("u85_") else named(name, u55, u85)
