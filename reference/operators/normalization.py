"""Numbers less their mean, over their deviation."""

from __future__ import annotations

from collections.abc import Callable

from npu_assay.reference.operators.home import NO_CODES, Call, Operator, Shape, X, call, weight

TOKENS: Shape = (2, 5, 8)
SPREADS = (0.5, 2.0)
UNIT = (-4.0, 4.0)
"""What normalized numbers have, weights included."""


def _layer_norm(axes: int) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        last = shape[len(shape) - axes :]
        return call(X, last, weight("w", last, SPREADS), weight("b", last, (-1.0, 1.0)), 1e-5)

    return at


def _layer_norm_alone(shape: Shape) -> Call:
    return call(X, shape[-1:], None, None, 1e-5)


def _group_norm(groups: int) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        n, c, *rest = shape
        size = 1
        for extent in rest:
            size *= extent
        return call(X, weight("w", (c,), SPREADS), weight("b", (c,), (-1.0, 1.0)), n, c, size, groups, 1e-5)

    return at


def _batch_norm(shape: Shape) -> Call:
    c = shape[1:2]
    constants = (weight("w", c, SPREADS), weight("b", c, (-1.0, 1.0)), weight("m", c, (-1.0, 1.0)))
    return call(X, *constants, weight("v", c, SPREADS), 0.1, 1e-3)


def _instance_norm(shape: Shape) -> Call:
    return call(X, weight("w", shape[1:2], SPREADS), weight("b", shape[1:2], (-1.0, 1.0)), True, 0.1, 1e-5)


NORMALIZATION = (
    Operator(
        "aten.native_layer_norm.default",
        "normalization:layer_norm",
        _layer_norm(1),
        TOKENS,
        ((3, 8), (1, 3, 4, 5)),
        (("two_axes", _layer_norm(2)), ("no_weights", _layer_norm_alone)),
        gives=UNIT,
        terms="all",
        onnx="apart.reduction:layer_norm",
        schemes=NO_CODES,
    ),
    Operator(
        "aten.native_group_norm.default",
        "normalization:group_norm",
        _group_norm(2),
        (2, 4, 3, 5),
        ((1, 6, 7),),
        (("one_group", _group_norm(1)), ("every_channel", _group_norm(4))),
        large=(2, 4, 103, 5),
        gives=UNIT,
        terms="all",
        onnx="apart.reduction:group_norm",
        empty=False,
        schemes=NO_CODES,
    ),
    Operator(
        "aten._native_batch_norm_legit_no_training.default",
        "normalization:batch_norm",
        _batch_norm,
        shapes=((2, 3, 7), (3, 5)),
        gives=(-16.0, 16.0),
        onnx="apart.reduction:batch_norm",
        schemes=NO_CODES,
    ),
    Operator(
        "aten._native_batch_norm_legit.no_stats",
        "normalization:instance_norm",
        _instance_norm,
        shape=(1, 3, 4, 5),
        shapes=((1, 3, 7),),
        gives=UNIT,
        terms="all",
        onnx="apart.reduction:instance_norm",
        empty=False,
        schemes=NO_CODES,
    ),
)
