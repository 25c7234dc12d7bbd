"""Activations and softmax."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import rank_is
from npu_assay.partitioners.neutron.lowering import activation as lowering
from npu_assay.partitioners.neutron.lowering.elementwise import unary
from npu_assay.partitioners.neutron.lowering.quantization import LOGISTIC_OUTPUT, TANH_OUTPUT
from npu_assay.partitioners.neutron.operators.row import Annotation, Exported, Row
from npu_assay.partitioners.neutron.support import activation as limits
from npu_assay.partitioners.neutron.support import rescale
from npu_assay.partitioners.neutron.support.common import (
    channels_multiple,
    device_rank,
    output_qparams_are,
    second_dim_multiple,
)
from npu_assay.partitioners.neutron.support.stage import alone_bounded_channels, alone_channels

RELU = Row(
    rules=(device_rank,),
    problem=rescale.unary,
    stage=(alone_channels,),
    lower=unary("RELU"),
    exported=Exported(Annotation.FREE, ("aten.relu_.default", "aten.relu6.default")),
    keeps_format=True,
    is_auxiliary=True,
    narrows=True,
)
HARDTANH = Row(
    rules=(limits.bounds_in(limits.HARDTANH_BOUNDS), device_rank),
    problem=rescale.clamp,
    stage=(alone_bounded_channels,),
    lower=lowering.hardtanh,
    exported=Exported(Annotation.FREE, ("aten.hardtanh_.default",)),
    keeps_format=True,
    is_auxiliary=True,
    narrows=True,
)
ROWS: Mapping[str, Row] = {
    "aten.relu.default": RELU,
    "aten.hardtanh.default": HARDTANH,
    "aten.clamp.default": Row(
        rules=(limits.bounds_in(limits.CLAMP_BOUNDS), device_rank),
        problem=rescale.clamp,
        stage=(alone_bounded_channels,),
        lower=lowering.clamp,
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        narrows=True,
    ),
    "aten.leaky_relu.default": Row(
        rules=(device_rank,),
        problem=rescale.leaky,
        lower=lowering.leaky_relu,
        exported=Exported(Annotation.FREE),
        keeps_format=True,
    ),
    "aten.prelu.default": Row(
        rules=(rank_is(4), second_dim_multiple, limits.positions(axis_is_second=True), limits.constant_slope),
        problem=rescale.prelu,
        lower=lowering.prelu,
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        newer={"1.4": {"rules": (device_rank, limits.constant_slope)}},
    ),
    "aten.sigmoid.default": Row(
        rules=(device_rank, output_qparams_are(*LOGISTIC_OUTPUT)),
        lower=lowering.fixed("LOGISTIC", LOGISTIC_OUTPUT),
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        is_auxiliary=True,
        fixed_output=LOGISTIC_OUTPUT,
    ),
    "aten.tanh.default": Row(
        rules=(device_rank, output_qparams_are(*TANH_OUTPUT)),
        lower=lowering.fixed("TANH", TANH_OUTPUT),
        exported=Exported(Annotation.FREE),
        keeps_format=True,
        is_auxiliary=True,
        fixed_output=TANH_OUTPUT,
    ),
    "aten._softmax.default": Row(
        rules=(
            limits.min_rank,
            device_rank,
            limits.along_channels,
            channels_multiple,
            limits.max_channels,
            limits.positions(axis_is_second=False),
            limits.max_size,
            output_qparams_are(*LOGISTIC_OUTPUT),
        ),
        problem=rescale.softmax,
        lower=lowering.softmax,
        exported=Exported(Annotation.FREE, ("aten.softmax.int",), has_own_name=False),
        keeps_format=True,
        fixed_output=LOGISTIC_OUTPUT,
    ),
}
