"""What can be changed about a model: sizes, arguments, constants, ranks, types; a knob is one thing to turn.

A size that others must follow (the channels of an image and of its weights) is one knob with them, which torch is
asked for: sizes are tied where it refuses one without the other. No operator is named here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from npu_assay.conformance.cases.make import SUBJECT, f32, spread
from npu_assay.conformance.exact import references
from npu_assay.conformance.graph import Graph, Quant, Ref, Step, Value
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.predicates.features import DIMENSIONS
from npu_assay.reference.golden.aten import canonical, parameters

LARGEST = 2**20
LEAST = -8  # of an argument
ORDERS = 24  # of dimensions that are tried
Slot = tuple[str, int]  # a value and its axis
Turn = Callable[[Graph, Any], Graph | None]


@dataclass(frozen=True)
class Knob:
    """`turn(graph, value)` is the graph with the knob there, or None; `at` is where it stands, `values` where it may.

    `values` come nearest first. `number` says that those between two of them are values as well, `slots` are the
    sizes that it is of.
    """

    name: str
    at: Any
    values: tuple[Any, ...]
    turn: Turn
    number: bool = False
    slots: tuple[Slot, ...] = ()


def knobs(graph: Graph, told: Sequence[int]) -> tuple[Knob, ...]:
    """Every knob of the model's subject, in an order of its own. `told` are numbers of the row's limits."""
    return (
        *_sizes(graph, told),
        *_arguments(graph, told),
        *_constants(graph),
        *_ranks(graph),
        *_directions(graph),
        *_types(graph),
    )


def near(at: int, told: Sequence[int], least: int = LEAST, doublings: int = 8) -> tuple[int, ...]:
    """Whole numbers around one, nearest first, then those around the limits' numbers, then powers of two."""
    close = [at + sign * step for step in range(1, 5) for sign in (1, -1)]
    limits = sorted({n + more for n in told for more in (-1, 0, 1, n)}, key=lambda n: (abs(n - at), n))
    far = sorted((2**power for power in range(1, doublings + 1)), key=lambda n: abs(n - at))
    found = dict.fromkeys([*close, *limits, 2 * at, 3 * at, *far])
    return tuple(n for n in found if least <= n <= LARGEST and n != at)


def exists(graph: Graph) -> bool:
    """Whether torch takes the model."""
    try:
        application(graph, SUBJECT)
    except NoProgram:
        return False
    return True


# ------------------------------------------------------------------------------------ sizes


