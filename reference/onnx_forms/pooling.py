"""Windows and resizes by ONNX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_assay.reference.onnx_node import Given, Node, Rule, adaptive_pool, array, avg_pool, ints, max_pool, through

avg_pool1d, avg_pool2d, avg_pool3d = avg_pool(1), avg_pool(2), avg_pool(3)
max_pool1d, max_pool2d, max_pool3d = max_pool(1), max_pool(2), max_pool(3)


def adaptive_avg_pool1d(given: Given) -> Node | None:
    """AveragePool where the size divides."""
    return adaptive_pool(given, 1)


def adaptive_avg_pool2d(given: Given) -> Node | None:
    """AveragePool where the size divides."""
    return adaptive_pool(given, 2)


def adaptive_avg_pool3d(given: Given) -> Node | None:
    """AveragePool where the size divides."""
    return adaptive_pool(given, 3)


def col2im(given: Given) -> Node:
    """Col2Im, which wants a batch."""
    x = array(given["self"])
    batch = x if x.ndim == 3 else x[None]
    padding = list(given["padding"])
    attributes = {"dilations": list(given["dilation"]), "strides": list(given["stride"]), "pads": [*padding, *padding]}
    made = through("Col2Im", batch, ints(given["output_size"]), ints(given["kernel_size"]), **attributes)
    return Node("Identity", [made if x.ndim == 3 else made[0]])


def _resize(attributes: Callable[[Given], dict[str, str]]) -> Rule:
    def rule(given: Given) -> Node:
        x, size, factors = array(given["input"]), given["output_size"], given["scale_factors"]
        if given.get("align_corners") and not size:  # which has no use for the factors themselves
            size = [int(n * f) for n, f in zip(x.shape[-2:], factors, strict=True)]
        if size:
            return Node("Resize", [x, None, None, ints([*x.shape[:2], *size])], attributes(given))
        return Node("Resize", [x, None, np.asarray([1.0, 1.0, *factors]), None], attributes(given))

    return rule


def _bilinear(given: Given) -> dict[str, str]:
    corners = "align_corners" if given["align_corners"] else "half_pixel"
    return {"mode": "linear", "coordinate_transformation_mode": corners}


def _nearest(given: Given) -> dict[str, str]:
    return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


bilinear = _resize(_bilinear)


def nearest(given: Given) -> Node | None:
    """Resize. Where a size stays or doubles, torch has no use for the factor itself, which may be a little more."""
    sizes = array(given["input"]).shape[-2:]
    factors = [_whole(n, f) for n, f in zip(sizes, given["scale_factors"] or (), strict=False)]
    return _resize(_nearest)({**given, "scale_factors": factors})


def _whole(size: int, factor: float) -> float:
    return next((float(whole) for whole in (1, 2) if int(size * factor) == whole * size), factor)
