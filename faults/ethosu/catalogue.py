"""The list of the Ethos-U backends' faults, made from rules, from TOSA's schema, and from schemes and kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from inspect import getclosurevars
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from npu_assay.faults import Fault, Made, Patch, blobs, kernels, partitioning_with, rules, together, with_device
from npu_assay.faults.listing import listed
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
from npu_assay.partitioners.ethosu.support.rules import REFUSED, all_rules, rescale, supported_operators
from npu_assay.partitioners.ethosu.support.rules import RULES as LIMITS
from npu_assay.partitioners.ethosu.tosa_model import TShape
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.flatbuffer import Scalar

# ------------------------------------------------------------------------------------ rules

# Codes that no operator of a table can be refused for alone: what holds between operators, or elsewhere.
BETWEEN = frozenset(
    {"bounds", "condition_dtype", "control_flow", "no_conversion", "real_input", "real_output", "step", "unsupported"}
)
# Codes of a chip's rules that other rules of its operators imply; by whether it is Ethos-U55.
IMPLIED = {True: {"integer_operands", "rank"}, False: {"max_channels", "max_elements", "no_bool", "weight_sum"}}
JUDGES = ((EthosUPartitioner, "_all_rejections"), (partitioner, "partition_rejections"))
# Ways to misread an argument after which every rule that reads it says the same.
ALIKE_U55 = ("wrong_axis_of_pad", "wrong_default_of_storage_offset", "wrong_sign_of_dims")
ALIKE_U85 = (*ALIKE_U55, "wrong_axis_of_dims", "wrong_axis_of_kernel_size", "wrong_sign_of_dim")
TURNED_U55 = "batch cropped kernel_area kernel_height transposed_padding transposition"
TURNED_U85 = "max_channels resize window_side window_within"


def _codes(is_u55: bool) -> list[str]:
    """The codes of the rules that a chip has."""
    own = [rule for name in supported_operators(is_u55) for rule in LIMITS[name]]
    elsewhere = {rule.code for rule in all_rules()} - {rule.code for rule in (*EVERY_NODE, *AROUND, rescale)}
    elsewhere -= {one.code for one in own if getclosurevars(one.check).nonlocals.get("holds", is_u55) is is_u55}
    every = dict.fromkeys(rule.code for rule in all_rules())
    left_out = BETWEEN | IMPLIED[is_u55] | elsewhere
    return [code for code in (*REFUSED, *every, *SENTENCES, "additional_check") if code not in left_out]


def _rules(right: Backend) -> Iterator[Made]:
    is_u55 = right is ethos_u55
    codes = {None: _codes(is_u55)}
    names = supported_operators(is_u55) - {"aten.max_pool2d.default"}  # it is the one with indices by then
    # Neighbors of their numbers change nothing: no slope of a table lies between, other rules see other ranks.
    asked = {*codes[None]} - {"table_slope", "rank"}
    known = {name: [rule for rule in LIMITS[name] if rule.code in asked] for name in sorted(names)}
    yield from rules.dropped(codes, {}, *JUDGES)
    yield from rules.misnamed(codes, *JUDGES)
    yield from rules.of_numbers(known, {})
    yield from rules.of_arguments(known, {}, ALIKE_U55 if is_u55 else ALIKE_U85)
    yield from rules.of_sizes((TURNED_U55 if is_u55 else TURNED_U85).split())
    yield rules.unstable("aten.add.Tensor/int8/operator/accept/", *JUDGES)
    unmarked = partial(patch.object, common, "MARK", "_another_mark")
    cases = ("aten.add.Tensor/int8/quantized/",)
    yield "wrong_default", "marks_ignored", cases, partial(partitioning_with, patched=unmarked)
    if is_u55:
        as_u85 = partial(replace, partitioner=lambda **options: ethos_u85.partitioner(**options))
        yield "wrong_default", "u55_as_u85", ("aten.flip.default/int8/dims/",), as_u85


# ------------------------------------------------------------------------------------ blobs

BEGINNINGS = {
    "ARITHMETIC_RIGHT_SHIFT": "bitwise_right_shift",
    "CLAMP": "hardtanh",
    "CONCAT": "cat",
    "CONV2D": "convolution",
    "DEPTHWISE_CONV2D": "convolution",
    "EQUAL": "eq.",
    "GATHER": "index_select",
    "GREATER": "gt.",
    "GREATER_EQUAL": "ge.",
    "LOGICAL_LEFT_SHIFT": "bitwise_left_shift",
    "MATMUL": "bmm",
    "NEGATE": "neg",
    "PAD": "constant_pad",
    "REDUCE_ANY": "any",
    "REDUCE_MAX": "amax",
    "REDUCE_MIN": "amin",
    "REDUCE_SUM": "sum",
    "RESCALE": "add",
    "RESHAPE": "view",
    "RESIZE": "upsample",
    "REVERSE": "flip",
    "SCATTER": "index_put",
    "SELECT": "where",
    "SLICE": "slice",
    "TABLE": "sin.",
    "TILE": "repeat",
    "TRANSPOSE": "permute",
    "TRANSPOSE_CONV2D": "convolution",
}
# Attributes that integers do not look at, or that have one value, at least on Ethos-U55.
UNREAD = ("acc_type", "local_bound", "mode", "nan_mode", "rounding_mode")
WIDE = {"of_32_bits": "linear.default/int16", "in_float32": "linear.default/int16"}
SPECIAL = {**WIDE, "multipliers_reversed": "linear.default/int8_per_channel", "shifts_less": "linear.default/int8"}
CONVOLUTIONS = "CONV2D DEPTHWISE_CONV2D TRANSPOSE_CONV2D"


def _fields(code: str) -> blobs.Fields:
    scalar = Scalar("int32")
    found = tosa_schema.OPERATORS[code].attributes
    return {name: (each.kind or scalar, next(iter(each.names)) if each.names else 0) for name, each in found.items()}


def _form(right: Backend) -> blobs.Format:
    begun = {code: BEGINNINGS.get(code, code.lower()) for code in tosa_schema.OPERATORS}
    names = supported_operators(right is ethos_u55)
    rows = {code: row for code, row in begun.items() if any(name.startswith(f"aten.{row}") for name in names)}
    return blobs.Format(
        tosa_format.read,
        tosa_format.write,
        "operators",
        "code",
        "attributes",
        {"tensors": "data", "shapes": "values"},
        {code: _fields(code) for code in tosa_schema.OPERATORS},
        rows | SPECIAL,
    )


def _blobs(form: blobs.Format) -> Iterator[Made]:
    yield from blobs.of_fields(form, UNREAD)
    yield from blobs.of_operators(form, "operator", "REDUCE_MAX REDUCE_MIN", "MAXIMUM MINIMUM", "GREATER GREATER_EQUAL")
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


SCHEMES = {
    "": tuple(f"aten.{row}/int8/operator/" for row in ("add.Tensor", "linear.default", "convolution.default")),
    "per_channel": ("aten.linear.default/int8_per_channel/operator/",),
}
CHANGES: dict[str, Any] = {
    "mirrored": RULES.keys() - {"LOGICAL_XOR"},  # whose results are the same both ways
    "one_more": ("AVG_POOL2D", "RESCALE", "REDUCE_SUM"),
    "axes_exchanged": ("RESIZE", "MAX_POOL2D"),
    "operands_exchanged": ("SUB", "GREATER"),
    "positive": ("MAX_POOL2D",),
    "constant": ("TABLE",),
    "overwriting": ("CLAMP", "NEGATE"),
    "of_32_bits": ("CONV2D",),
    "in_float32": ("CONV2D",),
    "of_16_bits": ("CONV2D", "REDUCE_SUM", "MUL"),
    "table_shifted": ("TABLE",),
    "table_unsigned": ("TABLE",),
    "table_clipped": ("TABLE",),
}


def _kernels(form: blobs.Format) -> Iterator[Made]:
    yield from kernels.of_schemes(_ending, SCHEMES, "half_up", "activation_ignored")
    yield from kernels.of_kernels(RULES, form.rows, CHANGES)
    yield from kernels.of_functions(RULES, form.rows, "REDUCE_MAX REDUCE_MIN", "MAXIMUM MINIMUM")
    counted = partial(patch.object, pooling, "_counts", _all_of_window)
    cases = ("aten.avg_pool2d.default/int8/operator/",)
    yield "count_include_pad", "padding_counted", cases, partial(with_device, patched=counted)


def catalogue(backend: Backend) -> tuple[Fault, ...]:
    """The faults of Ethos-U85 for a backend of that name, else those of Ethos-U55."""
    return _catalogue(backend.name)


@cache
def _catalogue(chip: str) -> tuple[Fault, ...]:
    right = ethos_u85 if chip == ethos_u85.name else ethos_u55
    form = _form(right)
    return (
        *listed("partitioner", right, _rules(right)),
        *listed("compiler", right, _blobs(form)),
        *listed("device", right, _kernels(form)),
    )
