"""Products of matrices, convolutions and attention by ONNX."""

from __future__ import annotations

import math

import numpy as np

from npu_assay.reference.onnx_node import Given, Node, array, one_per_axis, through


def attention(given: Given) -> Node | None:
    """Softmax of products, times values."""
    if given["dropout_p"] or given["enable_gqa"]:
        return None
    q, k, v = (array(given[name]) for name in ("query", "key", "value"))
    scale = 1.0 / math.sqrt(q.shape[-1]) if given["scale"] is None else float(given["scale"])
    scores = through("Mul", through("MatMul", q, np.swapaxes(k, -1, -2)), scale)
    if given["attn_mask"] is not None:
        scores = through("Add", scores, array(given["attn_mask"]))
    if given["is_causal"]:
        later = np.triu(np.ones(scores.shape[-2:]), 1) > 0
        scores = np.where(later, -np.inf, scores)
    return Node("MatMul", [through("Softmax", scores, axis=-1), v])


def addmm(given: Given) -> Node:
    inputs = [array(given[name]) for name in ("mat1", "mat2", "self")]
    return Node("Gemm", inputs, {"alpha": float(given["alpha"]), "beta": float(given["beta"])})


def linear(given: Given) -> Node | None:
    """Gemm, which takes matrices only."""
    x, weight = array(given["input"]), array(given["weight"])
    bias = None if given["bias"] is None else array(given["bias"])
    return Node("Gemm", [x, weight, bias], {"transB": 1}) if x.ndim == 2 else None


def convolution(given: Given) -> Node | None:
    x, weight = array(given["input"]), array(given["weight"])
    bias = None if given["bias"] is None else array(given["bias"])
    rank = x.ndim - 2
    padding, dilation = one_per_axis(given["padding"], rank), one_per_axis(given["dilation"], rank)
    if {*dilation} != {1} and not np.isfinite(x).all():
        return None  # onnx.reference spreads kernels with zeros, which make NaN of infinities
    attributes = {
        "strides": one_per_axis(given["stride"], rank),
        "dilations": dilation,
        "pads": [*padding, *padding],
        "group": given["groups"],
        "kernel_shape": list(weight.shape[2:]),
    }
    if not given.get("transposed"):
        return Node("Conv", [x, weight, bias], attributes)
    if given["groups"] != 1:
        return None
    return Node("ConvTranspose", [x, weight, bias], attributes | {"output_padding": list(given["output_padding"])})
