"""Functions of each number and activations by ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable

from npu_assay.reference.onnx_forms.site import Array
from npu_assay.reference.onnx_node import Evaluated


def taken_from(s: Evaluated) -> Array:
    return s.op("Sub", s.x("other"), s.x() * s["alpha"])


def relu6(s: Evaluated) -> Array:
    return s.op("Clip", s.x(), s.number(0.0), s.number(6.0))


def hardshrink(s: Evaluated) -> Array:
    return s.op("Shrink", s.x(), lambd=float(s["lambd"]), bias=0.0)


def softshrink(s: Evaluated) -> Array:
    """The same, less the limit."""
    return s.op("Shrink", s.x(), lambd=float(s["lambd"]), bias=float(s["lambd"]))


def _log(base: float) -> Callable[[Evaluated], Array]:
    """The natural logarithm over that of the base."""
    return lambda s: s.op("Div", s.op("Log", s.x()), s.number(math.log(base)))


log2, log10 = _log(2.0), _log(10.0)


def logit(s: Evaluated) -> Array:
    """log(x / (1 - x)), cut off."""
    x, eps = s.x(), s["eps"]
    if eps is not None:
        x = s.op("Clip", x, s.number(eps), s.number(1.0 - eps))
    return s.op("Log", s.op("Div", x, s.op("Sub", s.number(1.0), x)))


def softplus(s: Evaluated) -> Array:
    """Softplus has no threshold: compared below it."""
    scaled, beta = s.x() * s["beta"], s.number(s["beta"])
    if (scaled > s["threshold"]).any():
        raise s.refuse("threshold", "Softplus has no threshold")
    return s.op("Div", s.op("Softplus", scaled), beta)


def mish(s: Evaluated) -> Array:
    """x * tanh(log(1 + exp(x)))."""
    return s.op("Mul", s.x(), s.op("Tanh", s.op("Softplus", s.x())))


def trunc(s: Evaluated) -> Array:
    """The size rounded down, with its sign."""
    return s.op("Mul", s.op("Sign", s.x()), s.op("Floor", s.op("Abs", s.x())))


def fmod(s: Evaluated) -> Array:
    """Mod as C has it."""
    return s.op("Mod", s.x(), s.x("other"), fmod=1)


def log_softmax(s: Evaluated) -> Array:
    return s.op("LogSoftmax", s.x(), axis=s["dim"])


def leaky_relu(s: Evaluated) -> Array:
    """LeakyRelu keeps its slope in float32; PRelu takes the same slope as a tensor."""
    return s.op("PRelu", s.x(), s.number(s["negative_slope"]))


def gelu(s: Evaluated) -> Array:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""
    if s["approximate"] != "tanh":
        raise s.refuse("erf", "onnx.reference computes erf in float32")
    x = s.x()
    inner = s.op("Add", x, s.op("Mul", s.op("Pow", x, s.number(3)), s.number(0.044715)))
    bent = s.op("Tanh", s.op("Mul", inner, s.number(math.sqrt(2 / math.pi))))
    return s.op("Mul", s.op("Mul", x, s.number(0.5)), s.op("Add", bent, s.number(1)))


def hardswish(s: Evaluated) -> Array:
    """x / 6 * clip(x + 3, 0, 6): HardSwish's own sixth is a float32 number."""
    six, shifted = s.number(6), s.op("Add", s.x(), s.number(3))
    return s.op("Mul", s.op("Div", s.x(), six), s.op("Clip", shifted, s.number(0), six))
