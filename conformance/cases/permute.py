"""aten.permute_copy.default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Q,
    Use,
    behind_abs,
    behind_conv,
    bias_quant,
    label,
    limit,
    model,
    outside,
    placed,
    pointwise,
    sizes_of,
    use,
)
from npu_assay.conformance.cases.permitted import transposable
from npu_assay.conformance.cases.shared import contexts, movement, rank_limit, same_qparams
from npu_assay.conformance.programs.graph import Graph, Quant, Ref

PERMUTE = "aten.permute_copy.default"
Shape = tuple[int, ...]


def permute(shape: Shape, order: Shape) -> Use:
    """permute_copy."""
    return use(PERMUTE, shape, order)


# Orders that only move dimensions of size 1 past the others.
INVARIANT: Sequence[tuple[Shape, Shape]] = (
    ((1, 8), (1, 0)),
    ((8, 1), (1, 0)),
    ((7, 1), (-1, 0)),
    ((1, 1, 8), (0, 2, 1)),
    ((1, 1, 8, 8), (0, 2, 1, 3)),
    ((8, 8, 8, 1), (3, 0, 1, 2)),
    ((3, 1, 5, 1), (1, 0, 3, 2)),
    ((2, 3, 5), (0, 1, 2)),
    ((1, 3, 5, 7), (0, 1, 2, 3)),
    ((1, 1, 1, 1), (3, 2, 1, 0)),
    ((1, 5, 1, 1), (0, 2, 3, 1)),
)


def last_to_second(m: int) -> list[tuple[Shape, bool]]:
    """Shapes for (0, 3, 1, 2): channels and height * width multiples of `m`, batch 1."""
    half = m // 2
    fits = ((1, m, m, m), (1, half, 2, m), (1, 2, half, 2 * m), (1, m, 3, m))
    beyond = ((1, half, 1, m), (1, 3, 3, m), (1, half, 2, m - 1), (1, half, 2, m + 1), (2, half, 2, m))
    return [*((s, True) for s in fits), *((s, False) for s in beyond)]


def second_to_last(m: int) -> list[tuple[Shape, bool]]:
    """Shapes for (0, 2, 3, 1): channels and width multiples of `m`, batch 1."""
    half = m // 2
    fits = ((1, m, m, m), (1, m, 3, m), (1, 2 * m, 5, m), (1, m, 1, m))
    beyond = ((1, m, m, half), (1, m, m, m - 1), (1, half, m, m), (1, m + 1, m, m), (2, m, m, m))
    return [*((s, True) for s in fits), *((s, False) for s in beyond)]


NEVER: Sequence[tuple[Shape, Shape]] = (
    ((8, 8), (1, 0)),
    ((8, 16), (-1, -2)),
    ((1, 8, 8), (0, 2, 1)),
    ((8, 8, 8), (2, 1, 0)),
    ((1, 8, 8, 8), (0, 1, 3, 2)),
    ((1, 8, 8, 8), (0, 2, 1, 3)),
    ((1, 8, 8, 8), (0, 3, 2, 1)),
    ((8, 8, 8, 8), (3, 0, 1, 2)),
    ((1, 8, 8, 8), (3, 2, 1, 0)),
)


def permute_cases(limits: Limits) -> list[Draft]:
    """aten.permute_copy.default: the transpositions the NPU can do; alone, without a layout."""
    code, m = "transposition", transposable(limits)
    u = permute((1, m, 3, m), (0, 2, 3, 1))
    known = [(s, (0, 3, 1, 2), good) for s, good in last_to_second(m)]
    known += [(s, (0, 2, 3, 1), good) for s, good in second_to_last(m)]
    return [
        *(limit(code, f"{sizes_of(s)}_by_{label(p)}", model(permute(s, p))) for s, p in INVARIANT),
        *(
            (limit if good else outside)(code, f"{sizes_of(s)}_by_{label(p)}", model(permute(s, p)))
            for s, p, good in known
        ),
        *(outside(code, f"{sizes_of(s)}_by_{label(p)}", model(permute(s, p))) for s, p in NEVER),
        limit(code, "negative_dims", model(permute((1, m, m, m), (0, -2, -1, 1)))),
        *_permute_layouts(code),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *movement(u),
        *movement(permute((1, m // 2, 2, m), (0, 3, 1, 2)), label="_back"),
        *rank_limit(limits, _ones_exchanged),
    ]


def _ones_exchanged(shape: Shape) -> Use:
    """Some dimension of size 1, of which `rank_limit`'s shapes have several, moves to the front."""
    shape = shape if 1 in shape else (*shape[:-2], 1, *shape[-1:])
    first = shape.index(1)
    return permute(shape, (first, *(dim for dim in range(len(shape)) if dim != first)))


def _order(shape: Shape, order: Shape) -> str:
    return f"{sizes_of(shape)}_by_{label(order)}"


def _permute_layouts(code: str) -> list[Draft]:
    """Between a convolution and the layout-free rest of the model, orders merge with the layout's own."""
    first_to_last = ((1, 8, 8, 8), (1, 8, 3, 3), (1, 5, 3, 7))
    to_conv = ((1, 5, 7, 3), (1, 8, 8, 8))
    return [
        *(
            limit(code, f"behind_conv_{sizes_of(s)}", model(permute(s, (0, 2, 3, 1)), behind_conv))
            for s in first_to_last
        ),
        *(limit(code, f"before_conv_{sizes_of(s)}", _before_conv(permute(s, (0, 3, 1, 2)), s[3])) for s in to_conv),
        outside(code, "behind_conv_5x3x7_by_0_3_2_1", model(permute((1, 5, 3, 7), (0, 3, 2, 1)), behind_conv)),
        outside(code, "behind_conv_8x3x7_by_0_1_3_2", model(permute((1, 8, 3, 7), (0, 1, 3, 2)), behind_conv)),
        limit(code, "behind_conv_identity", model(permute((1, 8, 3, 7), (0, 1, 2, 3)), behind_conv)),
    ]


def _before_conv(u: Use, channels: int) -> Graph:
    """The result goes into a 1x1 convolution over `channels` channels."""
    assert u.y is not None
    graph = model(u)
    values, convolution = pointwise((1, channels, 1, 1), 8, Q)
    args = (Ref(SUBJECT), *convolution.args[1:])
    after = replace(convolution, name="after", args=args)
    constants = (values[1], replace(values[2], quant=_bias_for(u.y, values[1].quant)))
    return Graph((*graph.values, *constants), (*graph.steps, after), (Ref("after"),))


def _bias_for(x: Quant, w: Quant | None) -> Quant:
    assert w is not None
    return bias_quant(x, w)
