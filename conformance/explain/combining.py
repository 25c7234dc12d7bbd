"""Causes of what a user wrote: the roots of one thing together, things alike in one cause, and what mending gains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from npu_assay.conformance.explain.composites import Written
from npu_assay.conformance.explain.reasons import LEFT_ALONE, NOT_QUANTIZED, UNSUPPORTED
from npu_assay.conformance.explain.record import Cause, Gain, Operator, Reason
from npu_assay.conformance.explain.summary import short

Own = Mapping[str, tuple[Reason, ...]]
"""Why operators are left out that are for themselves, by their names."""
Waits = Mapping[str, frozenset[str] | None]
"""The operators without which one would be taken but for its own reasons; None where it would not be."""


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
    things = {name: thing for name, thing in things.items() if own.get(name) != (NOT_QUANTIZED,)}
    parts: dict[tuple[str, ...], list[str]] = {}
    for name in own:
        parts.setdefault(things[name].key if name in things else ("operator", name), []).append(name)
    labels = {names[0]: things[names[0]].label if names[0] in things else "" for names in parts.values()}
    composite = {labels[names[0]] for names in parts.values() if len(names) > 1}
    groups: dict[tuple[Any, ...], list[list[str]]] = {}
    for label, names in zip(labels.values(), parts.values(), strict=True):
        ordered = _first_first(names, own, operators)
        first = own[ordered[0]]
        key = (label, first[0].code) if label in composite else _kind(first, operators[ordered[0]])
        groups.setdefault((label if label in composite else "", *key), []).append(ordered)
    return [_group(key[0], each, operators, things) for key, each in groups.items()]


def _group(
    label: str, parts: Sequence[Sequence[str]], operators: Mapping[str, Operator], things: Mapping[str, Written]
) -> Group:
    """One cause. label: of the things that it is about, "" where these are single operators."""
    firsts = [operators[names[0]] for names in parts]
    labels = {label or (things[one.name].label if one.name in things else "") for one in firsts}
    is_module = labels == {firsts[0].kind}
    roots = [*(one.name for one in firsts), *(name for names in parts for name in names[1:])]
    plain = short(firsts[0].operator).removeprefix("_").removesuffix("_copy")
    return Group(label or (firsts[0].kind if is_module else plain), len(parts), tuple(roots))


def _first_first(names: Sequence[str], own: Own, operators: Mapping[str, Operator]) -> list[str]:
    """The roots of one thing: what no quantizer looked into first, else the dearest, of equal ones an unknown one."""

    def rank(name: str) -> tuple[bool, int, bool]:
        reason = own[name][0]
        return reason.sentence != LEFT_ALONE.sentence, -work(operators[name]), reason.code != UNSUPPORTED

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


def with_gains(causes: Sequence[Cause], operators: Mapping[str, Operator], waits: Waits) -> list[Cause]:
    """The causes with what would be taken without each, and without it and all before it."""
    numbers = {name: number for number, cause in enumerate(causes) for name in cause.operators}
    rewritten = (name for cause in causes if cause.sentence == LEFT_ALONE.sentence for name in cause.roots)
    waits = {**waits, **dict.fromkeys(rewritten, frozenset[str]())}  # as it then has codes inside
    needs = {name: _needed(name, waits, numbers) for name in numbers}

    def gain(gone: Collection[int]) -> Gain:
        won = [operators[name] for name, needed in needs.items() if needed is not None and needed <= set(gone)]
        return Gain(len(won), sum(one.macs for one in won))

    return [replace(cause, alone=gain([n]), together=gain(range(n + 1))) for n, cause in enumerate(causes)]


def _needed(name: str, waits: Waits, numbers: Mapping[str, int]) -> frozenset[int] | None:
    """The causes that have to go before a backend takes an operator; None for one that it never takes."""
    seen, left = {name}, [name]
    while left:
        more = waits[left.pop()]
        if more is None:
            return None
        new = (more & numbers.keys()) - seen
        seen |= new
        left += sorted(new)
    return frozenset(numbers[each] for each in seen)
