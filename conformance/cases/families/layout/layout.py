"""Operators that move numbers and compute nothing: what all of them are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv, behind_neg, then_abs
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside
from npu_assay.conformance.cases.family import Maker
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, Q, X, bare, call, sizes_of, step
from npu_assay.conformance.cases.permitted import Shape
from npu_assay.conformance.cases.pieces.contexts import surroundings, unquantized
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.fusion import VIEW
from npu_assay.conformance.cases.pieces.neighbors import into_conv
from npu_assay.conformance.cases.pieces.quantization import moved_ratios, rescaled, same_qparams
from npu_assay.conformance.cases.pieces.spelling import IMAGE, INTEGERS, as_integers, or_integers
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import RAMP, layout_values, one_hots
from npu_assay.conformance.programs.graph import Graph, Ref, Step

# ------------------------------------------------------------------------------------ static int8


def not_alone(u: Call) -> list[CaseDraft]:
    """Some computing operator must share the partition: before or after, but not another copy or view."""
    code = "not_alone"
    flat = Step("before", VIEW, (X, u.x.shape), (), u.y)
    view_first = Graph(u.values, (flat, step(u, Ref("before"))), (Ref(SUBJECT),))
    unquantized_abs = Step("other", "aten.abs.default", (Ref(SUBJECT),), (), None)
    beside_float = Graph(u.values, (step(u), unquantized_abs), (Ref("other"),))
    return [
        limit(code, "behind_abs", u, behind_abs),
        limit(code, "before_abs", u, bare, then_abs),
        inside(code, "between_abs", u, behind_abs, then_abs),
        outside(code, "alone", u),
        outside(code, "behind_a_view", view_first),
        outside(code, "before_a_view", _then_view(u)),
        outside(code, "before_unquantised_abs", beside_float),
    ]


def _then_view(u: Call) -> Graph:
    after = Step("after", VIEW, (Ref(SUBJECT), (-1,)), (), u.y)
    return Graph(u.values, (step(u), after), (Ref("after"),))


def in_place(u: Call) -> list[CaseDraft]:
    """What every such row shares: parameters, company, contexts, numbers."""
    neighbors = [d for d in unquantized(u) if d.side == "outside" and d.variant != "before_unquantised_abs"]
    return [
        *same_qparams(u, behind_neg),
        *not_alone(u),
        *surroundings(u, behind_abs),
        *neighbors,
        limit("quantized", "quantised_on_both_sides", u, behind_abs, then_abs),
        *layout_values(u, behind_neg),
    ]


def ranks(most: int, with_rank: Callable[[int], Call], numbers: Sequence[int]) -> list[CaseDraft]:
    """Output ranks up to `most`."""
    return [
        (limit if rank <= most else outside)("max_rank", f"rank_{rank}", with_rank(rank), behind_abs)
        for rank in numbers
    ]


def deepest_input(limits: Limits, largest: int = 16) -> int:
    """The largest permitted rank of an input."""
    return limits.number("max_input_rank", 8, 5, largest)


def input_ranks(most: int, with_shape: Callable[[Shape], Call]) -> list[CaseDraft]:
    """Input ranks up to `most`; what comes out has a permitted rank."""
    code = "max_input_rank"
    past = [outside(code, f"rank_{n}", with_shape(_deep(n)), behind_abs) for n in (most + 1, most + 2)]
    inner = [inside(code, f"rank_{n}", with_shape(_deep(n)), behind_abs) for n in range(5, most)]
    return [limit(code, f"rank_{most}", with_shape(_deep(most)), behind_abs), *past, *inner]


def _deep(rank: int) -> Shape:
    """Dimensions of size 1, then four others."""
    return (*(1,) * (rank - 4), 2, 3, 2, 4)


Crossing = tuple[str, Call, bool]


def crossings(behind: Sequence[Crossing], before: Sequence[Crossing]) -> list[CaseDraft]:
    """Leaving channels-first (after a convolution) and entering it (before one) needs a transposition."""
    code = "transposition"
    return [
        *(
            (limit if good else outside)(code, f"behind_conv_{n}", u, behind_conv)
            for n, u, good in dict.fromkeys(behind)
        ),
        *(
            (limit if good else outside)(code, f"before_conv_{n}", into_conv(u, _channels(n), behind_abs))
            for n, u, good in dict.fromkeys(before)
        ),
    ]


def crossing(shape: Shape, to: Shape) -> str:
    return f"{sizes_of(shape)}_to_{sizes_of(to)}"


def _channels(name: str) -> int:
    """The channel count that a crossing's name ends with: `..._to_1x8x4x6` has 8."""
    return int(name.rsplit("_to_", 1)[1].split("x")[1])


