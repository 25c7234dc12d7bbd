"""Products of matrices and convolutions in ONNX."""

from __future__ import annotations

from npu_assay.reference.onnx_forms.site import Site, X, batched, one_per_axis


def addmm(s: Site[X]) -> X:
    return s.op("Gemm", s.x("mat1"), s.x("mat2"), s.x(), alpha=float(s["alpha"]), beta=float(s["beta"]))


def linear(s: Site[X]) -> X:
    """Gemm, which takes matrices only."""
    bias = () if s["bias"] is None else (s.x("bias"),)
    if len(s.shape("input")) == 2:
        return s.op("Gemm", s.x("input"), s.x("weight"), *bias, transB=1)
    product = s.op("MatMul", s.x("input"), s.op("Transpose", s.x("weight"), perm=[1, 0]))
    return s.op("Add", product, *bias) if bias else product


def convolution(s: Site[X]) -> X:
    kernel = s.shape("weight")[2:]
    rank = len(kernel)
    padding = one_per_axis(s["padding"], rank)
    attributes = {
        "kernel_shape": list(kernel),
        "strides": one_per_axis(s["stride"], rank),
        "dilations": one_per_axis(s["dilation"], rank),
        "pads": [*padding, *padding],
        "group": s["groups"],
    }
    inputs = (s.x("weight"), *(() if s["bias"] is None else (s.x("bias"),)))
    kind = "ConvTranspose" if s.given.get("transposed") else "Conv"
    if kind == "ConvTranspose":
        attributes["output_padding"] = one_per_axis(s["output_padding"], rank)
    return batched(s, rank, "input", lambda x: (s.op(kind, x, *inputs, **attributes),))[0]