def _sizes(graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    values = {value.name: value for value in graph.values}
    slots = [
        (value.name, axis)
        for value in graph.values
        for axis, size in enumerate(value.shape)
        if size and axis not in value.dynamic
    ]
    seen = set[tuple[Slot, ...]]()
    for slot in slots:
        name, axis = slot
        at = values[name].shape[axis]
        for tied in _tied(graph, slot, [s for s in slots if s != slot and values[s[0]].shape[s[1]] == at]):
            if tied not in seen:
                seen.add(tied)
                text = "_and_".join(f"{value}_{each}" for value, each in tied)
                yield Knob(text, at, near(at, told, 1, 20), partial(_resized, tied), True, tied)


def _tied(graph: Graph, slot: Slot, alike: Sequence[Slot]) -> Iterator[tuple[Slot, ...]]:
    """The smallest set of sizes that torch lets grow with this one; those that may grow alone or with others: both."""
    at = next(value.shape[slot[1]] for value in graph.values if value.name == slot[0])
    alone = _grows(graph, (slot,), at)
    if alone:
        yield (slot,)
    if alone and at != 1:
        return
    same_axis = [other for other in alike if other[1] == slot[1]]
    for count in (1, 2, 3):
        for others in itertools.combinations(same_axis if alone else alike, count):
            tied = tuple(sorted((slot, *others), key=lambda s: _place(graph, s)))
            if _grows(graph, tied, at):
                yield tied
                return


def _place(graph: Graph, slot: Slot) -> tuple[int, int]:
    return [value.name for value in graph.values].index(slot[0]), slot[1]


def _grows(graph: Graph, tied: tuple[Slot, ...], at: int) -> bool:
    for size in (at + 1, 2 * at):
        grown = _resized(tied, graph, size)
        if grown is not None and exists(grown):
            return True
    return False


def _resized(tied: Iterable[Slot], graph: Graph, size: int) -> Graph | None:
    for name, axis in tied:
        graph = replace(graph, values=tuple(_with_size(v, axis, size) if v.name == name else v for v in graph.values))
    return graph


def opened(graph: Graph, slots: Iterable[Slot]) -> Graph:
    """The model with these sizes known only at run time."""
    axes = {name: tuple(axis for other, axis in slots if other == name) for name, _ in slots}
    values = (replace(v, dynamic=() if v.constant else axes.get(v.name, ())) for v in graph.values)
    return replace(graph, values=tuple(values))


def _with_size(value: Value, axis: int, size: int) -> Value:
    shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
    return replace(value, shape=shape, quant=_scaled(value, shape), fill=_filled(value, shape))


def _scaled(value: Value, shape: tuple[int, ...]) -> Quant | None:
    """The quantisation with as many scales as the new shape needs."""
    quant = value.quant
    if quant is None or not isinstance(quant.scale, tuple):
        return quant
    assert quant.axis is not None
    count = shape[quant.axis] * (1 if quant.group is None else max(1, shape[-1] // quant.group))
    if count == len(quant.scale):
        return quant
    return replace(quant, scale=spread(max(quant.scale), count))


def _filled(value: Value, shape: tuple[int, ...]) -> Any:
    """A fill of one place moves to the first where the place is gone."""
    return replace(value.fill, index=0) if value.fill.index >= math.prod(shape) else value.fill


# ------------------------------------------------------------------------------------ arguments


def _subject(graph: Graph) -> Step:
    return next(step for step in graph.steps if step.name == SUBJECT)


def _with_subject(graph: Graph, changed: Step) -> Graph:
    return replace(graph, steps=tuple(changed if step.name == SUBJECT else step for step in graph.steps))


@dataclass(frozen=True)
class _Argument:
    """An argument of the subject: `place` among those by position, None by name; `default` where it is left out."""

    name: str
    place: int | None
    default: Any

    def get(self, graph: Graph) -> Any:
        """What the program gives, lists as tuples."""
        step = _subject(graph)
        found = dict(step.kwargs).get(self.name, self.default) if self.place is None else step.args[self.place]
        return tuple(found) if isinstance(found, list) else found

    def put(self, graph: Graph, found: Any) -> Graph:
        step = _subject(graph)
        if self.place is not None:
            args = (*step.args[: self.place], found, *step.args[self.place + 1 :])
            return _with_subject(graph, replace(step, args=args))
        others = tuple(item for item in step.kwargs if item[0] != self.name)
        return _with_subject(graph, replace(step, kwargs=(*others, (self.name, found))))

    def put_item(self, index: int, graph: Graph, number: int) -> Graph | None:
        listed = self.get(graph)
        return self.put(graph, (*listed[:index], number, *listed[index + 1 :])) if index < len(listed) else None

    def put_all(self, graph: Graph, number: int) -> Graph:
        return self.put(graph, (number,) * len(self.get(graph)))


def _arguments(graph: Graph, told: Sequence[int]) -> Iterator[Knob]:
    """Numbers, truth values and lists among the arguments, also those that the program leaves to their defaults."""
    step, first = _subject(graph), next(_operands(graph), None)
    rank = len(first.shape) if first is not None else 0
    for place, (name, keyword_only, default) in enumerate(parameters(canonical(step.op))):
        by_place = not keyword_only and place < len(step.args)
        argument = _Argument(name, place if by_place else None, default)
        yield from _turns(argument, argument.get(graph), rank, told)


def _turns(argument: _Argument, at: Any, rank: int, told: Sequence[int]) -> Iterator[Knob]:
    name = argument.name
    if type(at) is bool:
        yield Knob(name, at, (not at,), argument.put)
    elif type(at) is int:
        yield Knob(name, at, near(at, told), argument.put, True)
    elif type(at) is float:
        yield Knob(name, at, (at + 1.0, at / 2, at * 2, -at, 0.0, 1.0), argument.put)
    elif isinstance(at, tuple) and at and all(type(item) is int for item in at):
        if _is_order(at, rank):
            orders = (order for order in itertools.permutations(range(rank)) if order != at)
            yield Knob(f"{name}_order", at, tuple(itertools.islice(orders, ORDERS)), argument.put)
        else:
            yield from _list(argument, at, told)


def _is_order(at: tuple[int, ...], rank: int) -> bool:
    return rank > 1 and sorted(dim + rank if dim < 0 else dim for dim in at) == list(range(rank))


def _list(argument: _Argument, at: tuple[int, ...], told: Sequence[int]) -> Iterator[Knob]:
    """Each number of a list, and all of them at once."""
    name = argument.name
    for index, number in enumerate(at):
        yield Knob(f"{name}_{index}", number, near(number, told), partial(argument.put_item, index), True)
    if len(at) > 1 and len(set(at)) == 1:
        yield Knob(name, at[0], near(at[0], told), argument.put_all, True)


# ------------------------------------------------------------------------------------ constants and ranks


def _operands(graph: Graph) -> Iterator[Value]:
    """The values that the subject takes, in order; of a step in front of it those that it takes."""
    named = {value.name: value for value in graph.values}
    steps = {step.name: step for step in graph.steps}
    waiting = list(references(_subject(graph).args))
    while waiting:
        name = waiting.pop(0).name
        if name in named:
            yield named[name]
        else:
            waiting = [*references(steps[name].args), *waiting]


def _constants(graph: Graph) -> Iterator[Knob]:
    """Whether an operand is a constant; one input at least stays one."""
    for value in _operands(graph):
        yield Knob(f"{value.name}_constant", value.constant, (not value.constant,), partial(_turned, value.name))


def _turned(name: str, graph: Graph, constant: bool) -> Graph | None:
    """An input has one scale for all of it."""
    values = tuple(_as(value, constant) if value.name == name else value for value in graph.values)
    return replace(graph, values=values) if any(not value.constant for value in values) else None


def _as(value: Value, constant: bool) -> Value:
    quant = value.quant
    if not constant and quant is not None and isinstance(quant.scale, tuple):
        quant = replace(quant, scale=f32(max(quant.scale)), axis=None, group=None)
    return replace(value, constant=constant, quant=quant)


def _ranks(graph: Graph) -> Iterator[Knob]:
    """How many dimensions the first operand has, and all others that have as many; leading ones come and go."""
    first = next(_operands(graph), None)
    if first is None or first.dynamic:
        return
    rank = len(first.shape)
    alike = {value.name for value in _operands(graph) if len(value.shape) == rank and not value.dynamic}
    others = tuple(n for n in sorted(range(9), key=lambda n: abs(n - rank)) if n != rank)
    for names in dict.fromkeys(((first.name,), tuple(sorted(alike)))):
        for size in (2, 1):
            text = f"{'_and_'.join(names)}_rank{'' if size > 1 else '_of_ones'}"
            yield Knob(text, rank, others, partial(_of_rank, names, size), True)


def _of_rank(names: Iterable[str], size: int, graph: Graph, rank: int) -> Graph | None:
    """New dimensions of this size in front, or the leading ones taken away."""
    values, more = list[Value](), 0
    for value in graph.values:
        if value.name in names:
            more = rank - len(value.shape)
            if value.quant is not None and value.quant.axis is not None:
                return None
            shape = (*(size,) * (rank - len(value.shape)), *value.shape[max(0, len(value.shape) - rank) :])
            value = replace(value, shape=shape, fill=_filled(value, shape))
        values.append(value)
    return _reordered(replace(graph, values=tuple(values)), rank, more)


def _reordered(graph: Graph, rank: int, more: int) -> Graph:
    """The subject's dimensions and orders of them, `more` of which are in front now."""
    step = _subject(graph)
    names = [name for name, _, _ in parameters(canonical(step.op))]
    args = (_moved(n, item, rank, more) for n, item in zip(names, step.args, strict=False))
    return _with_subject(graph, replace(step, args=tuple(args)))


def _moved(name: str, argument: Any, rank: int, more: int) -> Any:
    if name in DIMENSIONS and type(argument) is int and argument >= 0:
        return max(0, argument + more)
    return _order_of(argument, rank)


def _order_of(argument: Any, rank: int) -> Any:
    if not isinstance(argument, tuple) or not all(type(item) is int for item in argument):
        return argument
    was, more = len(argument), rank - len(argument)
    if not _is_order(argument, was):
        return argument
    front = [dim + was if dim < 0 else dim for dim in argument]
    return (*range(more), *(dim + more for dim in front if dim + more >= 0))


def _directions(graph: Graph) -> Iterator[Knob]:
    """How many directions windows move in: the sizes behind batch and channels, and the lists with one number each."""
    first = next(_operands(graph), None)
    rank = 0 if first is None else len(first.shape)
    lists = [item for item in _subject(graph).args if isinstance(item, tuple) and len(item) == rank - 2]
    if rank > 2 and any(not any(isinstance(each, Ref) for each in item) for item in lists):
        names = tuple(value.name for value in _operands(graph) if len(value.shape) == rank)
        others = tuple(n for n in (rank - 3, rank - 1) if 0 < n < 4)
        yield Knob("directions", rank - 2, others, partial(_moving_in, names))


def _moving_in(names: Iterable[str], graph: Graph, directions: int) -> Graph | None:
    """With sizes of 3 in new directions; lists of numbers repeat their first."""
    step, values = _subject(graph), list[Value]()
    was = 0
    for value in graph.values:
        if value.name in names:
            was = len(value.shape) - 2
            shape = (*value.shape[:2], *(3,) * (directions - was), *value.shape[2 + max(0, was - directions) :])
            value = replace(value, shape=shape, fill=_filled(value, shape))
        values.append(value)
    args = tuple(_in_directions(item, was, directions) for item in step.args)
    return _with_subject(replace(graph, values=tuple(values)), replace(step, args=args))


def _in_directions(argument: Any, was: int, directions: int) -> Any:
    if not isinstance(argument, tuple) or len(argument) != was or not all(type(item) is int for item in argument):
        return argument
    return (*argument[:1] * (directions - was), *argument[max(0, was - directions) :])


# ------------------------------------------------------------------------------------ number types

CODES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1)}
)
"""The types of codes, and their ranges."""
REALS = ("float32", "float16", "bfloat16", "float64")


