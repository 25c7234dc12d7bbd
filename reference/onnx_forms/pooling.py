"""Windows and resizes in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu_assay.reference.onnx_forms.site import Form, Site, X, batched, one_per_axis


def window(s: Site[Any], rank: int) -> dict[str, object]:
    """The attributes that pools share; an empty stride is the kernel."""
    kernel, padding = one_per_axis(s["kernel_size"], rank), one_per_axis(s["padding"], rank)
    return {
        "kernel_shape": kernel,
        "strides": one_per_axis(s["stride"], rank) if s["stride"] else kernel,
        "pads": [*padding, *padding],
        "ceil_mode": int(s["ceil_mode"]),
    }


def _avg_pool(rank: int) -> Form:
    def form(s: Site[X]) -> X:
        if s.given.get("divisor_override") is not None:
            raise s.refuse("divisor_override", "AveragePool has no divisor_override")
        attributes = window(s, rank) | {"count_include_pad": int(s["count_include_pad"])}
        return batched(s, rank, "self", lambda x: (s.op("AveragePool", x, **attributes),))[0]

    return form


def max_pool(s: Site[X], rank: int, results: int = 1) -> tuple[X, ...]:
    """The values; then, where two are asked for, indices over the whole tensor."""
    attributes = window(s, rank) | {"dilations": one_per_axis(s["dilation"], rank)}
    return batched(s, rank, "self", lambda x: s.many("MaxPool", results, x, **attributes))


def _max_pool(rank: int) -> Form:
    return lambda s: max_pool(s, rank)[0]


def _adaptive_avg_pool(rank: int) -> Form:
    """AveragePool, where the result's size divides the operand's."""

    def form(s: Site[X]) -> X:
        size, given = one_per_axis(s["output_size"], rank), s.shape()[-rank:]
        if {*size} == {1}:
            return batched(s, rank, "self", lambda x: (s.op("GlobalAveragePool", x),))[0]
        if any(m == 0 or n % m for n, m in zip(given, size, strict=True)):
            uneven = f"{list(given)} is not a multiple of {size}, and ONNX has no adaptive pool"
            raise s.refuse("output_divides_input", uneven)
        kernel = [n // m for n, m in zip(given, size, strict=True)]
        return batched(s, rank, "self", lambda x: (s.op("AveragePool", x, kernel_shape=kernel, strides=kernel),))[0]

    return form


avg_pool1d, avg_pool2d, avg_pool3d = map(_avg_pool, (1, 2, 3))
max_pool1d, max_pool2d, max_pool3d = map(_max_pool, (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg_pool, (1, 2, 3))


def _resized(s: Site[X], size: list[int], factors: Sequence[float] | None, **attributes: str) -> X:
    """By sizes if given, else by factors, from which torch then also computes the coordinates."""
    x = s.x("input")
    if size or factors is None:
        return s.op("Resize", x, None, None, s.ints([*s.shape("input")[:2], *size]), **attributes)
    return s.op("Resize", x, None, s.numbers([1.0, 1.0, *factors], "factors"), **attributes)


def bilinear(s: Site[X]) -> X:
    """Between aligned corners there is no use for the factors themselves."""
    size = s["output_size"] or []
    if s["align_corners"] and not size:
        size = [int(n * f) for n, f in zip(s.shape("input")[-2:], s["scale_factors"], strict=True)]
    corners = "align_corners" if s["align_corners"] else "half_pixel"
    return _resized(s, size, s["scale_factors"], mode="linear", coordinate_transformation_mode=corners)


def nearest(s: Site[X]) -> X:
    """Where a size stays or doubles, torch has no use for the factor itself, which may be a little more."""
    places = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    factors = [_whole(n, f) for n, f in zip(s.shape("input")[-2:], s["scale_factors"] or (), strict=False)]
    return _resized(s, s["output_size"] or [], factors, **places)


def _whole(size: int, factor: float) -> float:
    return next((float(whole) for whole in (1, 2) if int(size * factor) == whole * size), factor)
