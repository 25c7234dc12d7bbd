"""Operators over whole axes: sums and their kin, extremes, order, normalisations, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_assay.reference.operators.home import INDICES, Call, Operator, Shape, X, behind, call, real, weight

TOKENS: Shape = (2, 5, 8)
SPREADS = (0.5, 2.0)
UNIT = (-4.0, 4.0)
"""What normalised numbers have, weights included."""


def _over(name: str, golden: str | None, *rest: Any, **more: Any) -> Operator:
    """Over axes of an image."""
    return Operator(name, golden, behind(*rest), terms="all", **more)


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


def _distances(p: float) -> Callable[[Shape], Call]:
    return lambda shape: call(X, real("y", (*shape[:-2], 4, shape[-1])), p, None)


def _attention(*rest: Any, **kwargs: Any) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        longer = (*shape[:-2], shape[-2] + (0 if rest else 2), shape[-1])
        return call(X, real("k", longer), real("v", longer), *rest, **kwargs)

    return at


def _masked_attention(shape: Shape) -> Call:
    return call(X, real("k", shape), real("v", shape), weight("mask", (shape[-2], shape[-2])))


REDUCING = (
    _over("aten.mean.default", None, shapes=((7,), (3, 5)), onnx="onnx_forms:mean", empty=False),
    _over("aten.sum.default", None, shapes=((7,), (3, 5)), gives=(-30.0, 30.0), onnx="onnx_forms:total"),
    _over(
        "aten.prod.default",
        "reductions:product",
        shape=(3, 2),
        shapes=((4,),),
        takes=(-1.5, 1.5),
        gives=(-8.0, 8.0),
        onnx="onnx_forms:product",
    ),
    _over(
        "aten.prod.dim_int",
        "reductions:product_along",
        1,
        takes=(-1.5, 1.5),
        gives=(-3.0, 3.0),
        shapes=((2, 3, 4),),
        spellings=(("kept", behind(-1, True)),),
        onnx="onnx_forms:product",
    ),
    _over(
        "aten.var.correction",
        "reductions:variance",
        (2, 3),
        gives=(0.0, 20.0),
        shapes=((2, 3, 4, 2, 3),),
        spellings=(
            ("none", behind((1,), correction=0)),
            ("kept", behind((-1,), correction=2, keepdim=True)),
            ("all", behind()),
        ),
        onnx="onnx_forms:variance",
        empty=False,
    ),
    _over(
        "aten.var.dim",
        "reductions:variance_unbiased",
        (2, 3),
        gives=(0.0, 20.0),
        spellings=(("biased", behind((1,), False)), ("kept", behind((-1,), True, True))),
        onnx="onnx_forms:variance",
        empty=False,
    ),
    _over(
        "aten.linalg_vector_norm.default",
        "reductions:norm",
        2,
        (2, 3),
        gives=(0.0, 20.0),
        spellings=(("sum", behind(1, (1,))), ("all", behind(2)), ("kept", behind(2, (-1,), True))),
        onnx="onnx_forms:norm",
    ),
    _over(
        "aten.max.dim",
        "orders:largest",
        1,
        shapes=((7, 2), (2, 3, 4)),
        spellings=(("kept", behind(-1, True)),),
        onnx="onnx_forms:largest",
    ),
    _over(
        "aten.min.dim",
        "orders:smallest",
        1,
        shapes=((7, 2), (2, 3, 4)),
        spellings=(("kept", behind(-1, True)),),
        onnx="onnx_forms:smallest",
    ),
    _over(
        "aten.argmin.default",
        "placing:smallest_place",
        1,
        result=INDICES,
        shapes=((3, 5),),
        spellings=(("kept", behind(-1, True)), ("of_all", behind())),
        onnx="onnx_forms:smallest_place",
    ),
    _over(
        "aten.sort.default",
        "orders:sort",
        shapes=((7,), (3, 5)),
        spellings=(("down", behind(1, True)),),
        onnx="onnx_forms:sorted_",
    ),
    _over(
        "aten.topk.default",
        "orders:topk",
        2,
        shapes=((7,), (3, 5)),
        spellings=(("least", behind(2, 1, False)),),
        onnx="onnx_forms:topk",
    ),
    _over(
        "aten._log_softmax.default",
        "reductions:log_softmax",
        -1,
        False,
        gives=(-12.75, 0.0),
        shapes=((5, 8), (2, 3, 4)),
        spellings=(("channels", behind(1, False)),),
        onnx="onnx_forms:log_softmax",
    ),
    Operator(
        "aten.native_layer_norm.default",
        "norms:layer_norm",
        _layer_norm(1),
        TOKENS,
        ((3, 8), (1, 3, 4, 5)),
        (("two_axes", _layer_norm(2)), ("no_weights", _layer_norm_alone)),
        gives=UNIT,
        terms="all",
        onnx="onnx_forms:layer_norm",
    ),
    Operator(
        "aten.native_group_norm.default",
        "norms:group_norm",
        _group_norm(2),
        (2, 4, 3, 5),
        ((1, 6, 7),),
        (("one_group", _group_norm(1)), ("every_channel", _group_norm(4))),
        large=(2, 4, 103, 5),
        gives=UNIT,
        terms="all",
        onnx="onnx_forms:group_norm",
        empty=False,
    ),
    Operator(
        "aten._native_batch_norm_legit_no_training.default",
        "norms:batch_norm",
        _batch_norm,
        shapes=((2, 3, 7), (3, 5)),
        gives=(-16.0, 16.0),
        onnx="onnx_forms:batch_norm",
    ),
    Operator(
        "aten._native_batch_norm_legit.no_stats",
        "norms:instance_norm",
        _instance_norm,
        shape=(1, 3, 4, 5),
        shapes=((1, 3, 7),),
        gives=UNIT,
        terms="all",
        onnx="onnx_forms:instance_norm",
        empty=False,
    ),
    Operator(
        "aten._cdist_forward.default",
        "reductions:distances",
        _distances(2.0),
        (3, 5),
        ((2, 3, 4),),
        (("sum", _distances(1.0)),),
        gives=(0.0, 25.0),
        half=False,
        terms="all",
        onnx="onnx_forms:distances",
    ),
    Operator(
        "aten._pdist_forward.default",
        "reductions:distances_within",
        behind(2.0),
        (4, 5),
        ((7, 2),),
        (("sum", behind(1.0)),),
        gives=(0.0, 25.0),
        terms="all",
        half=False,
        large=(92, 5),
        empty=False,
        onnx="onnx_forms:distances_within",
    ),
    Operator(
        "aten.scaled_dot_product_attention.default",
        "attention:attention",
        _attention(),
        (1, 2, 5, 8),
        ((2, 4, 8),),
        (
            ("causal", _attention(None, 0.0, True)),
            ("masked", _masked_attention),
            ("scaled", _attention(None, 0.0, False, scale=0.25)),
        ),
        takes=(-2.0, 2.0),
        terms="all",
        onnx="onnx_forms:attention",
    ),
)
