"""How each edge operator is written in ONNX: as the map of the reference has it, or by a form of the export's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import torch

from npu_assay.conformance.interchange.onnx_writer import Site
from npu_assay.reference.onnx_forms.pooling import max_pool
from npu_assay.reference.onnx_forms.site import FormError, onnx_form, plain

Rule = Callable[[Site], str | tuple[str, ...]]


def _clip_by_tensors(s: Site) -> str:
    """The lower limit first, as in torch."""
    x = s.x()
    for name, kind in (("min", "Max"), ("max", "Min")):
        if s[name] is not None:
            x = s.op(kind, x, s.x(name))
    return x


def _bits(kind: str) -> Rule:
    """And, Or, Xor of booleans, or of the bits of integers."""

    def rule(s: Site) -> str:
        whole = kind if s.result.dtype == torch.bool else f"Bitwise{kind}"
        return s.op(whole, s.x(), s.x("other"))

    return rule


def _not(s: Site) -> str:
    return s.op("Not" if s.result.dtype == torch.bool else "BitwiseNot", s.x())


def _batch_norm(s: Site) -> str:
    """A norm with stored statistics; ONNX requires scale and offset."""
    channels = s.shape("running_mean")
    scale, offset = (
        s.writer.constant(np.full(channels, default, np.float32)) if s[name] is None else s.x(name)
        for name, default in (("weight", 1), ("bias", 0))
    )
    inputs = (s.x("input"), scale, offset, s.x("running_mean"), s.x("running_var"))
    return s.op("BatchNormalization", *inputs, epsilon=float(s["eps"]))


def _max_pool_with_indices(s: Site) -> str | tuple[str, ...]:
    """ONNX counts indices over the whole tensor, torch in each plane."""
    if not any(user.args[1] == 1 for user in s.node.users):
        return max_pool(s, 2)[0]
    values, indices = max_pool(s, 2, results=2)
    height, width = s.shape()[-2:]
    return values, s.op("Mod", indices, s.number(height * width, torch.int64))


def _repeated(s: Site) -> str:
    repeats, shape = list(s["repeats"]), s.shape()
    x = s.x()
    if len(repeats) > len(shape):
        x = s.op("Reshape", x, s.ints([*[1] * (len(repeats) - len(shape)), *shape]))
    return s.op("Tile", x, s.ints(repeats))


def _flipped(s: Site) -> str:
    axes = list(s["dims"])
    if not axes:
        return s.op("Identity", s.x())
    back = -(2**31)
    return s.op(
        "Slice", s.x(), s.ints([-1] * len(axes)), s.ints([back] * len(axes)), s.ints(axes), s.ints([-1] * len(axes))
    )


def _gelu(s: Site) -> str:
    """Gelu, which opset 20 brought; before that the expression of it that torch exports."""
    x = s.x()
    if s.writer.opset >= 20:
        return s.op("Gelu", x, approximate=s["approximate"])
    if s["approximate"] == "none":
        bent = s.op("Erf", s.op("Div", x, s.number(math.sqrt(2))))
    else:
        cubed = s.op("Mul", s.op("Pow", x, s.number(3)), s.number(0.044715))
        bent = s.op("Tanh", s.op("Mul", s.op("Add", x, cubed), s.number(math.sqrt(2 / math.pi))))
    return s.op("Mul", s.op("Mul", x, s.op("Add", bent, s.number(1))), s.number(0.5))


def _selected(s: Site) -> str:
    return s.op("Gather", s.x(), s.number(s["index"], torch.int64), axis=s["dim"])


OWN: Mapping[str, Rule] = MappingProxyType(
    {
        # where ONNX keeps constants in float32, which the second golden does not
        "aten.erf.default": plain("Erf"),
        "aten.selu.default": plain("Selu"),
        "aten.hardswish.default": plain("HardSwish"),
        "aten.gelu.default": _gelu,
        "aten.celu.default": lambda s: s.op("Celu", s.x(), alpha=float(s["alpha"])),
        "aten.hardsigmoid.default": lambda s: s.op("HardSigmoid", s.x(), alpha=1 / 6, beta=0.5),
        "aten.leaky_relu.default": lambda s: s.op("LeakyRelu", s.x(), alpha=float(s["negative_slope"])),
        "aten._native_batch_norm_legit_no_training.default": _batch_norm,
        # where nothing is computed that two goldens could compare
        "aten.max_pool2d_with_indices.default": _max_pool_with_indices,
        "aten.logical_not.default": plain("Not"),
        "aten.bitwise_not.default": _not,
        **{f"aten.logical_{kind.lower()}.default": _bits(kind) for kind in ("And", "Or", "Xor")},
        **{f"aten.bitwise_{kind.lower()}.Scalar": _bits(kind) for kind in ("And", "Or", "Xor")},
        **{f"aten.bitwise_{kind.lower()}.Tensor": _bits(kind) for kind in ("And", "Or", "Xor")},
        "aten.where.self": lambda s: s.op("Where", s.x("condition"), s.x(), s.x("other")),
        "aten.masked_fill.Scalar": lambda s: s.op("Where", s.x("mask"), s.x("value"), s.x()),
        "aten.clamp.Tensor": _clip_by_tensors,
        "aten.repeat.default": _repeated,
        "aten.flip.default": _flipped,
        "aten.select_copy.int": _selected,
        "aten.index_select.default": lambda s: s.op("Gather", s.x(), s.x("index"), axis=s["dim"]),
        "aten.embedding.default": lambda s: s.op("Gather", s.x("weight"), s.x("indices"), axis=0),
        "aten.gather.default": lambda s: s.op("GatherElements", s.x(), s.x("index"), axis=s["dim"]),
    }
)
"""Forms of edge operators that the reference's map does not have, or not as ONNX computes them in float32."""


def rule(name: str) -> Rule | None:
    """The form of an edge operator; None for one that has no form in ONNX (yet)."""
    return OWN.get(name) or onnx_form(name)


def written(site: Site, name: str) -> str | tuple[str, ...]:
    """Write one operator; returns the names of its results. Raises FormError for one without a form in ONNX."""
    found = rule(name)
    if found is None:
        raise FormError("operator", f"{name} has no form in ONNX here")
    results, listed = found(site), site.node.meta["val"]
    if isinstance(results, str) and isinstance(listed, (tuple, list)):  # of several only the first has a form
        return (results, *[""] * (len(listed) - 1))
    return results