# ------------------------------------------------------------------------------------ integers


Limited = Callable[[Subject, str, Limits], Iterator[CaseDraft]]
"""Makes the cases of an operator's own limits."""
At = Callable[[Shape], Call]


@dataclass(frozen=True)
class Layout:
    """A row: `at` makes its usual call of a shape; more: names and arguments of other uses of `shape`.

    For the rest see `Subject`.
    """

    at: At
    more: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    shape: Shape = IMAGE
    shapes: tuple[Shape, ...] = ((7,), (3, 5), (2, 3, 4))
    open: tuple[Shape, ...] = ((0,),)
    deep: bool = True
    idle: bool = False
    elementwise: bool = False

    @property
    def subject(self) -> Subject:
        """The row in a precision."""
        return Subject(
            or_integers(self.at),
            shape=self.shape,
            shapes=self.shapes,
            open=self.open,
            deep=self.deep,
            elementwise=self.elementwise,
            prefix=behind_abs if self.idle else bare,
        )


def layout(row: Layout, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every movement has: other arguments, where each number goes, other quantizations after it."""
    subject = row.subject
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [
        accepted(name, filled_if(replace(u, args=(X, *args)), precision), subject.prefix) for name, args in row.more
    ]
    if row.idle:
        drafts.append(limit("not_alone", "behind_abs", subject.model(u)))
        drafts.append(outside("not_alone", "alone", u))
    if precision == INTEGERS:
        return [*drafts, *plain_integers(u, subject, limits)]
    drafts += one_hots(u, subject.prefix, spots=3)
    return [*drafts, *rescaled(subject, precision), *moved_ratios(subject, precision)]


def filled_if(u: Call, precision: str) -> Call:
    """A ramp shows exchanged axes; plain integers are different already."""
    return u if precision == INTEGERS else u.with_x(fill=RAMP)


def plain_integers(u: Call, subject: Subject, limits: Limits) -> Iterator[CaseDraft]:
    """Integers of every type; truths, which Ethos-U55 has not."""
    for dtype in ("int8", "int16"):
        yield accepted(dtype, subject.model(_typed(u, dtype)))
    if "no_bool" in limits:
        yield limit("no_bool", "int32", subject.model(u))
        yield outside("no_bool", "bool", _typed(u, "bool"))
    if "code_dtype" in limits:
        limits.value("code_dtype", ())
        yield limit("code_dtype", "int32", subject.model(u))
        yield outside("code_dtype", "bool", _typed(u, "bool"))


def _typed(u: Call, dtype: str) -> Call:
    return as_integers(replace(u, values=tuple(replace(v, quant=Q) for v in u.values)), dtype)


def with_limits(row: Layout, more: Limited) -> Maker:
    """A movement with limits of its own."""
    return lambda precision, limits: [*layout(row, precision, limits), *more(row.subject, precision, limits)]


def on(op: str, *args: Any, **kwargs: Any) -> At:
    return lambda shape: call(op, shape, *args, **kwargs)


def same_sizes(args: tuple[Any, ...]) -> Limited:
    """An operator that keeps the shape computes nothing."""

    def more(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
        u = replace(subject.call(precision), args=(X, *args))
        yield limit("not_alone", "same_shape_behind_abs", u, behind_abs)
        yield outside("not_alone", "same_shape_alone", u)

    return more
