"""Faults of partitioners that are derived from their rules: from the reasons, the numbers and the arguments in them."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import getclosurevars
from itertools import count
from types import FunctionType
from typing import Any, TypeAlias
from unittest.mock import patch

from torch import fx

from npu_assay.faults import Found, Patch, less, partitioning_with, renamed, together
from npu_assay.faults.listing import Made
from npu_assay.partitioners.exir import nodes
from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import find_overload
from npu_assay.partitioners.exir.rules import Rule

Rules: TypeAlias = Mapping[str, Sequence[Rule[Any]]]
Rows: TypeAlias = Mapping[str, str]
"""By operator, how the names of the rows begin whose cases show its rules; its own name where it is not there."""
Codes: TypeAlias = Mapping[Any, Iterable[str]]
"""By operator the codes of its rules; by None those that are looked at for all operators at once."""
Place: TypeAlias = tuple[Any, str]
"""A module or class, and its function that returns the rejections of a node, or by node those of several."""


def _made(kind: str, name: str, cases: Iterable[str], patched: Patch) -> Made:
    return kind, name, tuple(dict.fromkeys(cases)), partial(partitioning_with, patched=patched)


def _cases(rows: Rows, target: str, code: str) -> str:
    return f"{rows.get(target, target)}*/{code}/"


def _each(rules: Rules) -> Iterator[tuple[str, Rule[Any]]]:
    """Every rule, with the operator that it is asked of."""
    return ((target, rule) for target, found in rules.items() for rule in found)


def _both(rows: Rows, target: str, code: str) -> list[str]:
    """The cases of a constraint, and those that keep all, of which another may show the limit."""
    return [_cases(rows, target, code), _cases(rows, target, "operator/accept")]


# ------------------------------------------------------------------------------------ reasons


def judging(change: Callable[[Found], Found], *places: Place) -> Patch:
    """Changes the rejections that these functions return."""

    def changed(right: Callable[..., Any]) -> Callable[..., Any]:
        def judge(*given: Any) -> Any:
            found = right(*given)
            if not isinstance(found, Mapping):
                return found if found is None else change(found)
            made = {node: change(reasons) for node, reasons in found.items()}
            return made if any(made.values()) else None

        return judge

    return lambda: together(*(patch.object(place, name, changed(getattr(place, name))) for place, name in places))


def dropped(codes: Codes, rows: Rows, *places: Place) -> Iterator[Made]:
    """One fault for every code of every operator (None: of all): the partitioner lacks its rules."""
    for target, found in codes.items():
        for code in dict.fromkeys(found):
            name, cases = f"{code}_of_{target or 'all'}", [_cases(rows, target or "", code)]
            yield _made("dropped", name, cases, judging(less(code, target), *places))


def misnamed(codes: Codes, *places: Place) -> Iterator[Made]:
    """One fault for every code: the partitioner gives another reason."""
    for code in dict.fromkeys(code for found in codes.values() for code in found):
        yield _made("misnamed", f"{code}_misnamed", [f"*/{code}/"], judging(renamed(code), *places))


def unstable(cases: str, *places: Place) -> Made:
    """Refuses every other time it is asked."""
    turns = count()
    mood = Rejection("", "", "mood", "none", "the mood must be good")
    refusing = judging(lambda found: (mood,), *places)
    return _made("unstable", "moody", [cases], lambda: refusing() if next(turns) % 2 else together())


# ------------------------------------------------------------------------------------ numbers


SMALL = 16
"""Numbers up to this that are written in a function are places and ranks, not limits."""


def functions(check: object) -> list[FunctionType]:
    """The function of a rule and those of its vendor, and of several, that it calls."""
    found: list[FunctionType] = []
    waiting = [check]
    while waiting:
        one = waiting.pop()
        one = one.check if isinstance(one, Rule) else one
        if isinstance(one, FunctionType) and one not in found and _is_of_rules(one.__module__):
            found.append(one)
            read = getclosurevars(one)
            waiting += [*read.globals.values(), *read.nonlocals.values()]
    return found


def _is_of_rules(module: str) -> bool:
    return ".partitioners." in module and ".exir." not in module and ".lowering." not in module


def _others(name: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """Kind, how, and what stands instead of a number or numbers."""
    if name == "left_out" and value is not None:
        yield "wrong_default", "left_out", not value
    elif type(value) is int and name != "position":
        yield from (("off_by_one", f"{name}_{how}", value + by) for how, by in (("more", 1), ("less", -1)))
    elif isinstance(value, tuple) and value and all(type(one) is int for one in value):
        yield "loosened", f"{name}_wider", tuple(range(min(value) - 1, max(value) + 2))
        if len(value) > 1:
            yield "tightened", f"{name}_fewer", value[1:]


def _numbers(one: FunctionType) -> Iterator[tuple[str, Any, Any]]:
    """The names, numbers and places of what a function reads: its module, cells, and itself for those written in it."""
    cells = dict(zip(one.__code__.co_freevars, one.__closure__ or (), strict=True))
    read = getclosurevars(one)
    for name, value in {**read.globals, **read.nonlocals}.items():
        yield name, value, cells.get(name, one.__globals__)
    yield from ((str(n), n, one) for n in one.__code__.co_consts if type(n) is int and n > SMALL)


def of_numbers(rules: Rules, rows: Rows) -> Iterator[Made]:
    """Every number that rules compare with is another; where several rules share it, it is for all of them."""
    cases = defaultdict[tuple[int, str], list[str]](list)
    made: dict[tuple[int, str], tuple[str, Any, Any]] = {}
    for target, rule in _each(rules):
        for name, value, place in (each for one in functions(rule.check) for each in _numbers(one)):
            cases[id(place), name] += _both(rows, target, rule.code)
            made.setdefault((id(place), name), (f"{rule.code}_of_{target}", value, place))
    for key, (name, value, place) in made.items():
        for kind, how, other in _others(key[1], value):
            yield _made(kind, f"{how}_in_{name}", cases[key], partial(_holding, place, key[1], other))


@contextmanager
def _holding(place: Any, name: str, value: Any) -> Iterator[None]:
    """Another value of a module's name, of a function's cell, or of a number that is written in a function."""
    if isinstance(place, dict):
        with patch.dict(place, {name: value}):
            yield
        return
    kept = "__code__" if isinstance(place, FunctionType) else "cell_contents"
    right = getattr(place, kept)
    if kept == "__code__":
        value = right.replace(co_consts=tuple(value if str(each) == name else each for each in right.co_consts))
    setattr(place, kept, value)
    try:
        yield
    finally:
        setattr(place, kept, right)


# ------------------------------------------------------------------------------------ arguments and sizes

SIGNED, ORDERED = ("dim", "dims", "pad", "start", "end"), ("dims", "kernel_size", "pad", "stride")
"""Arguments whose sign or order means something to rules."""


def reading(name: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Patch:
    """Changes a function of `exir.nodes` in every module of the partitioners."""
    right = getattr(nodes, name)
    modules = [each for path, each in sys.modules.items() if path.startswith("npu_assay.partitioners.")]
    places = [each for each in modules if vars(each).get(name) is right]
    return lambda: together(*(patch.object(place, name, change(right)) for place in places))


def asked(code: str, patched: Patch) -> Patch:
    """Asks the rules of a code under a patch."""
    right: Any = Rule.__call__

    def call(rule: Rule[Any], node: fx.Node, context: Any) -> Any:
        with patched() if rule.code == code else together():
            return right(rule, node, context)

    return lambda: patch.object(Rule, "__call__", call)


def _misread(name: str, change: Callable[[Any, Any], Any]) -> Patch:
    def changed(right: Callable[..., Any]) -> Callable[..., Any]:
        def argument(node: fx.Node, position: int, called: str, default: Any = None) -> Any:
            found = right(node, position, called, default)
            return change(found, default) if called == name else found

        return argument

    return reading("argument", changed)


def _absolute(found: Any, default: Any) -> Any:
    return found if found is None else [abs(one) for one in found] if isinstance(found, list) else abs(found)


def _turned(found: Any, default: Any) -> Any:
    return found[::-1] if isinstance(found, (list, tuple)) else found


def _texts(rule: Rule[Any]) -> set[Any]:
    found = functions(rule.check)
    held = (value for one in found for value in getclosurevars(one).nonlocals.values())
    return {text for text in (*held, *(text for one in found for text in one.__code__.co_consts)) if type(text) is str}


MISREAD: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any, Any], Any]]] = {
    "wrong_default": (lambda argument: argument.has_default_value(), lambda found, default: default),
    "wrong_sign": (lambda argument: argument.name in SIGNED, _absolute),
    "wrong_axis": (lambda argument: argument.name in ORDERED, _turned),
}
"""By kind, which arguments can be misread so, and how."""


def of_arguments(rules: Rules, rows: Rows) -> Iterator[Made]:
    """An argument that rules read is taken for its default, without its sign, or in the opposite order."""
    cases = defaultdict[tuple[str, str], list[str]](list)
    for target, rule in _each(rules):
        op, texts = find_overload(target), _texts(rule)
        for each in op._schema.arguments if op is not None else ():
            if each.name in texts and not each.kwarg_only and "Tensor" not in str(each.type):
                for kind in (kind for kind, (fits, _) in MISREAD.items() if fits(each)):
                    cases[kind, each.name] += _both(rows, target, rule.code)
    for (kind, name), found in cases.items():
        yield _made(kind, f"{kind}_of_{name}", found, _misread(name, MISREAD[kind][1]))


def of_sizes(rules: Rules, rows: Rows) -> Iterator[Made]:
    """The rules of a code that read the sizes of tensors read each of the next axis."""
    turned = reading("shape", lambda right: lambda node: (*right(node)[1:], *right(node)[:1]))
    cases = defaultdict[str, list[str]](list)
    for target, rule in _each(rules):
        if any(nodes.shape in getclosurevars(one).globals.values() for one in functions(rule.check)):
            cases[rule.code] += _both(rows, target, rule.code)
    for code, found in cases.items():
        yield _made("wrong_axis", f"{code}_of_turned_sizes", found, asked(code, turned))
