"""Operators that only rename dimensions or copy: view_copy, squeeze, unsqueeze, clone. None may be alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.baseline import IMAGE, matrix_weights
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Q,
    Use,
    X,
    accepted,
    behind_abs,
    behind_conv,
    behind_neg,
    bias_quant,
    inside,
    label,
    limit,
    model,
    outside,
    placed,
    pointwise,
    silent,
    sizes_of,
    step,
    then_abs,
    use,
)
from npu_assay.conformance.cases.permitted import deepest, transposable
from npu_assay.conformance.cases.shared import movement, rank_limit, same_qparams, surroundings, unquantised
from npu_assay.conformance.programs.graph import Graph, Ref, Step

VIEW = "aten.view_copy.default"
UNSQUEEZE = "aten.unsqueeze.default"
CLONE = "aten.clone.default"
DIM_ORDER = "dim_order_ops._clone_dim_order.default"
Shape = tuple[int, ...]


# ------------------------------------------------------------------------------------ shared


def not_alone(u: Use) -> list[Draft]:
    """Some computing operator must share the partition: in front or behind, but not another copy or view."""
    code = "not_alone"
    flat = Step("before", VIEW, (X, u.values[0].shape), (), u.y)
    view_first = Graph(u.values, (flat, step(u, Ref("before"))), (Ref(SUBJECT),))
    unquantised_abs = Step("other", "aten.abs.default", (Ref(SUBJECT),), (), None)
    beside_float = Graph(u.values, (step(u), unquantised_abs), (Ref("other"),))
    return [
        limit(code, "behind_abs", model(u, behind_abs)),
        limit(code, "before_abs", model(u, None, then_abs)),
        inside(code, "between_abs", model(u, behind_abs, then_abs)),
        outside(code, "alone", model(u)),
        outside(code, "behind_a_view", view_first),
        outside(code, "before_a_view", _then_view(u)),
        outside(code, "before_unquantised_abs", beside_float),
    ]


def _then_view(u: Use) -> Graph:
    after = Step("after", VIEW, (Ref(SUBJECT), (-1,)), (), u.y)
    return Graph(u.values, (step(u), after), (Ref("after"),))


def in_place(u: Use) -> list[Draft]:
    """What every such row shares: parameters, company, contexts, numbers."""
    neighbours = [d for d in unquantised(u) if d.side == "outside" and d.variant != "before_unquantised_abs"]
    return [
        *same_qparams(u, behind_neg),
        *not_alone(u),
        *surroundings(u, behind_abs),
        *neighbours,
        limit("quantized", "quantised_on_both_sides", model(u, behind_abs, then_abs)),
        *movement(u, behind_neg),
    ]


def ranks(most: int, with_rank: Callable[[int], Use], numbers: Sequence[int]) -> list[Draft]:
    """Output ranks up to `most`."""
    return [
        (limit if rank <= most else outside)("max_rank", f"rank_{rank}", model(with_rank(rank), behind_abs))
        for rank in numbers
    ]


def deepest_input(limits: Limits, largest: int = 16) -> int:
    """The largest permitted rank of an input."""
    return limits.number("max_input_rank", 8, 5, largest)


def input_ranks(most: int, with_shape: Callable[[Shape], Use]) -> list[Draft]:
    """Input ranks up to `most`; what comes out has a permitted rank."""
    code = "max_input_rank"
    past = [outside(code, f"rank_{n}", model(with_shape(_deep(n)), behind_abs)) for n in (most + 1, most + 2)]
    inner = [inside(code, f"rank_{n}", model(with_shape(_deep(n)), behind_abs)) for n in range(5, most)]
    return [limit(code, f"rank_{most}", model(with_shape(_deep(most)), behind_abs)), *past, *inner]


def _deep(rank: int) -> Shape:
    """Dimensions of size 1, then four others."""
    return (*(1,) * (rank - 4), 2, 3, 2, 4)


def before_conv(u: Use, channels: int) -> Graph:
    """Behind an abs; the result goes into a 1x1 convolution and so becomes channels-first."""
    assert u.y is not None
    graph = model(u, behind_abs)
    values, convolution = pointwise((1, channels, 1, 1), 8, Q)
    weights = values[1]
    assert weights.quant is not None
    bias = replace(values[2], quant=bias_quant(u.y, weights.quant))
    after = replace(convolution, name="after", args=(Ref(SUBJECT), *convolution.args[1:]))
    return Graph((*graph.values, weights, bias), (*graph.steps, after), (Ref("after"),))


Crossing = tuple[str, Use, bool]


def crossings(behind: Sequence[Crossing], before: Sequence[Crossing]) -> list[Draft]:
    """Leaving channels-first (behind a convolution) and entering it (before one) needs a transposition."""
    code = "transposition"
    return [
        *(
            (limit if good else outside)(code, f"behind_conv_{n}", model(u, behind_conv))
            for n, u, good in dict.fromkeys(behind)
        ),
        *(
            (limit if good else outside)(code, f"before_conv_{n}", before_conv(u, _channels(n)))
            for n, u, good in dict.fromkeys(before)
        ),
    ]


def _crossing(shape: Shape, to: Shape) -> str:
    return f"{sizes_of(shape)}_to_{sizes_of(to)}"


def _channels(name: str) -> int:
    """The channel count that a crossing's name ends with: `..._to_1x8x4x6` has 8."""
    return int(name.rsplit("_to_", 1)[1].split("x")[1])


