"""Activations that run in the output stage of the operator before them.

Every rescale saturates at its end. An activation that keeps the quantization only narrows that range, so
after such an operator, when nothing else reads the codes between, it costs nothing and changes no code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from npu_assay.partitioners.neutron.device.elementwise import REAL_LIMITS
from npu_assay.partitioners.neutron.tflite_model import Model, Operator

RESCALING: Final = frozenset({"ADD", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MUL", "SUB", "TRANSPOSE_CONV"})
"""Operators that end in a rescale and have the option `fused_activation_function`."""


def fused_operators(model: Model) -> dict[int, Operator]:
    """The model's operators by position, without the activations that the operator before them takes in."""
    readers = Counter(index for operator in model.operators for index in operator.inputs) + Counter(model.outputs)
    operators = dict(enumerate(model.operators))
    writers: dict[int, int] = {}
    for position, operator in enumerate(model.operators):
        source = writers.get(operator.inputs[0]) if operator.inputs else None
        if source is not None and readers[operator.inputs[0]] == 1 and _takes_in(model, operators[source], operator):
            options = {**operators[source].options, "fused_activation_function": operator.code}
            operators[source] = replace(operators[source], outputs=operator.outputs, options=options)
            del operators[position]
        else:
            writers |= dict.fromkeys(operator.outputs, position)
    return operators


def _takes_in(model: Model, source: Operator, operator: Operator) -> bool:
    """Whether `operator` is an activation that only narrows the range of what `source` writes."""
    if operator.code not in REAL_LIMITS or (len(operator.inputs), len(operator.outputs)) != (1, 1):
        return False
    x, y = (model.tensors[index] for index in (operator.inputs[0], operator.outputs[0]))
    same = (x.dtype, x.shape, x.scales, x.zero_points) == (y.dtype, y.shape, y.scales, y.zero_points)
    return same and source.options.get("fused_activation_function") == "NONE" and _rescales(model, source)


def _rescales(model: Model, source: Operator) -> bool:
    """FULLY_CONNECTED by computed weights has no fused activation on this device."""
    weights = [model.tensors[index] for index in source.inputs[1:2]]
    computed = source.code == "FULLY_CONNECTED" and any(tensor.data is None for tensor in weights)
    return source.code in RESCALING and not computed
