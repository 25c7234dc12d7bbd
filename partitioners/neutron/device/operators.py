"""Which operators the device has, how many inputs each takes, and what prepares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from npu_assay.partitioners.common.machine import DeviceError, Step, limits_of_kernels
from npu_assay.partitioners.neutron.device import convolution, elementwise, layout, matmul, pooling
from npu_assay.partitioners.neutron.device.site import Site

MANY: Final = 2**16


@dataclass(frozen=True)
class Rule:
    """`prepare` checks an operator and makes its kernel; `fewest` to `most` inputs, of which a bias may be -1."""

    prepare: Callable[[Site], Step]
    fewest: int
    most: int
    bias: int | None = None


RULES: Final[Mapping[str, Rule]] = {
    "ABS": Rule(elementwise.abs_, 1, 1),
    "ADD": Rule(elementwise.add, 2, 2),
    "AVERAGE_POOL_2D": Rule(pooling.average_pool_2d, 1, 1),
    "BATCH_MATMUL": Rule(matmul.batch_matmul, 2, 2),
    "CONCATENATION": Rule(layout.concatenation, 1, MANY),
    "CONV_2D": Rule(convolution.conv_2d, 2, 3, bias=2),
    "DEPTHWISE_CONV_2D": Rule(convolution.depthwise_conv_2d, 2, 3, bias=2),
    "EXP": Rule(elementwise.exp, 1, 1),
    "FULLY_CONNECTED": Rule(matmul.fully_connected, 2, 3, bias=2),
    "LEAKY_RELU": Rule(elementwise.leaky_relu, 1, 1),
    "LOG": Rule(elementwise.log, 1, 1),
    "LOGISTIC": Rule(elementwise.logistic, 1, 1),
    "MAXIMUM": Rule(elementwise.maximum, 2, 2),
    "MAX_POOL_2D": Rule(pooling.max_pool_2d, 1, 1),
    "MEAN": Rule(pooling.mean, 2, 2),
    "MINIMUM": Rule(elementwise.minimum, 2, 2),
    "MUL": Rule(elementwise.mul, 2, 2),
    "PAD": Rule(layout.pad, 2, 2),
    "PADV2": Rule(layout.padv2, 3, 3),
    "PRELU": Rule(elementwise.prelu, 2, 2),
    "QUANTIZE": Rule(elementwise.quantize, 1, 1),
    "REDUCE_MAX": Rule(pooling.reduce_max, 2, 2),
    "REDUCE_MIN": Rule(pooling.reduce_min, 2, 2),
    "RELU": Rule(elementwise.relu, 1, 1),
    "RELU6": Rule(elementwise.relu, 1, 1),
    "RELU_0_TO_1": Rule(elementwise.relu, 1, 1),
    "RELU_N1_TO_1": Rule(elementwise.relu, 1, 1),
    "RESHAPE": Rule(layout.reshape, 1, 2),
    "RESIZE_BILINEAR": Rule(pooling.resize_bilinear, 2, 2),
    "RESIZE_NEAREST_NEIGHBOR": Rule(pooling.resize_nearest_neighbor, 2, 2),
    "SLICE": Rule(layout.slice_, 3, 3),
    "SOFTMAX": Rule(elementwise.softmax, 1, 1),
    "SUB": Rule(elementwise.sub, 2, 2),
    "SUM": Rule(pooling.sum_, 2, 2),
    "TANH": Rule(elementwise.tanh, 1, 1),
    "TRANSPOSE": Rule(layout.transpose, 2, 2),
    "TRANSPOSE_CONV": Rule(convolution.transpose_conv, 3, 4, bias=3),
}
"""BuiltinOperator name -> rule."""


def prepare(site: Site) -> Step:
    """Check an operator's rules and make its kernel. Raises DeviceError with the rule that it breaks."""
    rule = RULES.get(site.operator.code)
    if rule is None:
        raise DeviceError("operator", site.operator.code, "one that the device has", site.where)
    count = len(site.inputs)
    site.require(rule.fewest <= count <= rule.most, "number of inputs", count, f"{rule.fewest} to {rule.most}")
    site.require(len(site.outputs) == 1, "number of outputs", len(site.outputs), "1")
    for position, tensor in enumerate(site.inputs):
        present = tensor is not None or position == rule.bias
        site.require(present, f"input {position}", "absent (-1)", "a tensor")
    with limits_of_kernels(site.where):
        return rule.prepare(site)
