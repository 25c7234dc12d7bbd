"""Faults of compilers that are derived from the format of their blobs: its operators, their fields and constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from npu_assay.faults import Made, rewriting
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.flatbuffer import Kind, Numbers, Scalar

Array = np.ndarray[Any, Any]
Fields: TypeAlias = Mapping[str, tuple[Kind, Any]]
"""Of an operator's fields, how each is stored, and its default."""


@dataclass(frozen=True)
class Format:
    """How a blob is read, and what its records are called.

    nodes: the model's field with operators, whose fields `code` and `fields` have the name and the attributes.
    constants: the model's fields with constants, and the field of a constant that has its numbers.
    schema: the fields of each operator. rows: by operator, how the names of the rows begin that become it.
    """

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]
    nodes: str
    code: str
    fields: str
    constants: Mapping[str, str]
    schema: Mapping[str, Fields]
    rows: Mapping[str, str]

    def made(self, kind: str, name: str, change: Callable[[Any], Any], codes: Iterable[str]) -> Iterator[Made]:
        """The fault of a compiler that changes every model that it writes, unless no row becomes such operators."""
        rows = dict.fromkeys(self.rows[code] for code in codes if code in self.rows)
        cases = tuple(f"aten.{self.rows.get(name, row)}*/operator/" for row in rows)
        if cases:
            yield kind, name, cases, self.rewriting(change)

    def rewriting(self, change: Callable[[Any], Any]) -> Callable[[Backend], Backend]:
        """Makes the backend whose compiler changes every model that it writes."""
        return partial(rewriting, change=lambda blob: self.write(change(self.read(blob))))

    def each(self, change: Callable[[Any], Any], codes: Iterable[str]) -> Callable[[Any], Any]:
        """A change of every operator of some codes."""

        def apply(model: Any) -> Any:
            found = (change(one) if getattr(one, self.code) in codes else one for one in getattr(model, self.nodes))
            return replace(model, **{self.nodes: tuple(found)})

        return apply

    def tensors(self, position: int, change: Callable[[Any], Any], codes: Iterable[str]) -> Callable[[Any], Any]:
        """A change of the records at a position among the inputs of some operators, or that one's numbers."""

        def apply(model: Any) -> Any:
            nodes = [one for one in getattr(model, self.nodes) if getattr(one, self.code) in codes]
            places = {one.inputs[position] for one in nodes if position < len(one.inputs)}
            return replace(model, **{name: self._changed(model, name, places, change) for name in self.constants})

        return apply

    def _changed(self, model: Any, name: str, places: set[Any], change: Callable[[Any], Any]) -> tuple[Any, ...]:
        records = enumerate(getattr(model, name))
        return tuple(change(one) if places & {index, getattr(one, "name", index)} else one for index, one in records)

    def numbers(self, name: str, change: Callable[[Array], Array]) -> Callable[[Any], Any]:
        """A change of the numbers in a record's field of that name, else of a constant's; type and shape stay."""

        def apply(record: Any) -> Any:
            field = next(each for each in (name, *self.constants.values()) if hasattr(record, each))
            data = getattr(record, field)
            if data is None:
                return record
            right = np.asarray(data)
            made = np.ascontiguousarray(change(right)).reshape(right.shape).astype(right.dtype)
            return replace(record, **{field: tuple(made.tolist()) if isinstance(data, tuple) else made})

        return apply


# ------------------------------------------------------------------------------------ fields and operators

KINDS = {"pad": "padding", "fused": "fused_activation", "_val": "fused_activation", "perm": "layout"} | dict.fromkeys(
    ("stride", "subsampling", "filter", "kernel", "pooling", "axis"), "axis"
)
"""The kind of a fault by a part of the field's name; else attribute."""


def _others(kind: Kind, default: Any) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """How a field is written wrongly, by its type."""
    if isinstance(kind, Numbers):
        yield "exchanged", lambda found: tuple(found)[::-1]
    elif isinstance(kind, Scalar) and kind.type == "bool":
        yield "negated", lambda found: not found
    else:
        yield "lost", lambda found: default


