"""Causes of what a user wrote: the roots of one thing together, things alike in one cause, and what mending gains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from npu_assay.conformance.explain.composites import Written
from npu_assay.conformance.explain.reasons import LEFT_ALONE, NOT_QUANTIZED
from npu_assay.conformance.explain.record import Cause, Gain, Operator, Reason
from npu_assay.conformance.explain.summary import short

if TYPE_CHECKING:
    from npu_assay.conformance.explain.causes import Causes

Own = Mapping[str, tuple[Reason, ...]]
"""Why operators are left out that are for themselves, by their names."""


@dataclass(frozen=True)
class Group:
    """Operators of one cause, the one that it is named by first. label, times: see `Cause`."""

    label: str
    times: int
    roots: tuple[str, ...]


def work(one: Operator) -> int:
    """The multiply-accumulates of an operator, or the numbers that it gives where nothing multiplies."""
    return max(one.macs, prod(one.shape))


def grouped(own: Own, operators: Mapping[str, Operator], things: Mapping[str, Written]) -> list[Group]:
    """The roots as causes: those of things of one label that begin alike, else operators of one kind and code."""
    parts: dict[tuple[str, ...], list[str]] = {}
    for name, reasons in own.items():
        thing = things.get(name)
        is_alone = thing is None or reasons == (NOT_QUANTIZED,)
        parts.setdefault(("operator", name) if thing is None or is_alone else thing.key, []).append(name)
    composite = {things[names[0]].label for names in parts.values() if len(names) > 1}
    groups: dict[tuple[Any, ...], list[list[str]]] = {}
    for names in parts.values():
        names = _first_first(names, own, operators)
        label = things[names[0]].label if names[0] in things else ""
        is_whole = label in composite and own[names[0]] != (NOT_QUANTIZED,)
        key = (label, own[names[0]][0].code) if is_whole else _kind(own[names[0]], operators[names[0]])
        groups.setdefault(key, []).append(names)
    return [_group(each, own, operators, things, composite) for each in groups.values()]


def _group(
    parts: Sequence[Sequence[str]],
    own: Own,
    operators: Mapping[str, Operator],
    things: Mapping[str, Written],
    composite: Collection[str],
) -> Group:
    first = parts[0][0]
    labels = {things[names[0]].label if names[0] in things else "" for names in parts}
    is_whole = len(labels) == 1 and labels <= {*composite, operators[first].kind} and own[first] != (NOT_QUANTIZED,)
    label = labels.pop() if is_whole else short(operators[first].operator)
    roots = [*(names[0] for names in parts), *(name for names in parts for name in names[1:])]
    return Group("" if own[first] == (NOT_QUANTIZED,) else label, len(parts), tuple(roots))


def _first_first(names: Sequence[str], own: Own, operators: Mapping[str, Operator]) -> list[str]:
    """The roots of one thing: what no quantizer looked into first, else the dearest."""

    def rank(name: str) -> tuple[bool, int]:
        one = operators[name]
        return own[name][0].sentence != LEFT_ALONE.sentence, -work(one)

    first = min(names, key=rank)
    return [first, *(name for name in names if name != first)]


def _kind(reasons: Sequence[Reason], one: Operator) -> tuple[Any, ...]:
    """What operators have in common that are left out for one cause."""
    if tuple(reasons) == (NOT_QUANTIZED,):
        return (NOT_QUANTIZED.code,)
    if reasons[0].sentence == LEFT_ALONE.sentence:
        return (reasons[0].code, reasons[0].found)
    return (one.operator, *sorted({reason.code for reason in reasons}))


# ------------------------------------------------------------------------------------ gains


def with_gains(found: Causes, causes: Sequence[Cause]) -> list[Cause]:
    """The causes with what would be taken without each, and without it and all before it."""
    numbers = {name: number for number, cause in enumerate(causes) for name in cause.operators}
    needs = _needs(found, causes, numbers)

    def gain(gone: Collection[int]) -> Gain:
        won = [found.operators[name] for name, needed in needs.items() if needed is not None and needed <= set(gone)]
        return Gain(len(won), sum(one.macs for one in won))

    return [
        replace(cause, alone=gain([number]), together=gain(range(number + 1))) for number, cause in enumerate(causes)
    ]


def _needs(found: Causes, causes: Sequence[Cause], numbers: Mapping[str, int]) -> dict[str, frozenset[int] | None]:
    """For each operator the causes that have to go before a backend takes it; None for one that it never takes."""
    waits = {name: found.waits_for(name) for name in numbers}
    rewritten = (cause for cause in causes if cause.sentence == LEFT_ALONE.sentence)
    waits |= {name: frozenset() for cause in rewritten for name in cause.roots}  # which then has codes inside
    return {name: _needed(name, waits, numbers) for name in numbers}


def _needed(name: str, waits: Mapping[str, frozenset[str] | None], numbers: Mapping[str, int]) -> frozenset[int] | None:
    seen, left = {name}, [name]
    while left:
        more = waits[left.pop()]
        if more is None:
            return None
        new = (more & numbers.keys()) - seen
        seen |= new
        left += sorted(new)
    return frozenset(numbers[each] for each in seen)
