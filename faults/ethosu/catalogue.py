"""The list of the faults of the Ethos-U backends: what is broken, how, and which cases and checks show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType

from npu_assay.faults import Fault
from npu_assay.faults.ethosu import compiler, device, partitioner
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.ethosu.boundary import SENTENCES
from npu_assay.partitioners.ethosu.support.rules import REFUSED, all_rules
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.cluster import RELU

Entry = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Kind, names, cases and checks."""


def both(row: str) -> tuple[str, ...]:
    """Cases of a row in one precision: those that it accepts, and those about numbers."""
    return f"{row}/operator/accept/", f"{row}/operator/value/"


TAGS: tuple[Entry, ...] = (
    ("off_by_one", "rank_loosened rank_tightened", ("aten.add.Tensor/int8/max_rank/",), ("tag",)),
    (
        "off_by_one",
        "conv_height_loosened conv_height_tightened",
        ("aten.convolution.default/int8/kernel_height/",),
        ("tag",),
    ),
    ("off_by_one", "conv_area_loosened conv_area_tightened", ("aten.convolution.default/int8/kernel_area/",), ("tag",)),
    ("wrong_axis", "conv_wrong_axis", ("aten.convolution.default/int8/kernel_height/",), ("tag",)),
    ("off_by_one", "weight_sum_loosened weight_sum_tightened", ("aten.linear.default/int8/weight_sum/",), ("tag",)),
    ("off_by_one", "matrix_size_loosened matrix_size_tightened", ("aten.bmm.default/int8/max_size/",), ("tag",)),
    ("wrong_axis", "depth_of_last_axis", ("aten.convolution.default/int8/kernel_depth/",), ("tag",)),
    (
        "off_by_one",
        "pool_height_loosened pool_height_tightened",
        ("aten.avg_pool2d.default/int8/kernel_height/",),
        ("tag",),
    ),
    ("off_by_one", "pool_side_loosened pool_side_tightened", ("aten.max_pool2d.default/int8/window_side/",), ("tag",)),
    ("wrong_axis", "pool_wrong_axis", ("aten.max_pool2d.default/int8/kernel_height/",), ("tag",)),
    (
        "off_by_one",
        "padded_pool_loosened padded_pool_tightened",
        ("aten.avg_pool2d.default/int8/padded_kernel/",),
        ("tag",),
    ),
    ("off_by_one", "pool_stride_loosened pool_stride_tightened", ("aten.avg_pool2d.default/int8/stride/",), ("tag",)),
    ("wrong_axis", "stride_of_one_axis", ("aten.avg_pool2d.default/int8/stride/",), ("tag",)),
    ("off_by_one", "windows_loosened windows_tightened", ("aten.unfold_copy.default/int8/windows/",), ("tag",)),
    ("off_by_one", "argmax_loosened argmax_tightened", ("aten.argmax.default/integers/max_channels/",), ("tag",)),
    ("off_by_one", "reduced_loosened reduced_tightened", ("aten.sum.dim_IntList/int8/reduced_size/",), ("tag",)),
    ("off_by_one", "summed_loosened summed_tightened", ("aten.cumsum.default/int8/summed_size/",), ("tag",)),
    ("off_by_one", "resize_loosened resize_tightened", ("aten.upsample_nearest2d.vec/int8/resize/",), ("tag",)),
    ("wrong_default", "marks_ignored", ("aten.add.Tensor/int8/quantized/",), ("tag",)),
    ("wrong_default", "u55_as_u85", ("aten.flip.default/int8/dims/",), ("tag",)),
    ("unstable", "moody", ("aten.add.Tensor/int8/operator/accept/",), ("determinism",)),
)
BLOBS: tuple[Entry, ...] = (
    (
        "bias",
        "bias_dropped",
        (*both("aten.convolution.default/int8"), *both("aten.linear.default/int16")),
        ("gate1", "gate2", "gate3"),
    ),
    ("bias", "bias_reversed", both("aten.linear.default/int8"), ("gate1", "gate3")),
    ("axis", "strides_exchanged", both("aten.convolution.default/int8"), ("crash",)),
    ("padding", "pads_exchanged", both("aten.convolution.default/int8"), ("gate1", "gate3")),
    ("attribute", "dilation_lost", both("aten.convolution.default/int8"), ("crash",)),
    ("per_channel", "scales_reversed", both("aten.linear.default/int8_per_channel"), ("gate1", "gate3")),
    ("scale", "scales_doubled", both("aten.linear.default/int8"), ("gate1", "gate3", "gate4")),
    ("scale", "multipliers_of_16_bits", both("aten.add.Tensor/int8"), ("gate1",)),
    ("layout", "weights_transposed depthwise_transposed", both("aten.convolution.default/int8"), ("gate1", "gate3")),
    ("zero_point", "input_zero_point_lost", both("aten.convolution.default/int8"), ("gate1", "gate3")),
    ("zero_point", "result_zero_point_lost", both("aten.linear.default/int8"), ("gate1", "gate3")),
    ("zero_point", "operand_zero_point_lost", both("aten.add.Tensor/int8"), ("gate1", "gate3")),
    ("zero_point", "matrix_zero_point_lost", both("aten.bmm.default/int8"), ("gate1", "gate3")),
    ("zero_point", "pool_zero_point_lost", both("aten.avg_pool2d.default/int8"), ("gate1", "gate3")),
    ("zero_point", "pool_zero_points_smallest", both("aten.avg_pool2d.default/int8"), ("gate1",)),
    ("fused_activation", "clamp_lost", both(f"{RELU}/int8"), ("gate1", "gate3")),
    ("fused_activation", "upper_limit_lost", both("aten.hardtanh.default/int8"), ("gate1", "gate3")),
    ("lut", "table_unsigned table_off_by_one", both("aten.sin.default/int8"), ("gate1", "gate3")),
    ("lut", "last_entry_repeated", both("aten.sin.default/int16"), ("gate1",)),
    ("padding", "padding_code_zero padding_reversed", both("aten.constant_pad_nd.default/int8"), ("gate1", "gate3")),
    ("operands", "parts_exchanged", both("aten.cat.default/int8"), ("gate1", "gate3")),
    ("operands", "difference_exchanged", both("aten.sub.Tensor/int8"), ("gate1", "gate3")),
    ("layout", "permutation_inverted", both("aten.permute_copy.default/int8"), ("crash",)),
    ("axis", "reversed_elsewhere", both("aten.flip.default/int8"), ("gate1", "gate3")),
    ("attribute", "begin_off_by_one", both("aten.slice_copy.Tensor/int8"), ("gate1", "gate3")),
    ("operator", "extremes_exchanged", both("aten.amax.default/int8"), ("gate1", "gate3")),
    ("attribute", "offsets_lost", both("aten.upsample_bilinear2d.vec/int8"), ("crash",)),
    ("operator", "or_equal_lost", both("aten.ge.Tensor/int8"), ("gate1",)),
    ("operands", "choices_exchanged", both("aten.where.self/int8"), ("gate1", "gate3")),
    ("attribute", "shifts_rounded", both("aten.bitwise_right_shift.Tensor/integers"), ("gate1",)),
    ("unstable", "dated", ("aten.add.Tensor/int8/operator/accept/baseline",), ("determinism",)),
)
NUMBERS: tuple[Entry, ...] = (
    ("ties", "half_even", both("aten.add.Tensor/int8"), ("gate1",)),
    ("ties", "half_away", both("aten.convolution.default/int8"), ("gate1",)),
    ("rounding", "truncating", both("aten.linear.default/int8"), ("gate1", "gate2")),
    ("saturation", "wrapping", both("aten.linear.default/int8"), ("gate1", "gate3")),
    ("saturation", "saturating_early", both("aten.convolution.default/int8"), ("gate1", "gate3")),
    ("rounding", "double_rounding", both("aten.convolution.default/int8"), ("gate1",)),
    ("rounding", "single_precision", both("aten.add.Tensor/int8"), ("gate1",)),
    ("per_channel", "first_channel_for_all", both("aten.linear.default/int8_per_channel"), ("gate1", "gate3")),
    ("accumulator", "wide_sums_wrap", both("aten.linear.default/int16"), ("gate1", "gate3")),
    ("accumulator", "wide_matrices_wrap", both("aten.bmm.default/int16"), ("gate1", "gate3")),
    ("accumulator", "wide_sums_in_float32", both("aten.linear.default/int16"), ("gate1",)),
    ("accumulator", "narrow_sums_saturate", both("aten.convolution.default/int8"), ("gate1", "gate3")),
    ("lut", "table_uninterpolated", both("aten.sin.default/int16"), ("gate1", "gate3")),
    ("lut", "table_half_interpolated table_clipped", both("aten.sin.default/int16"), ("gate1",)),
    ("ties", "last_of_equals", both("aten.argmax.default/integers"), ("gate1",)),
    ("constant", "constant", both("aten.sin.default/int8"), ("not_constant",)),
    ("memory", "overwriting", both("aten.hardtanh.default/int8"), ("mutation",)),
    ("layout", "pool_off_by_one", both("aten.max_pool2d.default/int8"), ("gate1", "gate3")),
    ("accumulator", "sums_of_16_bits", both("aten.sum.dim_IntList/int8"), ("gate1", "gate3")),
    ("saturation", "negation_wraps", both("aten.neg.default/int8"), ("gate1", "gate3")),
    ("accumulator", "products_wrap", both("aten.mul.Tensor/int16"), ("gate1", "gate3")),
    ("padding", "padding_not_the_zero_point", both("aten.convolution.default/int8"), ("gate1", "gate3")),
    ("count_include_pad", "padding_counted", both("aten.avg_pool2d.default/int8"), ("gate1", "gate3")),
    ("padding", "padded_with_zeros", both("aten.max_pool2d.default/int8"), ("gate1", "gate3")),
    ("ties", "nearest_earlier", both("aten.upsample_nearest2d.vec/int8"), ("gate1",)),
    ("axis", "corners_exchanged", both("aten.upsample_bilinear2d.vec/int8"), ("crash",)),
    ("operator", "greater_or_equal", both("aten.gt.Tensor/int8"), ("gate1",)),
    ("operands", "first_index_for_all", both("aten.index_select.default/int8"), ("gate1", "gate3")),
)
# Codes that no operator of a table can be refused for alone: what holds between operators, or elsewhere.
BETWEEN = frozenset(
    {"bounds", "condition_dtype", "control_flow", "no_conversion", "real_input", "real_output", "step", "unsupported"}
)
ONLY_U55 = frozenset(
    {
        "batch",
        "dilated_size",
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
        "value_dtype",
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
    for kind, names, cases, checks in entries:
        for name in names.split():
            yield Fault(name, stage, kind, getattr(module, name), cases, frozenset(checks))


def _on(right: Backend, faults: Iterator[Fault]) -> Iterator[Fault]:
    """The faults of one chip; Ethos-U85 has the compiler and the device of Ethos-U55, so it has their faults, too."""
    for fault in faults:
        if fault.backend.name == right.name:
            yield fault
        elif right is ethos_u85:
            broken = replace(right, details=fault.backend.details, runtime=fault.backend.runtime)
            yield replace(fault, backend=broken)


def _by_code(right: Backend) -> Iterator[Fault]:
    """For every code partitioners that lack its rules, or give another reason."""
    codes = dict.fromkeys(rule.code for rule in all_rules())
    for code in (*REFUSED, *codes, *SENTENCES, "additional_check"):
        if code not in BETWEEN | (ONLY_U55 if right is ethos_u85 else ONLY_U85):
            cases = (f"*/{code}/",)
            yield Fault(f"without_{code}", "partitioner", "dropped", partitioner.without(right, code), cases)
            misnamed = partitioner.misnamed(right, code)
            yield Fault(f"misnamed_{code}", "partitioner", "misnamed", misnamed, cases, frozenset({"reason"}))
