"""Convolutions over lines, images and volumes."""

from __future__ import annotations

from npu_assay.reference.operators.home import FIRST, UNNAMED, Schemes, tflite, tosa, written, xnnpack

NO_GROUPS = "onnx.reference's ConvTranspose has no groups; compared with one"
ON_IMAGES = tflite("linear:convolution", "error_bound:convolution")

CONVOLUTION = (
    written(
        "aten.convolution.default",
        "linear:convolution",
        schemes=Schemes(
            ON_IMAGES,
            tosa("tosa_linear:convolution", "error_bound_tosa:product"),
            xnnpack("xnnpack:convolution", "error_bound_xnnpack:product", operands=(True, True, False)),
        ),
        terms="float32:of_weights",
        dynamic="reals:convolution",
        onnx="linear:convolution",
        onnx_in_part=NO_GROUPS,
        dtype=FIRST,
    ),
    written(
        "aten.conv1d.default",
        "linear:conv",
        schemes=Schemes(ON_IMAGES, UNNAMED, UNNAMED),
        terms="float32:of_weights",
        onnx="linear:convolution",
        dtype=FIRST,
    ),
    written(
        "aten.conv2d.default",
        "linear:conv",
        schemes=Schemes(ON_IMAGES, UNNAMED, UNNAMED),
        terms="float32:of_weights",
        onnx="linear:convolution",
        dtype=FIRST,
    ),
)
"""conv1d and conv2d are never transposed."""
