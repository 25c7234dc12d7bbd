"""The list of the faults of the Ethos-U backends: what is broken, how, and which cases and checks show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType

from partitioners.ethosu import ethos_u55, ethos_u85
from partitioners.ethosu.faults import compiler, device, partitioner
from partitioners.ethosu.support.codes import SENTENCES
from partitioners.exir.backend import Backend
from partitioners.exir.faults import Fault

Entry = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Kind, name, cases and checks."""

TAGS: tuple[Entry, ...] = (
    ("off_by_one", "rank_loosened", ("aten.add.Tensor/int8/max_rank/",), ("tag",)),
    ("off_by_one", "rank_tightened", ("aten.add.Tensor/int8/max_rank/",), ("tag",)),
    ("off_by_one", "conv_height_loosened", ("aten.convolution.default/int8/kernel_height/",), ("tag",)),
    ("off_by_one", "conv_height_tightened", ("aten.convolution.default/int8/kernel_height/",), ("tag",)),
    ("off_by_one", "conv_area_loosened", ("aten.convolution.default/int8/kernel_area/",), ("tag",)),
    ("off_by_one", "conv_area_tightened", ("aten.convolution.default/int8/kernel_area/",), ("tag",)),
    ("wrong_axis", "conv_wrong_axis", ("aten.convolution.default/int8/kernel_height/",), ("tag",)),
    ("off_by_one", "weight_sum_loosened", ("aten.linear.default/int8/weight_sum/",), ("tag",)),
    ("off_by_one", "weight_sum_tightened", ("aten.linear.default/int8/weight_sum/",), ("tag",)),
    ("off_by_one", "matrix_size_loosened", ("aten.bmm.default/int8/max_size/",), ("tag",)),
    ("off_by_one", "matrix_size_tightened", ("aten.bmm.default/int8/max_size/",), ("tag",)),
    ("wrong_axis", "depth_of_last_axis", ("aten.convolution.default/int8/kernel_depth/",), ("tag",)),
    ("off_by_one", "pool_height_loosened", ("aten.avg_pool2d.default/int8/kernel_height/",), ("tag",)),
    ("off_by_one", "pool_height_tightened", ("aten.avg_pool2d.default/int8/kernel_height/",), ("tag",)),
    ("wrong_axis", "pool_wrong_axis", ("aten.max_pool2d.default/int8/kernel_height/",), ("tag",)),
    ("off_by_one", "padded_pool_loosened", ("aten.avg_pool2d.default/int8/padded_kernel/",), ("tag",)),
    ("off_by_one", "padded_pool_tightened", ("aten.avg_pool2d.default/int8/padded_kernel/",), ("tag",)),
    ("off_by_one", "pool_stride_loosened", ("aten.avg_pool2d.default/int8/stride/",), ("tag",)),
    ("off_by_one", "pool_stride_tightened", ("aten.avg_pool2d.default/int8/stride/",), ("tag",)),
    ("wrong_axis", "stride_of_one_axis", ("aten.avg_pool2d.default/int8/stride/",), ("tag",)),
    ("off_by_one", "windows_loosened", ("aten.unfold_copy.default/int8/windows/",), ("tag",)),
    ("off_by_one", "windows_tightened", ("aten.unfold_copy.default/int8/windows/",), ("tag",)),
    ("off_by_one", "argmax_loosened", ("aten.argmax.default/integers/max_channels/",), ("tag",)),
    ("off_by_one", "argmax_tightened", ("aten.argmax.default/integers/max_channels/",), ("tag",)),
    ("off_by_one", "reduced_loosened", ("aten.sum.dim_IntList/int8/reduced_size/",), ("tag",)),
    ("off_by_one", "reduced_tightened", ("aten.sum.dim_IntList/int8/reduced_size/",), ("tag",)),
    ("off_by_one", "summed_loosened", ("aten.cumsum.default/int8/summed_size/",), ("tag",)),
    ("off_by_one", "summed_tightened", ("aten.cumsum.default/int8/summed_size/",), ("tag",)),
    ("off_by_one", "resize_loosened", ("aten.upsample_nearest2d.vec/int8/resize/",), ("tag",)),
    ("off_by_one", "resize_tightened", ("aten.upsample_nearest2d.vec/int8/resize/",), ("tag",)),
    ("wrong_default", "marks_ignored", ("aten.add.Tensor/int8/quantized/",), ("tag",)),
    ("wrong_default", "u55_as_u85", ("aten.flip.default/int8/dims/",), ("tag",)),
    ("unstable", "moody", ("aten.add.Tensor/int8/operator/accept/",), ("determinism",)),
)
BLOBS: tuple[Entry, ...] = (
    (
        "bias",
        "bias_dropped",
        (
            "aten.convolution.default/int8/operator/accept/",
            "aten.convolution.default/int8/operator/value/",
            "aten.linear.default/int16/operator/accept/",
            "aten.linear.default/int16/operator/value/",
        ),
        ("gate1", "gate2", "gate3"),
    ),
    (
        "bias",
        "bias_reversed",
        ("aten.linear.default/int8/operator/accept/", "aten.linear.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "axis",
        "strides_exchanged",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("crash",),
    ),
    (
        "padding",
        "pads_exchanged",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "attribute",
        "dilation_lost",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("crash",),
    ),
    (
        "per_channel",
        "scales_reversed",
        (
            "aten.linear.default/int8_per_channel/operator/accept/",
            "aten.linear.default/int8_per_channel/operator/value/",
        ),
        ("gate1", "gate3"),
    ),
    (
        "scale",
        "scales_doubled",
        ("aten.linear.default/int8/operator/accept/", "aten.linear.default/int8/operator/value/"),
        ("gate1", "gate3", "gate4"),
    ),
    (
        "scale",
        "multipliers_of_16_bits",
        ("aten.add.Tensor/int8/operator/accept/", "aten.add.Tensor/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "layout",
        "weights_transposed",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "layout",
        "depthwise_transposed",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "zero_point",
        "input_zero_point_lost",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "zero_point",
        "result_zero_point_lost",
        ("aten.linear.default/int8/operator/accept/", "aten.linear.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "zero_point",
        "operand_zero_point_lost",
        ("aten.add.Tensor/int8/operator/accept/", "aten.add.Tensor/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "zero_point",
        "matrix_zero_point_lost",
        ("aten.bmm.default/int8/operator/accept/", "aten.bmm.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "zero_point",
        "pool_zero_point_lost",
        ("aten.avg_pool2d.default/int8/operator/accept/", "aten.avg_pool2d.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "zero_point",
        "pool_zero_points_smallest",
        ("aten.avg_pool2d.default/int8/operator/accept/", "aten.avg_pool2d.default/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "fused_activation",
        "clamp_lost",
        ("aten.relu.default/int8/operator/accept/", "aten.relu.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "fused_activation",
        "upper_limit_lost",
        ("aten.hardtanh.default/int8/operator/accept/", "aten.hardtanh.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "lut",
        "table_unsigned",
        ("aten.sin.default/int8/operator/accept/", "aten.sin.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "lut",
        "table_off_by_one",
        ("aten.sin.default/int8/operator/accept/", "aten.sin.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "lut",
        "last_entry_repeated",
        ("aten.sin.default/int16/operator/accept/", "aten.sin.default/int16/operator/value/"),
        ("gate1",),
    ),
    (
        "padding",
        "padding_code_zero",
        ("aten.constant_pad_nd.default/int8/operator/accept/", "aten.constant_pad_nd.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "padding",
        "padding_reversed",
        ("aten.constant_pad_nd.default/int8/operator/accept/", "aten.constant_pad_nd.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "operands",
        "parts_exchanged",
        ("aten.cat.default/int8/operator/accept/", "aten.cat.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "operands",
        "difference_exchanged",
        ("aten.sub.Tensor/int8/operator/accept/", "aten.sub.Tensor/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "layout",
        "permutation_inverted",
        ("aten.permute_copy.default/int8/operator/accept/", "aten.permute_copy.default/int8/operator/value/"),
        ("crash",),
    ),
    (
        "axis",
        "reversed_elsewhere",
        ("aten.flip.default/int8/operator/accept/", "aten.flip.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "attribute",
        "begin_off_by_one",
        ("aten.slice_copy.Tensor/int8/operator/accept/", "aten.slice_copy.Tensor/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "operator",
        "extremes_exchanged",
        ("aten.amax.default/int8/operator/accept/", "aten.amax.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "attribute",
        "offsets_lost",
        ("aten.upsample_bilinear2d.vec/int8/operator/accept/", "aten.upsample_bilinear2d.vec/int8/operator/value/"),
        ("crash",),
    ),
    (
        "operator",
        "or_equal_lost",
        ("aten.ge.Tensor/int8/operator/accept/", "aten.ge.Tensor/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "operands",
        "choices_exchanged",
        ("aten.where.self/int8/operator/accept/", "aten.where.self/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "attribute",
        "shifts_rounded",
        (
            "aten.bitwise_right_shift.Tensor/integers/operator/accept/",
            "aten.bitwise_right_shift.Tensor/integers/operator/value/",
        ),
        ("gate1",),
    ),
    ("unstable", "dated", ("aten.add.Tensor/int8/operator/accept/baseline",), ("determinism",)),
)
NUMBERS: tuple[Entry, ...] = (
    (
        "ties",
        "half_even",
        ("aten.add.Tensor/int8/operator/accept/", "aten.add.Tensor/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "ties",
        "half_away",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "rounding",
        "truncating",
        ("aten.linear.default/int8/operator/accept/", "aten.linear.default/int8/operator/value/"),
        ("gate1", "gate2"),
    ),
    (
        "saturation",
        "wrapping",
        ("aten.linear.default/int8/operator/accept/", "aten.linear.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "saturation",
        "saturating_early",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "rounding",
        "double_rounding",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "rounding",
        "single_precision",
        ("aten.add.Tensor/int8/operator/accept/", "aten.add.Tensor/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "per_channel",
        "first_channel_for_all",
        (
            "aten.linear.default/int8_per_channel/operator/accept/",
            "aten.linear.default/int8_per_channel/operator/value/",
        ),
        ("gate1", "gate3"),
    ),
    (
        "accumulator",
        "wide_sums_wrap",
        ("aten.linear.default/int16/operator/accept/", "aten.linear.default/int16/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "accumulator",
        "wide_matrices_wrap",
        ("aten.bmm.default/int16/operator/accept/", "aten.bmm.default/int16/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "accumulator",
        "wide_sums_in_float32",
        ("aten.linear.default/int16/operator/accept/", "aten.linear.default/int16/operator/value/"),
        ("gate1",),
    ),
    (
        "accumulator",
        "narrow_sums_saturate",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "lut",
        "table_uninterpolated",
        ("aten.sin.default/int16/operator/accept/", "aten.sin.default/int16/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "lut",
        "table_half_interpolated",
        ("aten.sin.default/int16/operator/accept/", "aten.sin.default/int16/operator/value/"),
        ("gate1",),
    ),
    (
        "lut",
        "table_clipped",
        ("aten.sin.default/int16/operator/accept/", "aten.sin.default/int16/operator/value/"),
        ("gate1",),
    ),
    (
        "ties",
        "last_of_equals",
        ("aten.argmax.default/integers/operator/accept/", "aten.argmax.default/integers/operator/value/"),
        ("gate1",),
    ),
    (
        "constant",
        "constant",
        ("aten.sin.default/int8/operator/accept/", "aten.sin.default/int8/operator/value/"),
        ("not_constant",),
    ),
    (
        "memory",
        "overwriting",
        ("aten.hardtanh.default/int8/operator/accept/", "aten.hardtanh.default/int8/operator/value/"),
        ("mutation",),
    ),
    (
        "layout",
        "pool_off_by_one",
        ("aten.max_pool2d.default/int8/operator/accept/", "aten.max_pool2d.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "accumulator",
        "sums_of_16_bits",
        ("aten.sum.dim_IntList/int8/operator/accept/", "aten.sum.dim_IntList/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "saturation",
        "negation_wraps",
        ("aten.neg.default/int8/operator/accept/", "aten.neg.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "accumulator",
        "products_wrap",
        ("aten.mul.Tensor/int16/operator/accept/", "aten.mul.Tensor/int16/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "padding",
        "padding_not_the_zero_point",
        ("aten.convolution.default/int8/operator/accept/", "aten.convolution.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "count_include_pad",
        "padding_counted",
        ("aten.avg_pool2d.default/int8/operator/accept/", "aten.avg_pool2d.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "padding",
        "padded_with_zeros",
        ("aten.max_pool2d.default/int8/operator/accept/", "aten.max_pool2d.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
    (
        "ties",
        "nearest_earlier",
        ("aten.upsample_nearest2d.vec/int8/operator/accept/", "aten.upsample_nearest2d.vec/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "axis",
        "corners_exchanged",
        ("aten.upsample_bilinear2d.vec/int8/operator/accept/", "aten.upsample_bilinear2d.vec/int8/operator/value/"),
        ("crash",),
    ),
    (
        "operator",
        "greater_or_equal",
        ("aten.gt.Tensor/int8/operator/accept/", "aten.gt.Tensor/int8/operator/value/"),
        ("gate1",),
    ),
    (
        "operands",
        "first_index_for_all",
        ("aten.index_select.default/int8/operator/accept/", "aten.index_select.default/int8/operator/value/"),
        ("gate1", "gate3"),
    ),
)
# Codes that no operator of a table can be refused for alone: what holds between operators, or elsewhere.
BETWEEN = frozenset(
    {"bounds", "condition_dtype", "control_flow", "no_conversion", "real_input", "real_output", "step", "unsupported"}
)
ONLY_U55 = frozenset(
    {
        "batch",
        "divided_window",
        "kernel_area",
        "kernel_depth",
        "kernel_height",
        "max_channels",
        "max_elements",
        "max_input_rank",
        "max_size",
        "no_bool",
        "no_wide_transposed",
        "padded_kernel",
        "reduced_size",
        "resize_scale",
        "stride",
        "stride_or_whole",
        "stride_or_window",
        "summed_size",
        "transposed_stride",
        "transposition",
        "weight_sum",
        "windows",
    }
)
ONLY_U85 = frozenset(
    {
        "accumulate",
        "distinct_inputs",
        "explicit_indices",
        "index_dtype",
        "index_shape",
        "integer_operands",
        "mask_alone",
        "rank",
        "whole_number",
    }
)


def catalogue(backend: Backend) -> tuple[Fault, ...]:
    """The faults of Ethos-U85 for a backend of that name, else those of Ethos-U55."""
    return _catalogue(backend.name)


@cache
def _catalogue(chip: str) -> tuple[Fault, ...]:
    right = ethos_u85 if chip == ethos_u85.name else ethos_u55
    return (
        *(one for one in _listed("partitioner", partitioner, TAGS) if one.backend.name == right.name),
        *_by_code(right),
        *_on(right, _listed("compiler", compiler, BLOBS)),
        *_on(right, _listed("device", device, NUMBERS)),
    )


def _listed(stage: str, module: ModuleType, entries: tuple[Entry, ...]) -> Iterator[Fault]:
    for kind, name, cases, checks in entries:
        yield Fault(name, stage, kind, getattr(module, name), cases, frozenset(checks))


def _on(right: Backend, faults: Iterator[Fault]) -> Iterator[Fault]:
    """Those of a chip's own; Ethos-U85 has the compiler and the device of Ethos-U55, so it has their faults, too."""
    for fault in faults:
        if fault.backend.name == right.name:
            yield fault
        elif right is ethos_u85:
            broken = replace(right, details=fault.backend.details, runtime=fault.backend.runtime)
            yield replace(fault, backend=broken)


def _by_code(right: Backend) -> Iterator[Fault]:
    """For every code partitioners that lack its rules, or give another reason."""
    for code in SENTENCES:
        if code not in BETWEEN | (ONLY_U55 if right is ethos_u85 else ONLY_U85):
            cases = (f"*/{code}/",)
            yield Fault(f"without_{code}", "partitioner", "dropped", partitioner.without(right, code), cases)
            misnamed = partitioner.misnamed(right, code)
            yield Fault(f"misnamed_{code}", "partitioner", "misnamed", misnamed, cases, frozenset({"reason"}))
