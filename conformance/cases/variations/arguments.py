"""Other arguments: what somebody normalizes, one past each end, the last of a list, what is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from npu_assay.conformance.cases.variations.base import Base, Variation, ends, in_turn, replaced
from npu_assay.conformance.programs.graph import Graph
from npu_assay.reference.golden.aten import aten, bound, canonical, parameters

REALS = (math.inf, -math.inf, math.nan, 3e38, -3e38, 1e-38, 0.0, -0.0, 0.5, -1.0)


def arguments(base: Base) -> Iterator[Variation]:
    """Each argument that is a number or a truth, as another one."""
    return in_turn(*(_other_arguments(base, name, found) for name, found in _given(base)))


def _other_arguments(base: Base, name: str, found: Any) -> Iterator[Variation]:
    for other in _others(base, found):
        yield f"{name}_{_text(other)}", _with(base, name, other)


def left_out(base: Base) -> Iterator[Variation]:
    """Each argument that may be None, without its value, and with one where it has none; of a list, each item."""
    optional = {name for name, kind in _types(base).items() if kind.startswith("optional")}
    for name, found in _given(base):
        if isinstance(found, tuple) and _types(base)[name].startswith("list[optional"):
            for place, after in ((place, place + gap) for gap in (0, 1) for place in range(len(found) + 1 - gap)):
                yield f"{name}_none_{place}_{after}", _with(base, name, (*found[:place], None, *found[after:]))
        elif name in optional and found is not None:
            yield f"without_{name}", _with(base, name, None)
        elif name in optional:
            kind = _types(base)[name]
            for other in _fitting(base, kind):
                yield f"{name}_{_text(other)}", _with(base, name, other)


def list_items(base: Base) -> Iterator[Variation]:
    """Each list, the last one first: rising, all alike, turned around, empty; its last, second and first item."""
    lists = [(name, found) for name, found in reversed(_given(base)) if _is_numbers(found)]
    items = (_other_items(base, name, found, place) for name, found in lists for place in ends(len(found)))
    return in_turn(*(_other_lists(base, name, found) for name, found in lists), *items)


def _other_items(base: Base, name: str, found: tuple[Any, ...], place: int) -> Iterator[Variation]:
    for other in _others(base, found[place]):
        yield f"{name}_{place}_{_text(other)}", _with(base, name, replaced(found, place, other))


def _other_lists(base: Base, name: str, found: tuple[Any, ...]) -> Iterator[Variation]:
    others = {"rolled": found[1:] + found[:1], "turned": found[::-1], "empty": (), "alike": found[-1:] * len(found)}
    if all(type(item) is int for item in found):
        others = {"rising": tuple(item + place for place, item in enumerate(found)), **others}
        others["signs"] = tuple(_negative(base, item) if n % 2 else item for n, item in enumerate(found))
        if len(found) > 1:
            others["uneven"] = (found[0] + 1, *found[1:-1], found[-1] - 1)
    for label, other in others.items():
        yield f"{name}_{label}", _with(base, name, other)


def ranks(base: Base) -> Iterator[Variation]:
    """One and two dimensions more, with each list of an item for each: as dimensions, in turn, or as sizes."""
    alike = [v for v in base.values if len(v.shape) == len(base.shape) and not v.constant]
    for more in (1, 2):
        deeper = base.with_values({v.name: {"shape": (*(2,) * more, *v.shape)} for v in alike})
        yield f"{more}_more", deeper
        for name, found in _given(base):
            if _is_numbers(found) and len(found) == len(base.shape) and found:
                moved = (*range(more), *(item + more if item >= 0 else item for item in found))
                others = {"rolled": moved[1:] + moved[:1], "moved": moved, "longer": (*(2,) * more, *found)}
                for label, other in others.items():
                    yield f"{more}_more_{name}_{label}", _with(base, name, other, deeper)


def _given(base: Base) -> list[tuple[str, Any]]:
    """Every argument of the step by the name that its schema has, those that it leaves out as their defaults."""
    step = base.step
    found = bound(step.op, step.args, dict(step.kwargs))
    return [(name, tuple(found[name]) if isinstance(found[name], list) else found[name]) for name in _types(base)]


def _types(base: Base) -> dict[str, str]:
    """The type of each argument as the schema has it; of an operator without a schema nothing is known."""
    schema = getattr(aten(canonical(base.step.op)), "_schema", None)
    return {} if schema is None else {each.name: str(each.real_type).lower() for each in schema.arguments}


def _is_numbers(found: Any) -> bool:
    return isinstance(found, tuple) and all(type(item) in (int, float, bool) for item in found)


def _others(base: Base, found: Any) -> Iterator[Any]:
    """Numbers near one, with its other sign, and past the ends of the dimensions that it may name."""
    if isinstance(found, bool):
        yield not found
    elif isinstance(found, int):
        rank, size = len(base.shape), max(base.shape, default=1)
        near = (_negative(base, found), found + 1, found - 1, -found, 0, -1, 1, 2)
        far = (rank - 1, rank, -rank - 1, size, size + 1, 2**31 - 1)
        yield from (n for n in dict.fromkeys((*near, *far)) if n != found)
    elif isinstance(found, float):
        yield from (n for n in (*REALS, -found, found / 3) if n != found)


def _negative(base: Base, found: int) -> int:
    """The same dimension counted from the end, or from the front."""
    rank = len(base.shape)
    return found - rank if found >= 0 else found + rank


def _fitting(base: Base, kind: str) -> Iterator[Any]:
    """Values for an argument that has none."""
    rank = len(base.shape)
    if "list[" in kind and "int" in kind:
        yield from ((rank - 1,), (-1,), (0, rank - 1), (), (1,) * rank)
    elif "int" in kind:
        yield from (0, 1, -1, rank - 1)
    elif "number" in kind or "float" in kind:
        yield from (0.5, 2, -1.0, *REALS)
    elif "bool" in kind:
        yield from (True, False)


def _with(base: Base, name: str, other: Any, graph: Graph | None = None) -> Graph:
    """The program with another argument, in its place or by its name."""
    base = base if graph is None else Base(graph, base.subject, base.use)
    step, known = base.step, parameters(canonical(base.step.op))
    places = [each for each, keyword_only, _ in known if not keyword_only]
    place = places.index(name) if name in places else len(step.args) + 1
    if name in dict(step.kwargs) or place > len(step.args):
        defaults = {each: default for each, _, default in known}
        between = [defaults[each] for each in places[len(step.args) : place]]
        if name in places and name not in dict(step.kwargs) and not step.kwargs:
            tied = (tuple(item) if isinstance(item, list) else item for item in between)
            return base.with_step(args=(*step.args, *tied, other))
        return base.with_step(kwargs=tuple({**dict(step.kwargs), name: other}.items()))
    return base.with_step(args=replaced(step.args, place, other))


def _text(found: Any) -> str:
    text = "_".join(map(str, found)) or "empty" if isinstance(found, tuple) else str(found)
    return text.replace("-", "minus_").replace("+", "")
