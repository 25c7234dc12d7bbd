"""Windows over volumes, columns of images, sampling between pixels, bags of rows."""

from __future__ import annotations

from collections.abc import Callable

from npu_assay.reference.operators.home import IMAGE, Call, Operator, Shape, X, behind, call, indices, weight

VOLUME: Shape = (1, 2, 4, 5, 6)


def _grid(*rest: object) -> Callable[[Shape], Call]:
    return lambda shape: call(X, weight("grid", (shape[0], 3, 4, 2), (-1.2, 1.2)), *rest)


def _bag(mode: int) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        return call(X, indices("i", (5,), 3, 0, 5, 2, 3), indices("o", (2,), 0, 3), False, mode)

    return at


WINDOWS = (
    Operator(
        "aten.avg_pool3d.default",
        None,
        behind((2, 3, 2), (2, 1, 2)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("padded", behind((2, 2, 2), (1, 1, 1), (1, 1, 0))), ("rounded_up", behind((3,), (2,), (0,), True))),
        terms="all",
        half=False,
        onnx="onnx_forms:avg_pool3d",
    ),
    Operator(
        "aten.max_pool3d_with_indices.default",
        None,
        behind((2, 3, 2), (2, 1, 2)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("padded", behind((2, 2, 2), (1, 1, 1), (1, 1, 0))), ("dilated", behind((2,), (1,), (0,), (2,)))),
        moves=True,
        onnx="onnx_forms:max_pool3d",
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
        onnx="onnx_forms:adaptive_avg_pool1d",
    ),
    Operator(
        "aten._adaptive_avg_pool3d.default",
        None,
        behind((2, 3, 1)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("one", behind((1, 1, 1))),),
        terms="all",
        onnx="onnx_forms:adaptive_avg_pool3d",
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
        onnx="onnx_forms:col2im",
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
    ),
    Operator(
        "aten._embedding_bag.default",
        None,
        _bag(0),
        (6, 4),
        (),
        (("mean", _bag(1)), ("largest", _bag(2))),
        gives=(-13.0, 13.0),
        without_onnx="ONNX has no bags of rows",
        empty=False,
    ),
)
"""Volumes are [N, C, D, H, W]; a grid's points are between -1 and 1, and some outside."""