def of_fields(form: Format, without: Sequence[str] = ()) -> Iterator[Made]:
    """Every field is written wrongly wherever it is, or takes the place of the one for the other axis."""
    codes = defaultdict[str, list[str]](list)
    for code in form.schema.keys() & form.rows.keys():
        for name in form.schema[code].keys() - set(without):
            codes[name].append(code)
    for name, found in sorted(codes.items()):
        kind = next((kind for part, kind in KINDS.items() if part in name), "attribute")
        for how, other in _others(*form.schema[found[0]][name]):
            change = form.each(partial(_with, form, name, name, other), sorted(found))
            yield from form.made(kind, f"{name}_{how}", change, sorted(found))
        twin = name.replace("height", "width").replace("_h", "_w")
        if twin != name and twin in codes:
            yield from form.made(
                "axis", f"{name}_exchanged", form.each(partial(_swapped, form, name, twin), found), found
            )


def _with(form: Format, name: str, source: str, other: Callable[[Any], Any], one: Any) -> Any:
    found = getattr(one, form.fields)
    return replace(one, **{form.fields: {**found, name: other(found[source])}})


def _swapped(form: Format, name: str, twin: str, one: Any) -> Any:
    found = getattr(one, form.fields)
    return replace(one, **{form.fields: {**found, name: found[twin], twin: found[name]}})


def of_operators(form: Format, kind: str, *groups: str) -> Iterator[Made]:
    """Operators of a group are written as the next one of it."""
    for group in map(str.split, groups):
        for code, other in zip(group, (*group[1:], group[0]), strict=True):
            change = form.each(partial(replace, **{form.code: other}), [code])
            yield from form.made(kind, f"{other}_for_{code}", change, [code])


def of_operands(form: Format, codes: str) -> Iterator[Made]:
    """The last two tensors among the operands change places."""
    for code in codes.split():
        change = form.each(lambda one: replace(one, inputs=(*one.inputs[:-2], *one.inputs[:-3:-1])), [code])
        yield from form.made("operands", f"{code}_operands_exchanged", change, [code])


# ------------------------------------------------------------------------------------ constants

CHANGES: Mapping[str, Callable[[Array], Array]] = {
    "dropped": np.zeros_like,
    "reversed": np.flip,
    "transposed": lambda numbers: np.swapaxes(numbers, 0, -1),
    "rolled": lambda numbers: np.roll(numbers, 1),
    "less": lambda numbers: numbers - 1,
    "earlier": lambda numbers: np.maximum(numbers - 1, 0),
    "larger": lambda numbers: numbers * 1.01,
    "negated": np.negative,
    "inverted": np.argsort,
    "of_7_bits": lambda numbers: numbers & ~1,
    "of_16_bits": lambda numbers: numbers >> 16 << 16,
    "first_for_all": lambda numbers: np.full_like(numbers, numbers.flat[0]),
    "in_float16": lambda numbers: numbers.astype(np.float16),
    "swapped": lambda numbers: numbers << 4 | numbers >> 4,
    "signed": lambda numbers: numbers ^ 0x88,
    "sides_exchanged": lambda numbers: numbers.reshape(-1, 2)[:, ::-1],
}
"""By name, how numbers are written wrongly."""


def of_constants(form: Format, *places: tuple[str, str, str, int, str]) -> Iterator[Made]:
    """Numbers that operators take are changed. places: kind, name, operators, position among inputs, changes."""
    for kind, name, codes, position, changes in places:
        for how in changes.split():
            changed = form.tensors(position, form.numbers(name, CHANGES[how]), codes.split())
            yield from form.made(kind, f"{name}_{how}", changed, codes.split())


def shared(form: Format, codes: Iterable[str]) -> Iterator[Made]:
    """Constants of one shape and type are stored once: the first one's numbers."""
    name, field = next(iter(form.constants.items()))

    def apply(model: Any) -> Any:
        seen: dict[object, Any] = {}

        def first(one: Any) -> Any:
            data = getattr(one, field)
            return one if data is None else replace(one, **{field: seen.setdefault((data.dtype, data.shape), data)})

        return replace(model, **{name: tuple(map(first, getattr(model, name)))})

    yield from form.made("shared_constants", "constants_shared", apply, codes)


def unstable(cases: str, change: Callable[[bytes, int], bytes]) -> Made:
    """Blobs carry a number that grows."""
    numbers = count()
    return "unstable", "dated", (cases,), partial(rewriting, change=lambda blob: change(blob, next(numbers)))