# ------------------------------------------------------------------------------------ view


def view(shape: Shape, to: Shape) -> Use:
    """view_copy."""
    return use(VIEW, shape, to)


def _view_crossing(shape: Shape, to: Shape, good: bool) -> Crossing:
    return _crossing(shape, to), view(shape, to), good


def view_cases(limits: Limits) -> list[Draft]:
    """aten.view_copy.default."""
    u, most, m = view((3, 8), (2, 12)), deepest(limits, 7, 5), transposable(limits)
    shapes = (((3, 8), (24,)), ((24,), (2, 3, 4)), ((1, 3, 5, 7), (7, 15)), ((2, 3), (2, 3)), ((1, 1, 6), (6, 1)))
    inferred = (((3, 8), (-1,)), ((3, 8), (-1, 4)), ((2, 3, 4), (2, -1)), ((2, 3, 4), (4, -1, 2)))

    def of_output_rank(rank: int) -> Use:
        return view((2, 12), (*(1,) * (rank - 3), 2, 3, 4))

    return [
        *(accepted(f"{sizes_of(a)}_to_{sizes_of(b)}", model(view(a, b), behind_abs)) for a, b in shapes),
        *(accepted(f"{sizes_of(a)}_to_{label(b)}", model(view(a, b), behind_abs)) for a, b in inferred),
        *ranks(most, of_output_rank, range(max(3, most - 2), most + 3)),
        *crossings(_views_behind(m), _views_before(m)),
        limit("transposition", f"behind_conv_{m}x5x5_into_mm", _into_mm(m)),
        *in_place(u),
        *input_ranks(deepest_input(limits), lambda shape: view(shape, (4, 12))),
    ]


def _views_behind(m: int) -> list[Crossing]:
    """Out of channels-first: channels and height * width multiples of `m`, or nothing to exchange."""
    half = m // 2
    return [
        _view_crossing((1, m, m, m), (1, m**3), True),
        _view_crossing((1, m, m, m), (m**3,), True),
        _view_crossing((1, m, half, 6), (1, 3 * m * m), True),
        _view_crossing((1, 5, 1, 1), (1, 5), True),
        _view_crossing((1, 1, 5, 7), (1, 35), True),
        _view_crossing((1, 2 * m, 2, half), (m, 2 * m), True),
        _view_crossing((1, m, 5, 5), (1, 25 * m), False),
        _view_crossing((1, 5, m, m), (1, 5 * m * m), False),
        _view_crossing((1, m - 1, m, m), (1, (m - 1) * m * m), False),
        _view_crossing((1, m, 3, 5), (m, 15), False),
    ]


def _views_before(m: int) -> list[Crossing]:
    """Into channels-first: channels and width multiples of `m`, or nothing to exchange."""
    half = m // 2
    return [
        _view_crossing((m, m * m), (1, m, m, m), True),
        _view_crossing((m**3,), (1, m, m, m), True),
        _view_crossing((m, 3 * m), (1, m, 3, m), True),
        _view_crossing((4, 5), (1, 20, 1, 1), True),
        _view_crossing((m, 5 * m), (1, m, m, 5), False),
        _view_crossing((5, m * m), (1, 5, m, m), False),
        _view_crossing((m, 5 * half), (1, m, 5, half), False),
    ]


def _into_mm(m: int) -> Graph:
    """Flattening between a convolution and a matrix product: the weights take the transposition."""
    u = view((1, m, 5, 5), (1, 25 * m))
    graph = model(u, behind_conv)
    product = Step("after", "aten.mm.default", (Ref(SUBJECT), Ref("w")), (), Q)
    return Graph((*graph.values, matrix_weights(25 * m, 6)), (*graph.steps, product), (Ref("after"),))


