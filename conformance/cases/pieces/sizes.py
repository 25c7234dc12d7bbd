"""Shapes of the first operand: none, one element, many dimensions, sizes that are known at run time alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Call,
    CaseDraft,
    Prefix,
    accepted,
    bare,
    inside,
    label,
    limit,
    model,
    outside,
    sizes_of,
)
from npu_assay.conformance.cases.permitted import deepest, inner_ranks, of_rank, sizes_of_rank
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


CHANNELS = "channels_multiple_of"


def float_sizes(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """One element and none; ranks up to the limit and one more."""
    yield limit("nonempty", f"shape_{sizes_of(subject.single)}", subject.at(precision, subject.single))
    none = subject.at(precision, subject.empty)
    if none.dynamic is not None:  # torch takes the smallest and largest number of empty rows, not of an empty tensor
        none = replace(none, dynamic="per_token")
    yield outside("nonempty", f"shape_{sizes_of(subject.empty)}", none)
    if "max_rank" in limits:
        most = limits.number("max_rank", 6, 1, 16)
        yield limit("max_rank", f"rank_{most}", subject.at(precision, sizes_of_rank(most)))
        yield outside("max_rank", f"rank_{most + 1}", subject.at(precision, sizes_of_rank(most + 1)))
        for rank in inner_ranks(most):
            yield inside("max_rank", f"rank_{rank}", subject.at(precision, sizes_of_rank(rank)))


def open_sizes(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Sizes that are known only at run time."""
    u, limited = subject.call(precision), "open_sizes" in limits
    limits.fixed("open_sizes", 1)
    for axes in subject.open if limited or precision == "fp32" else subject.open[-1:]:
        variant, graph = f"open_axis_{'_and_'.join(map(str, axes))}", model(opened(u, axes))
        if not limited:
            yield accepted(variant, graph)
        else:
            yield limit("open_sizes", variant, graph) if len(axes) == 1 else outside("open_sizes", variant, graph)


def integer_sizes(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Baseline, other shapes, ranks up to the limit and one more, open sizes."""
    u = subject.call(precision)
    yield accepted("baseline", subject.model(u))
    for shape in subject.shapes:
        yield accepted(f"shape_{sizes_of(shape) or 'scalar'}", subject.model(subject.call(precision, shape)))
    if subject.deep:
        most = limits.number("max_rank", 6, 1, 16)
        yield limit("max_rank", f"rank_{most}", subject.model(subject.call(precision, sizes_of_rank(most))))
        yield outside("max_rank", f"rank_{most + 1}", subject.model(subject.call(precision, sizes_of_rank(most + 1))))
        for rank in inner_ranks(most):
            yield inside("max_rank", f"rank_{rank}", subject.model(subject.call(precision, sizes_of_rank(rank))))
    yield limit("static_shape", "known_sizes", subject.model(u))
    for axes in subject.open[:1]:
        yield outside("static_shape", f"open_axis_{label(axes)}", _opened(u, axes), subject.prefix)


def _opened(u: Call, axes: tuple[int, ...]) -> Call:
    """The call with open sizes of `x`, and of the operands of its shape."""
    wide_open = opened(u, axes).values
    same = u.x.shape
    return replace(u, values=tuple(o if v.shape == same else v for v, o in zip(u.values, wide_open, strict=True)))
