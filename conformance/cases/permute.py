"""aten.permute_copy.default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.cases.make import (
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
from conformance.cases.shared import contexts, movement, same_qparams
from conformance.graph import Graph, Quant, Ref

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
LAST_TO_SECOND: Sequence[tuple[Shape, bool]] = (  # (0, 3, 1, 2): channels % 8, height * width % 8, batch 1
    ((1, 8, 8, 8), True),
    ((1, 4, 2, 8), True),
    ((1, 2, 4, 16), True),
    ((1, 8, 3, 8), True),
    ((1, 4, 1, 8), False),
    ((1, 3, 3, 8), False),
    ((1, 4, 2, 7), False),
    ((1, 4, 2, 9), False),
    ((2, 4, 2, 8), False),
)
SECOND_TO_LAST: Sequence[tuple[Shape, bool]] = (  # (0, 2, 3, 1): channels % 8, width % 8, batch 1
    ((1, 8, 8, 8), True),
    ((1, 8, 3, 8), True),
    ((1, 16, 5, 8), True),
    ((1, 8, 1, 8), True),
    ((1, 8, 8, 4), False),
    ((1, 8, 8, 7), False),
    ((1, 4, 8, 8), False),
    ((1, 9, 8, 8), False),
    ((2, 8, 8, 8), False),
)
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


def permute_cases() -> list[Draft]:
    """aten.permute_copy.default: the transpositions the NPU can do; alone, without a layout."""
    code = "transposition"
    u = permute((1, 8, 3, 8), (0, 2, 3, 1))
    known = [(s, (0, 3, 1, 2), good) for s, good in LAST_TO_SECOND]
    known += [(s, (0, 2, 3, 1), good) for s, good in SECOND_TO_LAST]
    return [
        *(limit(code, f"{sizes_of(s)}_by_{label(p)}", model(permute(s, p))) for s, p in INVARIANT),
        *(
            (limit if good else outside)(code, f"{sizes_of(s)}_by_{label(p)}", model(permute(s, p)))
            for s, p, good in known
        ),
        *(outside(code, f"{sizes_of(s)}_by_{label(p)}", model(permute(s, p))) for s, p in NEVER),
        limit(code, "negative_dims", model(permute((1, 8, 8, 8), (0, -2, -1, 1)))),
        *_permute_layouts(code),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *movement(u),
        *movement(permute((1, 4, 2, 8), (0, 3, 1, 2)), label="_back"),
    ]


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
