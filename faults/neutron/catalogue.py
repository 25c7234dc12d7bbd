"""The list of Neutron's faults: what is broken, how, and which cases show it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType

from npu_assay.faults import Fault
from npu_assay.faults.neutron import compiler, device, partitioner
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.cluster import CLAMP, RELU

Entry = tuple[str, str, str]
"""Kind, names, and the row (and constraint) whose cases show it."""

ABS, ADD, AVERAGE, MAX_POOL = (
    "aten.abs.default",
    "aten.add.Tensor",
    "aten.avg_pool2d.default",
    "aten.max_pool2d.default",
)
CONV, ADDMM, BMM, MM = "aten.convolution.default", "aten.addmm.default", "aten.bmm.default", "aten.mm.default"
CAT, PAD, SLICE, PERMUTE = "aten.cat.default", "aten.constant_pad_nd.default", "aten.slice_copy.Tensor", "aten.permute"
MEAN, SOFTMAX, PRELU, LEAKY = "aten.mean.dim", "aten._softmax.default", "aten.prelu.default", "aten.leaky_relu.default"
SIGMOID, TANH = "aten.sigmoid.default", "aten.tanh.default"
BILINEAR, NEAREST, ADAPTIVE = "aten.upsample_bilinear2d", "aten.upsample_nearest2d", "aten._adaptive_avg_pool2d"
VIEW, HARDTANH = "aten.view_copy.default", "aten.hardtanh.default"

TAGS: tuple[Entry, ...] = (
    ("loosened", "multiple_of_4", f"{MEAN}/channels_multiple_of/"),
    ("tightened", "multiple_of_16", f"{MEAN}/channels_multiple_of/"),
    ("off_by_one", "rank_loosened rank_tightened", f"{ABS}/max_rank/"),
    ("off_by_one", "view_rank_loosened view_rank_tightened", f"{VIEW}/max_rank/"),
    ("off_by_one", "pool_rank_tightened", f"{AVERAGE}/"),
    ("off_by_one", "batch_loosened", f"{MAX_POOL}/batch/"),
    ("off_by_one", "stride_loosened stride_tightened", f"{MAX_POOL}/stride_h/"),
    ("wrong_axis", "stride_wrong_axis", f"{MAX_POOL}/stride_h/"),
    ("wrong_default", "stride_wrong_default", f"{MAX_POOL}/stride_h/"),
    ("wrong_axis", "dilation_of_width dilation_of_height", f"{MAX_POOL}/dilation/"),
    ("wrong_axis", "channels_last_of_pool", f"{MAX_POOL}/channels_multiple_of/"),
    ("off_by_one", "positions_loosened positions_tightened", f"{PRELU}/positions/"),
    ("loosened", "size_loosened", f"{SOFTMAX}/max_size/"),
    ("off_by_one", "size_tightened", f"{SOFTMAX}/max_size/"),
    ("off_by_one", "channels_loosened", f"{SOFTMAX}/max_channels/"),
    ("tightened", "channels_tightened", f"{SOFTMAX}/max_channels/"),
    ("loosened", "factor_3_taken", f"{NEAREST}*/scale/"),
    ("tightened", "factor_4_refused", f"{NEAREST}*/scale/"),
    ("wrong_axis", "scale_of_height", f"{NEAREST}*/scale/"),
    ("tightened", "bounds_tightened", f"{CLAMP}/bounds/"),
    ("loosened", "bounds_loosened", f"{CLAMP}/bounds/"),
    ("off_by_one", "inputs_loosened inputs_tightened", f"{CAT}/min_inputs/"),
    ("off_by_one", "padding_tightened", f"{PAD}/"),
    ("loosened", "step_loosened", f"{SLICE}/step/"),
    ("tightened", "depthwise_refused", f"{CONV}/groups/"),
    ("loosened", "groups_loosened", f"{CONV}/groups/"),
    ("wrong_sign", "dims_by_sign dims_from_the_front", f"{MEAN}/dims/"),
    ("wrong_axis", "dims_wrong_axis", f"{MEAN}/dims/"),
    ("wrong_default", "keepdim_wrong_default", f"{MEAN}/keepdim/"),
    ("wrong_default", "include_pad_wrong_default", f"{AVERAGE}/"),
    ("wrong_axis", "padded_from_the_front", f"{PAD}/channel_and_batch_padding/"),
    ("wrong_sign", "slice_wrong_sign", f"{SLICE}/transposition/"),
    ("wrong_axis", "rows_only", f"{BMM}/matrix_dims_multiple_of/"),
    ("wrong_axis", "last_dim_only", "aten.mul.Tensor/any_dim_multiple_of/"),
    ("loosened", "zero_points_mixed scales_mixed", f"{AVERAGE}/same_qparams/"),
    ("wrong_axis", "height_divides", f"{ADAPTIVE}*/output_divides_input/"),
    ("wrong_sign", "softmax_of_last_dim", f"{SOFTMAX}/channel_dim/"),
    ("loosened", "no_ops_taken", f"{VIEW}/not_alone/"),
    ("loosened", "neutral_constants_taken", f"{ADD}/not_alone/"),
    ("unstable", "moody", f"{ABS}/operator/"),
)
BLOBS: tuple[Entry, ...] = (
    ("bias", "bias_dropped bias_reversed bias_doubled", f"{ADDMM}/operator/"),
    ("bias", "bias_of_16_bits", f"{CONV}/"),
    ("axis", "strides_exchanged dilations_exchanged", f"{CONV}/operator/"),
    ("axis", "filter_exchanged", f"{AVERAGE}/operator/"),
    ("attribute", "dilation_lost", f"{CONV}/operator/"),
    ("padding", "padded_always", f"{CONV}/operator/"),
    ("per_channel", "scales_reversed first_scale_for_all", f"{CONV}/operator/"),
    ("layout", "weights_mirrored weights_transposed channels_reversed", f"{CONV}/operator/"),
    ("layout", "matrix_transposed", f"{ADDMM}/operator/"),
    ("weights", "weights_negated weights_of_7_bits", f"{ADDMM}/operator/"),
    ("shared_constants", "constants_shared", f"{CONV}/operator/"),
    ("zero_point", "zero_point_shifted", f"{ABS}/operator/"),
    ("scale", "scale_of_result", f"{ADDMM}/operator/"),
    ("fused_activation", "activation_lost", f"{CONV}/operator/"),
    ("fused_activation", "relu6_for_relu", f"{RELU}/operator/"),
    ("fused_activation", "relu_for_relu6 relu_for_relu1", f"{HARDTANH}/"),
    ("operands", "matrices_exchanged", f"{BMM}/operator/"),
    ("operands", "parts_exchanged", f"{CAT}/operator/"),
    ("axis", "axis_before", f"{CAT}/operator/"),
    ("layout", "permutation_inverted", f"{PERMUTE}*/operator/"),
    ("attribute", "begin_off_by_one begin_lost", f"{SLICE}/operator/"),
    ("padding", "pads_exchanged pad_axes_exchanged pad_code_zero", f"{PAD}/operator/"),
    ("axis", "axes_off_by_one", f"{MEAN}/operator/"),
    ("axis", "size_exchanged", f"{BILINEAR}*/operator/"),
    ("attribute", "corners_forgotten corners_always half_pixels_forgotten", f"{BILINEAR}*/operator/"),
    ("attribute", "slope_negated slope_by_default", f"{LEAKY}/operator/"),
    ("per_channel", "slopes_reversed", f"{PRELU}/operator/"),
    ("attribute", "beta_doubled", f"{SOFTMAX}/operator/"),
    ("operator", "tanh_for_logistic", f"{SIGMOID}/operator/"),
    ("operator", "maximum_for_average", f"{AVERAGE}/operator/"),
    ("unstable", "dated", f"{ABS}/operator/"),
)
NUMBERS: tuple[Entry, ...] = (
    ("rounding", "single_rounding single_rounding_everywhere truncating flooring", f"{CONV}/operator/"),
    ("ties", "half_even", f"{MEAN}/operator/"),
    ("saturation", "wrapping saturating_early never_the_smallest", f"{CONV}/operator/"),
    ("zero_point", "zero_point_forgotten", f"{CONV}/operator/"),
    ("accumulator", "sums_of_16_bits", f"{CONV}/operator/"),
    ("per_channel", "first_channel_for_all", f"{CONV}/operator/"),
    ("fused_activation", "activation_ignored", f"{CONV}/operator/"),
    ("rounding", "multipliers_of_16_bits", f"{CONV}/operator/"),
    ("lut", "table_entry_repeated table_shifted table_unsigned table_interpolated", f"{SIGMOID}/operator/"),
    ("lut", "tanh_entry_repeated tanh_interpolated", f"{TANH}/operator/"),
    ("rounding", "average_floored", f"{AVERAGE}/operator/"),
    ("padding", "maximum_of_positives", f"{MAX_POOL}/operator/"),
    ("layout", "pool_transposed", f"{MAX_POOL}/operator/"),
    ("precision", "plain_softmax", f"{SOFTMAX}/operator/"),
    ("constant", "constant", f"{SIGMOID}/operator/"),
    ("memory", "overwriting", f"{ABS}/operator/"),
    ("precision", "coarse_sums", f"{ADD}/operator/"),
    ("saturation", "absolute_wraps", f"{ABS}/operator/"),
    ("rounding", "bilinear_floored", f"{BILINEAR}*/operator/"),
    ("layout", "nearest_transposed", f"{NEAREST}*/operator/"),
    ("layout", "parts_rotated", f"{CAT}/operator/"),
    ("layout", "transposed_twice", f"{PERMUTE}*/operator/"),
    ("rounding", "products_off_by_one", f"{MM}/operator/"),
    ("layout", "matrix_rows_rotated", f"{BMM}/operator/"),
    ("function", "slopes_ignored", f"{LEAKY}/operator/"),
    ("function", "negatives_kept", f"{RELU}/operator/"),
)
# Where another check than the stage's usual one must notice.
CHECKS = {
    "moody": ("determinism",),
    "dated": ("determinism",),
    "constant": ("not_constant",),
    "overwriting": ("mutation",),
}
USUAL = {"partitioner": ("tag",), "compiler": (), "device": ("gate1",)}


def catalogue(backend: Backend) -> tuple[Fault, ...]:
    """All faults of Neutron."""
    return _catalogue()


@cache
def _catalogue() -> tuple[Fault, ...]:
    return (
        *_listed("partitioner", partitioner, TAGS),
        *partitioner.dropped(),
        *partitioner.misnamed(),
        *_listed("compiler", compiler, BLOBS),
        *_listed("device", device, NUMBERS),
    )


EXTREMES: tuple[Entry, ...] = (
    ("function", "smaller_for_larger", "aten.maximum.default/operator/"),
    ("function", "larger_for_smaller", "aten.minimum.default/operator/"),
    ("function", "reduced_to_smaller", "aten.amax.default/operator/"),
    ("function", "reduced_to_larger", "aten.amin.default/operator/"),
    ("function", "mean_for_sum", "aten.sum.dim_IntList/operator/"),
    ("lut", "tanh_for_exponential", "aten.exp.default/operator/"),
    ("lut", "logarithm_shifted", "aten.log.default/operator/"),
)


def catalogue_1_4(backend: Backend) -> tuple[Fault, ...]:
    """The faults of what release 1.4 changes."""
    return _catalogue_1_4()


@cache
def _catalogue_1_4() -> tuple[Fault, ...]:
    faults = (partitioner.of_first_release(), *partitioner.dropped("1.4"))
    return (*faults, *_listed("device", device, EXTREMES))


def _listed(stage: str, module: ModuleType, entries: tuple[Entry, ...]) -> Iterator[Fault]:
    for kind, names, cases in entries:
        for name in names.split():
            checks = frozenset(CHECKS.get(name, USUAL[stage]))
            yield Fault(name, stage, kind, getattr(module, name), (cases,), checks)
