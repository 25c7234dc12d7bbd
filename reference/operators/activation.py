"""Activations: one number in, one number out; and softmax."""

from __future__ import annotations

from npu_assay.reference.operators.home import (
    ANY,
    FIRST,
    FLOATING,
    NO_CODES,
    PICKED,
    REAL,
    UNNAMED,
    Accuracy,
    Kernels,
    Schemes,
    behind,
    function,
    over,
    tflite,
    tosa,
    written,
    xnnpack,
)

PRODUCTS = ("aten.linear.default", "aten.convolution.default")
"""What computes a clamp after it at once, on every device."""

LOOKED_UP = tosa("tosa_tables:function", "error_bound_tosa:looked_up")
CLAMPED = "error_bound_xnnpack:clamped"


ACTIVATION = (
    written(
        "aten.relu.default",
        "activation:relu",
        schemes=Schemes(
            tflite("elementwise:relu", after=(ANY,)),
            tosa("tosa:relu", after=PRODUCTS),
            xnnpack("xnnpack:relu", CLAMPED, after=(*PRODUCTS, "aten.add.Tensor")),
        ),
        on_grid=True,
        terms=0,
        onnx="Relu",
    ),
    written(
        "aten.relu6.default",
        "activation:relu6",
        schemes=Schemes(tflite("elementwise:relu6", after=(ANY,)), UNNAMED, xnnpack("xnnpack:relu6", CLAMPED)),
        terms=0,
        onnx="apart.elementwise:relu6",
    ),
    written(
        "aten.hardtanh.default",
        "activation:hardtanh",
        schemes=Schemes(
            tflite("elementwise:hardtanh", after=(ANY,)),
            tosa("tosa:hardtanh", after=PRODUCTS),
            xnnpack("xnnpack:hardtanh", CLAMPED, after=PRODUCTS),
        ),
        dtype=FIRST,
        terms=0,
        onnx="elementwise:hardtanh",
    ),
    written(
        "aten.clamp.default",
        "activation:clamp",
        schemes=Schemes(
            tflite("elementwise:clamp", after=(ANY,)), tosa("tosa:clamp"), xnnpack("xnnpack:clamp", CLAMPED)
        ),
        terms=0,
        onnx="elementwise:clamp",
    ),
    written(
        "aten.clamp.Tensor",
        "selection:clamp_tensor",
        schemes=Schemes(UNNAMED, tosa("tosa:clamp_tensor", "error_bound_tosa:smaller_scale"), UNNAMED),
        without_onnx=PICKED,
    ),
    written(
        "aten.leaky_relu.default",
        "activation:leaky_relu",
        schemes=Schemes(tflite("elementwise:leaky_relu", "error_bound:leaky"), LOOKED_UP, REAL),
        kernels=Kernels(fp16=Accuracy(1)),
        onnx="apart.elementwise:leaky_relu",
    ),
    written(
        "aten.prelu.default",
        "activation:prelu",
        schemes=Schemes(tflite("elementwise:prelu", "error_bound:prelu"), UNNAMED, UNNAMED),
        onnx="elementwise:prelu",
    ),
    written(
        "aten.sigmoid.default",
        "activation:sigmoid",
        dtype=FLOATING,
        schemes=Schemes(tflite("elementwise:sigmoid", "error_bound:table", after=(ANY,)), LOOKED_UP, REAL),
        kernels=Kernels(Accuracy(2.2), Accuracy(2, 6.1e-5)),  # 0 below -9.7
        onnx="Sigmoid",
    ),
    written(
        "aten.tanh.default",
        "activation:tanh",
        dtype=FLOATING,
        schemes=Schemes(tflite("elementwise:tanh", "error_bound:table", after=(ANY,)), LOOKED_UP, REAL),
        kernels=Kernels(Accuracy(2.2), Accuracy(3)),
        onnx="Tanh",
    ),
    written(
        "aten.elu.default",
        "functions:elu",
        schemes=Schemes(UNNAMED, LOOKED_UP, REAL),
        kernels=Kernels(Accuracy(1), Accuracy(1)),
        onnx="elementwise:elu",
        onnx_in_part="Elu keeps alpha in float32 and has no input_scale; compared where that makes no difference",
    ),
    written(
        "aten.gelu.default",
        "functions:gelu",
        schemes=Schemes(UNNAMED, LOOKED_UP, REAL),
        kernels=Kernels(Accuracy(2, 7.0e-7), Accuracy(2, 3.0e-3)),  # 0 below -5.16
        onnx="apart.elementwise:gelu",
        onnx_in_part="onnx.reference computes erf in float32; compared in the form with tanh",
    ),
    written(
        "aten.hardswish.default",
        "functions:hardswish",
        schemes=Schemes(UNNAMED, LOOKED_UP, REAL),
        kernels=Kernels(Accuracy(1, 4.5e-8), Accuracy(3, 9.0e-8)),  # near -3
        onnx="apart.elementwise:hardswish",
    ),
    written(
        "aten.hardsigmoid.default",
        "transcendental:hardsigmoid",
        schemes=Schemes(UNNAMED, LOOKED_UP, UNNAMED),
        without_onnx="HardSigmoid keeps its slope of a sixth in float32",
    ),
    written(
        "aten.celu.default",
        "transcendental:celu",
        schemes=Schemes(UNNAMED, LOOKED_UP, UNNAMED),
        without_onnx="Celu keeps alpha in float32",
    ),
    written(
        "aten.selu.default",
        "transcendental:selu",
        schemes=Schemes(UNNAMED, LOOKED_UP, UNNAMED),
        without_onnx="Selu keeps its two constants in float32",
    ),
    written(
        "aten.silu.default",
        "transcendental:silu",
        schemes=Schemes(UNNAMED, LOOKED_UP, UNNAMED),
        onnx="elementwise:silu",
    ),
    written(
        "aten._softmax.default",
        "activation:softmax",
        schemes=Schemes(tflite("elementwise:softmax", "error_bound:softmax"), UNNAMED, REAL),
        terms="float32:per_first",
        kernels=Kernels(Accuracy(18), Accuracy(5, 6.2e-5)),
        onnx="elementwise:softmax",
    ),
    written("aten.softmax.int", "activation:softmax_int", schemes=NO_CODES, onnx="elementwise:softmax"),
    function(
        "aten.hardshrink.default",
        "piecewise:hardshrink",
        spellings=(("lambd_1.25", behind(1.25)),),
        onnx="apart.elementwise:hardshrink",
    ),
    function("aten.mish.default", "piecewise:mish", onnx="apart.elementwise:mish"),
    function(
        "aten.softplus.default",
        "piecewise:softplus",
        spellings=(("beta_2", behind(2.0)),),
        gives=(0.0, 6.5),
        onnx="apart.elementwise:softplus",
    ),
    function(
        "aten.softshrink.default",
        "piecewise:softshrink",
        spellings=(("lambd_1.25", behind(1.25)),),
        onnx="apart.elementwise:softshrink",
    ),
    over(
        "aten._log_softmax.default",
        "reduction:log_softmax",
        -1,
        False,
        gives=(-12.75, 0.0),
        shapes=((5, 8), (2, 3, 4)),
        spellings=(("channels", behind(1, False)),),
        onnx="apart.elementwise:log_softmax",
    ),
)
"""Softmax stands here, too: devices have one table of exponentials for both."""