def _types(graph: Graph) -> Iterator[Knob]:
    """The number type of everything that is no constant: of codes that of inputs and that of results also alone."""
    first = next(_operands(graph), None)
    if first is None or first.constant:
        return
    at = first.dtype if first.quant is None else first.quant.dtype
    if first.quant is None and at in REALS:
        yield Knob("dtype", at, tuple(name for name in REALS if name != at), partial(_of_reals, at))
    elif at in CODES:
        others = tuple(name for name in CODES if name != at)
        for name, inputs, results in (
            ("dtype", True, True),
            ("input_dtype", True, False),
            ("output_dtype", False, True),
        ):
            yield Knob(name, at, others, partial(_of_codes, at, inputs, results))


def _of_codes(at: str, inputs: bool, results: bool, graph: Graph, dtype: str) -> Graph | None:
    """Activations of these codes, with the same scales; zero points stay as far from the lowest code as they were."""
    low, high = CODES[dtype]

    def changed(quant: Quant | None) -> Quant | None:
        if quant is None or quant.dtype != at:
            return quant
        zero = 0 if dtype == "int16" else quant.zero_point - CODES[at][0] + low
        return replace(quant, dtype=dtype, qmin=low, qmax=high, zero_point=zero)

    values = tuple(replace(v, quant=changed(v.quant)) if inputs and not v.constant else v for v in graph.values)
    steps = tuple(replace(step, quant=changed(step.quant)) if results else step for step in graph.steps)
    return replace(graph, values=values, steps=steps)


def _of_reals(at: str, graph: Graph, dtype: str) -> Graph | None:
    return replace(graph, values=tuple(replace(v, dtype=dtype) if v.dtype == at else v for v in graph.values))


# ------------------------------------------------------------------------------------ spellings


def spelled(graph: Graph, rank: int) -> Graph:
    """The model with the subject's dimensions counted from the other end: -1 for 3 of four dimensions, and 3 for -1.

    rank: the number of dimensions that they count.
    """
    step = _subject(graph)
    names = [name for name, _, _ in parameters(canonical(step.op))]
    args = (_counted(item, rank) if name in DIMENSIONS else item for name, item in zip(names, step.args, strict=False))
    kwargs = ((name, _counted(item, rank) if name in DIMENSIONS else item) for name, item in step.kwargs)
    return _with_subject(graph, replace(step, args=tuple(args), kwargs=tuple(kwargs)))


def _counted(argument: Any, rank: int) -> Any:
    if isinstance(argument, tuple):
        return tuple(_counted(item, rank) for item in argument)
    if type(argument) is not int:
        return argument
    return argument - rank if argument >= 0 else argument + rank
