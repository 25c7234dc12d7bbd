"""Windows over lines and images, of which the largest number or the mean is taken."""

from __future__ import annotations

from typing import Any

from npu_assay.reference.operators.home import (
    NO_CODES,
    UNNAMED,
    Operator,
    Schemes,
    Shape,
    behind,
    tflite,
    tosa,
    written,
    xnnpack,
)

WHERE_IT_DIVIDES = "ONNX has no adaptive pool; compared where the output size divides the input's, as AveragePool"
PADDED = (
    "onnx.reference fails on padding of one axis, so infinities are put there; compared where the size is not rounded "
    "up besides, and like all pools where the operand has up to LOOPED elements"
)


def _max_pool(name: str, golden: str | None, schemes: Schemes, **more: Any) -> Operator:
    return written(name, golden, schemes=schemes, on_grid=True, rounding="float32:chosen", ieee="reals:itself", **more)


VOLUME: Shape = (1, 2, 4, 5, 6)


POOLING = (
    _max_pool(
        "aten.max_pool1d.default",
        None,
        Schemes(tflite("pooling:max_pool1d"), UNNAMED, UNNAMED),
        onnx="pooling:max_pool1d",
        onnx_in_part=PADDED,
    ),
    _max_pool(
        "aten.max_pool2d.default",
        None,
        Schemes(tflite("pooling:max_pool2d"), tosa("tosa_pooling:max_pool"), xnnpack("xnnpack:max_pool")),
        onnx="pooling:max_pool2d",
        onnx_in_part="MaxPool does not say what becomes of NaN; compared without any",
    ),
    _max_pool(
        "aten.max_pool2d_with_indices.default",
        "weighted:max_pool_with_indices",
        Schemes(tflite("pooling:max_pool2d"), tosa("tosa_pooling:max_pool"), UNNAMED),
        with_indices=True,
        onnx="pooling:max_pool2d",
        onnx_in_part="MaxPool counts indices over the whole tensor; values are compared",
    ),
    written(
        "aten.avg_pool1d.default",
        None,
        schemes=Schemes(tflite("pooling:avg_pool1d", "error_bound:average"), UNNAMED, UNNAMED),
        terms="float32:per_first",
        onnx="pooling:avg_pool1d",
    ),
    written(
        "aten.avg_pool2d.default",
        None,
        schemes=Schemes(
            tflite("pooling:avg_pool2d", "error_bound:average"),
            tosa("tosa_pooling:avg_pool", "error_bound_tosa:window"),
            "no specification of its kernel on codes is written; the float golden judges them",
        ),
        terms="float32:per_first",
        rounding="float32:wide",
        onnx="pooling:avg_pool2d",
        onnx_in_part="AveragePool has no divisor_override; compared without one",
    ),
    written(
        "aten._adaptive_avg_pool2d.default",
        None,
        schemes=Schemes(
            tflite("pooling:adaptive_avg_pool", "error_bound:average"),
            tosa("tosa_pooling:adaptive", "error_bound_tosa:own_steps"),
            UNNAMED,
        ),
        onnx="pooling:adaptive_avg_pool2d",
        onnx_in_part=WHERE_IT_DIVIDES,
    ),
    written(
        "aten.adaptive_avg_pool2d.default",
        None,
        schemes=Schemes(tflite("pooling:adaptive_avg_pool", "error_bound:average"), UNNAMED, UNNAMED),
        onnx="pooling:adaptive_avg_pool2d",
        onnx_in_part=WHERE_IT_DIVIDES,
    ),
    Operator(
        "aten.avg_pool3d.default",
        None,
        behind((2, 3, 2), (2, 1, 2)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("padded", behind((2, 2, 2), (1, 1, 1), (1, 1, 0))), ("rounded_up", behind((3,), (2,), (0,), True))),
        terms="all",
        half=False,
        onnx="pooling:avg_pool3d",
        schemes=NO_CODES,
    ),
    Operator(
        "aten.max_pool3d_with_indices.default",
        "weighted:max_pool_with_indices",
        behind((2, 3, 2), (2, 1, 2)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("padded", behind((2, 2, 2), (1, 1, 1), (1, 1, 0))), ("dilated", behind((2,), (1,), (0,), (2,)))),
        with_indices=True,
        rounding="float32:chosen",
        moves=True,
        onnx="pooling:max_pool3d",
        schemes=NO_CODES,
    ),
    Operator(
        "aten.adaptive_avg_pool1d.default",
        None,
        behind((3,)),
        (1, 3, 9),
        ((2, 7),),
        (("one", behind((1,))), ("uneven", behind((4,)))),
        terms="all",
        half=False,
        large=(1, 3, 1371),
        onnx="pooling:adaptive_avg_pool1d",
        schemes=NO_CODES,
    ),
    Operator(
        "aten._adaptive_avg_pool3d.default",
        None,
        behind((2, 3, 1)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("one", behind((1, 1, 1))),),
        terms="all",
        onnx="pooling:adaptive_avg_pool3d",
        schemes=NO_CODES,
    ),
)
