"""Functions of each number and activations by ONNX."""

from __future__ import annotations

import math

import numpy as np

from npu_assay.reference.onnx_node import Given, Node, Rule, array, of_number, through

plus, less, taken_from = of_number("Add"), of_number("Sub"), of_number("Sub", reverse=True)
times, over = of_number("Mul"), of_number("Div")


def hardshrink(given: Given) -> Node | None:
    """Shrink keeps its limit in float32."""
    limit = float(given["lambd"])
    return Node("Shrink", [array(given["self"])], {"lambd": limit, "bias": 0.0}) if _single(limit) else None


def softshrink(given: Given) -> Node | None:
    """The same, less the limit."""
    limit = float(given["lambd"])
    return Node("Shrink", [array(given["self"])], {"lambd": limit, "bias": limit}) if _single(limit) else None


def _single(number: float) -> bool:
    return float(np.float32(number)) == number


def log2(given: Given) -> Node:
    """The natural logarithm over that of 2."""
    return Node("Div", [through("Log", array(given["self"])), np.asarray(math.log(2.0))])


def logit(given: Given) -> Node:
    """log(x / (1 - x)), cut off."""
    x, eps = array(given["self"]), given["eps"]
    kept = x if eps is None else through("Clip", x, float(eps), 1.0 - float(eps))
    return Node("Log", [through("Div", kept, through("Sub", 1.0, kept))])


def softplus(given: Given) -> Node | None:
    """Softplus has no threshold: compared below it."""
    x, beta = array(given["self"]), float(given["beta"])
    if x.size and float((x * beta).max()) > float(given["threshold"]):
        return None
    return Node("Div", [through("Softplus", through("Mul", x, beta)), np.asarray(beta)])


def mish(given: Given) -> Node:
    """x * tanh(log(1 + exp(x)))."""
    x = array(given["self"])
    return Node("Mul", [x, through("Tanh", through("Softplus", x))])


def trunc(given: Given) -> Node:
    """The size rounded down, with its sign."""
    x = array(given["self"])
    return Node("Mul", [through("Sign", x), through("Floor", through("Abs", x))])


def fmod(given: Given) -> Node:
    """Mod as C has it."""
    return Node("Mod", [array(given["self"]), array(given["other"])], {"fmod": 1})


def power_of(given: Given) -> Node:
    """A number to the power of a tensor."""
    return Node("Pow", [array(given["self"]), array(given["exponent"])])


def log_softmax(given: Given) -> Node:
    """LogSoftmax."""
    return Node("LogSoftmax", [array(given["self"])], {"axis": given["dim"]})


def _clip(lower: str, upper: str) -> Rule:
    def rule(given: Given) -> Node:
        limits = [None if given[name] is None else np.asarray(float(given[name])) for name in (lower, upper)]
        return Node("Clip", [array(given["self"]), *limits])

    return rule


hardtanh, clamp = _clip("min_val", "max_val"), _clip("min", "max")


def relu6(given: Given) -> Node:
    return Node("Clip", [array(given["self"]), np.asarray(0.0), np.asarray(6.0)])


def prelu(given: Given) -> Node:
    """Slopes broadcast from the right in ONNX; in torch they lie along dim 1."""
    x, slope = array(given["self"]), array(given["weight"])
    return Node("PRelu", [x, slope.reshape(-1, *[1] * (x.ndim - 2))])


def softmax(given: Given) -> Node:
    return Node("Softmax", [array(given["self"])], {"axis": given["dim"]})


def leaky_relu(given: Given) -> Node:
    """The slope is an attribute, which ONNX keeps in float32; PRelu takes the same slope as a tensor."""
    return Node("PRelu", [array(given["self"]), np.asarray(float(given["negative_slope"]))])


def elu(given: Given) -> Node | None:
    """alpha is an attribute, which ONNX keeps in float32, and there are no other scales."""
    alpha = float(given["alpha"])
    if float(np.float32(alpha)) != alpha or (given["scale"], given["input_scale"]) != (1, 1):
        return None
    return Node("Elu", [array(given["self"])], {"alpha": alpha})


def gelu(given: Given) -> Node | None:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""
    if given["approximate"] != "tanh":
        return None
    x = array(given["self"])
    inner = through("Add", x, through("Mul", through("Pow", x, 3.0), 0.044715))
    bent = through("Tanh", through("Mul", inner, math.sqrt(2 / math.pi)))
    return Node("Mul", [through("Mul", x, 0.5), through("Add", bent, 1.0)])


def hardswish(given: Given) -> Node:
    """x / 6 * clip(x + 3, 0, 6): HardSwish's own sixth is a float32 number."""
    x = array(given["self"])
    return Node("Mul", [through("Div", x, 6.0), through("Clip", through("Add", x, 3.0), 0.0, 6.0)])


def rsqrt(given: Given) -> Node:
    """By way of the root: the power of -0 would be +inf, where IEEE 754's rSqrt is -inf."""
    return Node("Reciprocal", [through("Sqrt", array(given["self"]))])


def silu(given: Given) -> Node:
    """x * sigmoid(x)."""
    x = array(given["self"])
    return Node("Mul", [x, through("Sigmoid", x)])


def log10(given: Given) -> Node:
    """The natural logarithm over that of 10."""
    return Node("Div", [through("Log", array(given["self"])), np.asarray(math.log(10.0))])
