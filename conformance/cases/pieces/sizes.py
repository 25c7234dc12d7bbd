"""Shapes of the first operand: none, one element, many dimensions, sizes that are known at run time alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Prefix, bare, sizes_of
from npu_assay.conformance.cases.permitted import Shape, deepest, inner_ranks, of_rank, sizes_of_rank
from npu_assay.conformance.cases.pieces.spelling import opened
from npu_assay.conformance.cases.pieces.subject import Subject


def static_sizes(u: Call, prefix: Prefix = bare) -> list[CaseDraft]:
    """Sizes are at least 1: an empty tensor is never delegated."""
    x = u.x
    lead = x.shape[0]
    values = tuple(v if v.constant or v.shape[0] != lead else replace(v, shape=(0, *v.shape[1:])) for v in u.values)
    known = limit("static_shape", "known_sizes", u, prefix)
    if u.op == "aten.upsample_nearest2d.vec":  # torch cannot tell the shape of an empty one (see coverage)
        return [known]
    return [known, outside("static_shape", "no_elements", replace(u, values=values), prefix)]


def rank_limit(
    limits: Limits, with_shape: Callable[[tuple[int, ...]], Call], last: int = 8, prefix: Prefix = bare
) -> list[CaseDraft]:
    """Ranks up to the row's `max_rank`; `last` is the last dimension's size."""
    most = deepest(limits)
    past = [outside("max_rank", f"rank_{n}", with_shape(of_rank(n, last)), prefix) for n in (most + 1, most + 2)]
    inner = [inside("max_rank", f"rank_{n}", with_shape(of_rank(n, last)), prefix) for n in inner_ranks(most)]
    return [limit("max_rank", f"rank_{most}", with_shape(of_rank(most, last)), prefix), *past, *inner]


LARGE = 65536
Arguments = tuple[tuple[str, tuple[Any, ...]], ...]


def listed(value: object) -> str:
    """Arguments in a case id: `2`, `list_2_3`, `empty`."""
    if isinstance(value, tuple):
        return "list_" + "_".join(map(str, value)) if value else "empty"
    return str(value).replace("-", "minus_")


def baseline(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """The plain call."""
    yield accepted("baseline", subject.call(precision), subject.prefix)


def shapes(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Other shapes than the usual one."""
    for shape in subject.shapes:
        yield accepted(f"shape_{sizes_of(shape) or 'scalar'}", subject.call(precision, shape), subject.prefix)


def nonempty(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """One element and none."""
    yield limit("nonempty", f"shape_{sizes_of(subject.single)}", subject.call(precision, subject.single))
    none = subject.call(precision, subject.empty)
    if none.dynamic is not None:  # torch takes the smallest and largest number of empty rows, not of an empty tensor
        none = replace(none, dynamic="per_token")
    yield outside("nonempty", f"shape_{sizes_of(subject.empty)}", none)


def ranks(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Ranks up to the limit and one more."""
    if subject.deep:
        most = limits.number("max_rank", 6, 1, 16)
        for side, numbers in ((limit, (most,)), (outside, (most + 1,)), (inside, inner_ranks(most))):
            for rank in numbers:
                yield side("max_rank", f"rank_{rank}", subject.call(precision, sizes_of_rank(rank)), subject.prefix)


def _axes(axes: Shape) -> str:
    return f"open_axis_{'_and_'.join(map(str, axes))}"


def static_shapes(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Sizes are known before the program runs."""
    u = subject.call(precision)
    yield limit("static_shape", "known_sizes", u, subject.prefix)
    for axes in subject.open[:1]:
        yield outside("static_shape", _axes(axes), _opened(u, axes), subject.prefix)


def open_sizes(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Sizes that are known only at run time."""
    limited = "open_sizes" in limits
    limits.fixed("open_sizes", 1)
    for axes in subject.open if limited or precision == "fp32" else subject.open[-1:]:
        variant, u = _axes(axes), opened(subject.call(precision), axes)
        if not limited:
            yield accepted(variant, u)
        else:
            yield (limit if len(axes) == 1 else outside)("open_sizes", variant, u)


CHANNELS = "channels_multiple_of"


def _opened(u: Call, axes: tuple[int, ...]) -> Call:
    """The call with dynamic sizes of `x`, and of the operands of its shape."""
    wide_open = opened(u, axes).values
    same = u.x.shape
    return replace(u, values=tuple(o if v.shape == same else v for v, o in zip(u.values, wide_open, strict=True)))