# ------------------------------------------------------------------------------------ squeeze


def squeeze(op: str, shape: Shape, dims: Shape) -> Use:
    """`dims` as the overload takes them: nothing, one number, a list."""
    rest: tuple[Any, ...] = {"aten.squeeze.default": (), "aten.squeeze.dim": dims[:1]}.get(op, (dims,))
    return use(op, shape, *rest)


def squeeze_cases(op: str, limits: Limits) -> list[Draft]:
    """aten.squeeze.default, aten.squeeze.dim and aten.squeeze.dims."""
    u, most = squeeze(op, (1, 8, 3, 4), (0,)), deepest(limits, 7, 5)
    # One dimension at a time takes a permitted output only from inputs of one rank more.
    deep = deepest_input(limits, most + 1 if op == "aten.squeeze.dim" else 16)
    shapes: Sequence[tuple[Shape, Shape]] = (
        ((3, 1, 5), (1,)),
        ((3, 1, 5), (-2,)),
        ((1, 7), (0,)),
        ((7, 1), (-1,)),
        ((2, 3, 1, 1), (-1, 2)),
        ((1, 3, 1, 5), (0, 2)),
        ((2, 3, 4), (1,)),
        ((1, 1, 1, 6), (0, 1, 2)),
        ((1, 1), (1,)),
    )

    def of_output_rank(rank: int) -> Use:
        """Beyond a limit there is nothing to drop, lest the input have too many dimensions as well."""
        nothing = rank > most or rank >= deep
        return squeeze(op, (2,) * rank if nothing else (1, 2, 3, *(2,) * (rank - 2)), (0,))

    def four_left(shape: Shape) -> Use:
        return squeeze(op, shape, tuple(range(len(shape) - 4)))

    m = transposable(limits)
    return [
        *(accepted(f"{sizes_of(s)}_dims_{label(d)}", model(squeeze(op, s, d), behind_abs)) for s, d in shapes),
        *ranks(most, of_output_rank, (most - 1, most, most + 1)),
        *crossings(_squeezes_behind(op, m), _squeezes_before(op, m)),
        *in_place(u),
        *input_ranks(deep, four_left),
    ]


def _squeezes_behind(op: str, m: int) -> list[Crossing]:
    uses: Sequence[tuple[Shape, int, bool]] = (
        ((1, m, m, 1), -1, True),
        ((1, m, 1, 2 * m), 2, True),
        ((1, 5, 1, 1), 3, True),
        ((1, 2 * m, 1, m), 0, True),
        ((1, m, m - 1, 1), 3, False),
        ((1, m, 1, m + 1), -2, False),
        ((1, m - 1, m, 1), 3, False),
        ((1, 2 * m, 1, 2 * m - 2), 2, False),
    )
    return [(f"{sizes_of(s)}_dim_{label(d)}", squeeze(op, s, (d,)), good) for s, d, good in uses]


def _squeezes_before(op: str, m: int) -> list[Crossing]:
    """Rank 5 to the image a convolution takes; without dims squeeze would also drop the batch."""
    if op == "aten.squeeze.default":
        return []
    shapes = (((1, m, 1, 4, m), 2, True), ((1, m, 1, 4, m - 2), 2, False), ((1, m - 1, m, m, 1), 4, False))
    return [
        (f"{sizes_of(s)}_to_{sizes_of((*s[:d], *s[d + 1 :]))}", squeeze(op, s, (d,)), good) for s, d, good in shapes
    ]


# ------------------------------------------------------------------------------------ unsqueeze


def unsqueeze_cases(limits: Limits) -> list[Draft]:
    """aten.unsqueeze.default."""
    u, most, m = use(UNSQUEEZE, (3, 8), 1), deepest(limits, 7, 4), transposable(limits)
    shapes: Sequence[tuple[Shape, int]] = (
        ((7,), 0),
        ((7,), 1),
        ((7,), -1),
        ((7,), -2),
        ((3, 8), 0),
        ((3, 8), 2),
        ((3, 8), -1),
        ((3, 8), -3),
        ((2, 3, 4, 5), 2),
        ((1, 1), 0),
    )

    def of_output_rank(rank: int) -> Use:
        return use(UNSQUEEZE, (2, 3, *(1,) * (rank - 3)), 1)

    return [
        *(accepted(f"{sizes_of(s)}_dim_{label(d)}", model(use(UNSQUEEZE, s, d), behind_abs)) for s, d in shapes),
        *ranks(most, of_output_rank, range(most - 1, most + 3)),
        *crossings(_unsqueezes_behind(m), _unsqueezes_before(m)),
        *in_place(u),
    ]


