"""The list of XNNPACK's faults: what is broken, how, and which cases and checks show it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import ModuleType

from npu_assay.faults import Fault
from npu_assay.faults.xnnpack import compiler, device, partitioner
from npu_assay.faults.xnnpack.dropped import dropped, misnamed
from npu_assay.partitioners.exir.backend import Backend

ABS, ADD, LINEAR, CONV = "aten.abs.default", "aten.add.Tensor", "aten.linear.default", "aten.conv2d.default"
MAX_POOL, CAT, SOFTMAX = "aten.max_pool2d.default", "aten.cat.default", "aten._softmax.default"
Entry = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Kind, name, cases and checks."""

TAGS: tuple[Entry, ...] = (
    ("dropped", "alpha_taken", (f"{ADD}/fp32/alpha/",), ("tag",)),
    ("wrong_sign", "minus_taken", ("aten.sub.Tensor/fp32/alpha/",), ("tag",)),
    ("off_by_one", "rank_off_by_one", (f"{ABS}/fp32/max_rank/",), ("tag",)),
    ("off_by_one", "stride_off_by_one", (f"{MAX_POOL}/fp32/stride",), ("tag",)),
    ("dropped", "zero_points_taken", (f"{LINEAR}/static_int8/weight_zero_point/",), ("tag",)),
    ("dropped", "scales_mixed", (f"{CAT}/static_int8/same_qparams/",), ("tag",)),
    ("dropped", "scale_unlimited", (f"{LINEAR}/static_int8/requant_scale/",), ("tag",)),
    ("dropped", "layers_in_parts_taken", (f"{LINEAR}/static_int8_per_channel/quantized/",), ("tag",)),
    ("dropped", "doubles_taken", ("aten.exp.default/fp32/dtype/",), ("tag",)),
    ("misnamed", "another_reason", (f"{SOFTMAX}/fp32/last_dim/",), ("reason",)),
    ("tightened", "never_on_codes", ("aten.mul.Tensor/static_int8/operator/",), ("delegates",)),
    ("wrong_default", "precision_ignored", (f"{ABS}/fp32/precision/",), ("tag",)),
    ("wrong_default", "per_op_mode_ignored", (f"{ABS}/fp32/operator/",), ("delegates",)),
    ("wrong_default", "configs_ignored", (f"{ABS}/fp32/configs/",), ("tag",)),
    ("unstable", "moody", (f"{ABS}/fp32/operator/",), ("determinism",)),
    ("grouping", "cycles_closed", (f"{ADD}/static_int8/add_scale_ratio/",), ("crash",)),
)
BLOBS: tuple[Entry, ...] = (
    ("bias", "bias_dropped", (f"{LINEAR}/static_int8/operator/", f"{LINEAR}/fp32/operator/"), ("gate1", "gate3")),
    ("axis", "strides_exchanged", (f"{CONV}/fp32/operator/",), ("crash",)),
    ("per_channel", "scales_reversed", (f"{LINEAR}/static_int8_per_channel/operator/",), ("gate1", "gate2", "gate3")),
    ("layout", "groups_transposed", (f"{LINEAR}/dynamic_int4/operator/",), ("gate3",)),
    ("layout", "nibbles_swapped", (f"{LINEAR}/dynamic_int4/operator/",), ("gate3",)),
    ("zero_point", "nibbles_signed", (f"{LINEAR}/dynamic_int4/operator/",), ("gate3",)),
    ("fused_activation", "clamp_lost", (f"{ADD}/static_int8/operator/context/",), ("gate1", "gate3")),
    ("fused_activation", "upper_limit_lost", ("aten.hardtanh.default/fp32/operator/",), ("gate1", "gate3")),
    ("layout", "permutation_inverted", ("aten.permute_copy.default/fp32/operator/",), ("crash",)),
    ("padding", "pads_exchanged", ("aten.constant_pad_nd.default/fp32/operator/",), ("gate1", "gate3")),
    ("operands", "operands_exchanged", ("aten.div.Tensor/fp32/operator/",), ("gate1", "gate3")),
    ("attribute", "corners_forgotten", ("aten.upsample_bilinear2d.vec/fp32/operator/",), ("gate3", "gate4")),
    ("precision", "weights_halved", (f"{LINEAR}/fp32/operator/",), ("gate3", "gate4")),
    ("unstable", "dated", (f"{ABS}/fp16/operator/",), ("determinism",)),
)
NUMBERS: tuple[Entry, ...] = (
    ("ties", "half_up", (f"{LINEAR}/static_int8/operator/",), ("gate1",)),
    ("rounding", "truncating", ("aten.mul.Tensor/static_int8/operator/",), ("gate1", "gate2")),
    ("zero_point", "zero_point_forgotten", (f"{LINEAR}/static_int8/operator/",), ("gate1", "gate2", "gate3")),
    ("saturation", "wrapping", (f"{LINEAR}/static_int8/operator/",), ("gate1", "gate3")),
    ("rounding", "exact_sums", (f"{ADD}/static_int8/operator/",), ("gate1",)),
    ("precision", "last_bit_off", (f"{ADD}/fp32/operator/",), ("gate1",)),
    ("precision", "reciprocal_division", ("aten.div.Tensor/fp32/operator/",), ("gate1",)),
    ("precision", "twice_as_far", ("aten.tanh.default/fp32/operator/",), ("gate3",)),
    ("precision", "estimated_root", ("aten.rsqrt.default/fp32/operator/",), ("gate3", "gate4")),
    ("overflow", "plain_softmax", (f"{SOFTMAX}/fp32/operator/",), ("finite",)),
    ("function", "tanh_gelu", ("aten.gelu.default/fp32/operator/",), ("gate3", "gate4")),
    ("function", "rounding_ceil", ("aten.ceil.default/fp32/operator/",), ("gate1",)),
    ("constant", "constant", ("aten.sigmoid.default/fp32/operator/",), ("not_constant",)),
    ("accumulator", "half_mean", ("aten.mean.dim/fp16/operator/",), ("gate3",)),
    ("accumulator", "brief_sums", (f"{LINEAR}/fp16/operator/",), ("gate3",)),
    ("per_channel", "per_tensor_rows", (f"{LINEAR}/dynamic_int8/operator/",), ("gate1",)),
    ("zero_point", "symmetric_rows", (f"{LINEAR}/dynamic_int8/operator/",), ("gate1",)),
    ("zero_point", "lowest_rows", (f"{LINEAR}/dynamic_int8/operator/",), ("gate1",)),
    ("rounding", "separate_rounding", (f"{LINEAR}/dynamic_int8/operator/",), ("gate1",)),
    ("shape", "sizes_of_the_bounds", (f"{ABS}/fp32/operator/",), ("shape",)),
    (
        "count_include_pad",
        "padding_counted",
        ("aten.avg_pool2d.default/fp32/count_include_pad/", "aten.avg_pool2d.default/fp32/operator/"),
        ("gate3", "gate4"),
    ),
    ("memory", "overwriting", (f"{ABS}/fp32/operator/",), ("mutation",)),
    ("count", "mean_of_one_less", ("aten.mean.dim/static_int8/operator/",), ("gate1", "gate3")),
)


def catalogue(backend: Backend) -> tuple[Fault, ...]:
    """All faults of XNNPACK."""
    return _catalogue()


@cache
def _catalogue() -> tuple[Fault, ...]:
    return (
        *_listed("partitioner", partitioner, TAGS),
        *dropped(),
        *misnamed(),
        *_listed("compiler", compiler, BLOBS),
        *_listed("device", device, NUMBERS),
    )


def _listed(stage: str, module: ModuleType, entries: tuple[Entry, ...]) -> Iterator[Fault]:
    for kind, name, cases, checks in entries:
        yield Fault(name, stage, kind, getattr(module, name), cases, frozenset(checks))
