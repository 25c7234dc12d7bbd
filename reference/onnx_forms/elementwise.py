"""Functions of each number and activations in ONNX."""

from __future__ import annotations

from npu_assay.reference.onnx_forms.site import Form, Site, X


def _scaled(kind: str) -> Form:
    """The second operand times alpha."""

    def form(s: Site[X]) -> X:
        other = s.operand("other")
        if s["alpha"] != 1:
            other = s.op("Mul", other, s.number(s["alpha"]))
        return s.op(kind, s.operand("self"), other)

    return form


plus, less = _scaled("Add"), _scaled("Sub")


def _clip(lower: str, upper: str) -> Form:
    return lambda s: s.op("Clip", s.x(), *(None if s[name] is None else s.number(s[name]) for name in (lower, upper)))


hardtanh, clamp = _clip("min_val", "max_val"), _clip("min", "max")


def prelu(s: Site[X]) -> X:
    """Slopes broadcast from the right in ONNX; in torch they lie along dim 1."""
    slope, rank = s.x("weight"), len(s.shape())
    if rank > 2:
        slope = s.op("Reshape", slope, s.ints([-1, *[1] * (rank - 2)]))
    return s.op("PRelu", s.x(), slope)


def softmax(s: Site[X]) -> X:
    return s.op("Softmax", s.x(), axis=s["dim"])


def elu(s: Site[X]) -> X:
    if s["input_scale"] != 1:
        raise s.refuse("elu_scales", "Elu has no input_scale")
    bent = s.op("Elu", s.x(), alpha=float(s["alpha"]))
    return bent if s["scale"] == 1 else s.op("Mul", bent, s.number(s["scale"]))


def rsqrt(s: Site[X]) -> X:
    """By way of the root: the power of -0 would be +inf, where IEEE 754's rSqrt is -inf."""
    return s.op("Reciprocal", s.op("Sqrt", s.x()))


def silu(s: Site[X]) -> X:
    return s.op("Mul", s.x(), s.op("Sigmoid", s.x()))
