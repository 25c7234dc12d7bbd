"""Images in other sizes."""

from __future__ import annotations

from collections.abc import Callable

from npu_assay.reference.operators.home import (
    ANY,
    IMAGE,
    NO_CODES,
    REAL,
    UNNAMED,
    Call,
    Operator,
    Schemes,
    Shape,
    X,
    behind,
    call,
    tflite,
    tosa,
    weight,
    written,
)


def _grid(*rest: object) -> Callable[[Shape], Call]:
    return lambda shape: call(X, weight("grid", (shape[0], 3, 4, 2), (-1.2, 1.2)), *rest)


RESIZE = (
    written(
        "aten.upsample_bilinear2d.vec",
        "weighted:bilinear",
        schemes=Schemes(
            tflite("resize:bilinear", "error_bound:bilinear"),
            tosa("tosa_pooling:bilinear", "error_bound_tosa:window"),
            REAL,
        ),
        rounding="float32:resized",
        onnx="pooling:bilinear",
    ),
    written(
        "aten.upsample_nearest2d.vec",
        None,
        schemes=Schemes(tflite("resize:nearest", after=(ANY,)), tosa("tosa_pooling:nearest"), UNNAMED),
        moves=True,
        ieee="reals:itself",
        onnx="pooling:nearest",
    ),
    Operator(
        "aten.col2im.default",
        None,
        behind((4, 5), (2, 2), (1, 1), (0, 0), (1, 1)),
        (1, 8, 12),
        ((8, 12),),
        (
            ("padded", behind((5, 3), (2, 2), (1, 1), (1, 0), (1, 1))),
            ("apart", behind((6, 8), (2, 2), (1, 1), (0, 0), (2, 2))),
        ),
        gives=(-20.0, 20.0),
        terms="all",
        large=(1, 344, 12),
        onnx="apart.layout:col2im",
        schemes=NO_CODES,
    ),
    Operator(
        "aten.grid_sampler_2d.default",
        "sampling:sampled",
        _grid(0, 0, False),
        IMAGE,
        (),
        (("nearest", _grid(1, 0, False)), ("border", _grid(0, 1, True)), ("reflected", _grid(0, 2, False))),
        without_onnx="onnx.reference places points in float32",
        empty=False,
        schemes=NO_CODES,
    ),
)