def _unsqueezes_behind(m: int) -> list[Crossing]:
    uses: Sequence[tuple[Shape, int, bool]] = (
        ((1, m, m, m), 0, True),
        ((1, 5, 1, 1), 4, True),
        ((1, 2 * m, 2, m // 2), -1, True),
        ((1, m, 5, 5), 0, False),
        ((1, m - 1, m, m), 2, False),
    )
    return [(f"{sizes_of(s)}_dim_{label(d)}", use(UNSQUEEZE, s, d), good) for s, d, good in uses]


def _unsqueezes_before(m: int) -> list[Crossing]:
    uses: Sequence[tuple[Shape, int, bool]] = (
        ((m, 3, m), 0, True),
        ((1, m, 2 * m), 2, True),
        ((1, 5, 1), -1, True),
        ((m, 3, 5), 0, False),
        ((1, m - 1, m), 2, False),
        ((1, 2 * m, 2 * m - 2), -2, False),
    )
    return [(f"{sizes_of(s)}_to_{sizes_of(_unsqueezed(s, d))}", use(UNSQUEEZE, s, d), good) for s, d, good in uses]


def _unsqueezed(shape: Shape, dim: int) -> Shape:
    at = dim % (len(shape) + 1)
    return (*shape[:at], 1, *shape[at:])


# ------------------------------------------------------------------------------------ copies


def clone_cases(limits: Limits) -> list[Draft]:
    """aten.clone.default: the memory format is preserve_format or contiguous_format."""
    fits = ("contiguous_format", "preserve_format")
    u = use(CLONE, IMAGE, memory_format="contiguous_format")
    code = "memory_format"
    return [
        *(limit(code, name, model(use(CLONE, IMAGE, memory_format=name), behind_abs)) for name in fits),
        outside(code, "channels_last", model(use(CLONE, IMAGE, memory_format="channels_last"), behind_abs)),
        outside(code, "channels_last_rank_5", model(_channels_last_3d(), behind_abs)),
        silent(code, "left_out", model(use(CLONE, IMAGE), behind_abs)),
        *(
            accepted(f"shape_{sizes_of(s)}", model(_cloned(u, s), behind_abs))
            for s in COPIES
            if len(s) <= deepest(limits)
        ),
        placed("behind_conv", model(_cloned(u, (1, 8, 4, 6)), behind_conv)),
        *in_place(u),
        *rank_limit(limits, lambda shape: _cloned(u, shape), front=behind_abs),
    ]


COPIES = ((7,), (3, 5), (2, 3, 7), (1, 1, 1, 1), (1, 3, 5, 7), (2, 3, 2, 3, 2))


def _channels_last_3d() -> Use:
    return use(CLONE, (1, 8, 2, 3, 4), memory_format="channels_last_3d")


def _cloned(u: Use, shape: Shape) -> Use:
    return replace(u, values=(replace(u.values[0], shape=shape),))


def _ordered(order: Shape | None, shape: Shape = IMAGE) -> Use:
    return use(DIM_ORDER, shape, dim_order=order)


def dim_order_cases(limits: Limits) -> list[Draft]:
    """dim_order_ops._clone_dim_order.default: the dim order is the contiguous one."""
    code = "memory_format"
    u = _ordered((0, 1, 2, 3))
    return [
        limit(code, "contiguous", model(u, behind_abs)),
        outside(code, "channels_last", model(_ordered((0, 2, 3, 1)), behind_abs)),
        outside(code, "channels_last_rank_5", model(_ordered((0, 2, 3, 4, 1), (1, 8, 2, 3, 4)), behind_abs)),
        silent(code, "left_out", model(_ordered(None), behind_abs)),
        *(
            accepted(f"shape_{sizes_of(s)}", model(_ordered(tuple(range(len(s))), s), behind_abs))
            for s in COPIES
            if len(s) <= deepest(limits)
        ),
        placed("behind_conv", model(_ordered((0, 1, 2, 3), (1, 8, 4, 6)), behind_conv)),
        *in_place(u),
        *rank_limit(limits, lambda shape: _ordered(tuple(range(len(shape))), shape), front=behind_abs),
    ]
