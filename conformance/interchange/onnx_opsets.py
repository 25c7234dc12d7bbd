"""Nodes of the newest opset as an older one says them, where it only says them otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto, TensorProto, helper, numpy_helper

from npu_assay.reference.onnx_forms.site import FormError

_AXES_ARE_INPUT_SINCE = {"ReduceMax": 18, "ReduceMean": 18, "ReduceMin": 18, "ReduceProd": 18}


_DIVISORS_SINCE = 19
"""The opset that says what an average pool divides by where its last window leaves the padded input."""


def in_opset(node: NodeProto, constants: Sequence[TensorProto], opset: int) -> NodeProto:
    """The node as it is, or with its axes as an attribute. Raises FormError for what the opset leaves open."""
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type == "AveragePool" and opset < _DIVISORS_SINCE and given.get("ceil_mode"):
        raise FormError("opset", f"AveragePool with ceil_mode: opset {opset} does not say what it divides by")
    if opset >= _AXES_ARE_INPUT_SINCE.get(node.op_type, 0) or len(node.input) < 2:
        return node
    x, axes = node.input
    numbers = next(numpy_helper.to_array(each) for each in reversed(constants) if each.name == axes)
    return helper.make_node(node.op_type, [x], list(node.output), axes=numbers.tolist(), **given)
