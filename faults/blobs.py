"""Faults of compilers that are derived from the format of their blobs: its operators, their fields and constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from npu_assay.faults import rewriting
from npu_assay.faults.listing import Made
from npu_assay.partitioners.exir.backend import Backend

Array = np.ndarray[Any, Any]
Change: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Format:
    """How a blob is read, and what its records are called.

    nodes: the model's field with operators, whose fields `code` and `attributes` have the name and the attributes.
    constants: the model's fields with constants, and the field of a constant that has its numbers.
    fields: the attributes of each operator. rows: by operator, how the names of the rows begin that become it.
    """

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]
    nodes: str
    code: str
    attributes: str
    constants: Mapping[str, str]
    fields: Mapping[str, Iterable[str]]
    rows: Mapping[str, str]

    def made(self, kind: str, name: str, change: Change, codes: Iterable[str]) -> Iterator[Made]:
        """The fault of a compiler that changes every model that it writes, unless no row becomes such operators."""
        rows = dict.fromkeys(self.rows[code] for code in codes if code in self.rows)
        cases = tuple(f"aten.{self.rows.get(name, row)}*/operator/" for row in rows)
        if cases:
            yield kind, name, cases, self.rewriting(change)

    def rewriting(self, change: Change) -> Callable[[Backend], Backend]:
        """Makes the backend whose compiler changes every model that it writes."""
        return partial(rewriting, change=lambda blob: self.write(change(self.read(blob))))

    def each(self, change: Change, codes: Iterable[str]) -> Change:
        """A change of every operator of some codes."""

        def apply(model: Any) -> Any:
            found = (change(one) if getattr(one, self.code) in codes else one for one in getattr(model, self.nodes))
            return replace(model, **{self.nodes: tuple(found)})

        return apply

    def attributes_from(self, sources: Mapping[str, str], change: Change, codes: Iterable[str]) -> Change:
        """Attributes of some codes' operators that have what others have, changed."""

        def apply(one: Any) -> Any:
            right = getattr(one, self.attributes)
            made = {name: change(right[source]) for name, source in sources.items()}
            return replace(one, **{self.attributes: {**right, **made}})

        return self.each(apply, codes)

    def tensors(self, position: int, change: Change, codes: Iterable[str]) -> Change:
        """A change of the records at a position among the inputs of some operators."""

        def apply(model: Any) -> Any:
            nodes = [one for one in getattr(model, self.nodes) if getattr(one, self.code) in codes]
            places = {one.inputs[position] for one in nodes if position < len(one.inputs)}
            return replace(model, **{name: self._changed(model, name, places, change) for name in self.constants})

        return apply

    def _changed(self, model: Any, name: str, places: set[Any], change: Change) -> tuple[Any, ...]:
        records = enumerate(getattr(model, name))
        return tuple(change(one) if places & {index, getattr(one, "name", index)} else one for index, one in records)

    def numbers(self, name: str, change: Callable[[Array], Array]) -> Change:
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

OTHER = {"SAME": "VALID", "VALID": "SAME", "NONE": "RELU", "NEAREST": "BILINEAR", "BILINEAR": "NEAREST"}
"""By value of a field that has a word, another."""


def _wrong(found: Any) -> Any:
    if isinstance(found, bool):
        return not found
    if isinstance(found, str):
        return OTHER.get(found, found)
    return found[::-1] if isinstance(found, tuple) else found + 1


def of_fields(form: Format) -> Iterator[Made]:
    """Every field is written wrongly wherever it is, or takes the place of the one for the other axis."""
    codes = defaultdict[str, list[str]](list)
    for code in form.fields.keys() & form.rows.keys():
        for name in form.fields[code]:
            codes[name].append(code)
    for name, found in sorted(codes.items()):
        yield from form.made("sizes", f"wrong_{name}", form.attributes_from({name: name}, _wrong, found), sorted(found))
        twin = name.replace("height", "width").replace("_h", "_w")
        if twin != name and twin in codes:
            change = form.attributes_from({name: twin, twin: name}, lambda other: other, found)
            yield from form.made("sizes", f"{name}_exchanged", change, sorted(found))


def of_operators(form: Format, *groups: str) -> Iterator[Made]:
    """Operators of a group are written as the next one of it."""
    for group in map(str.split, groups):
        for code, other in zip(group, (*group[1:], group[0]), strict=True):
            change = form.each(partial(replace, **{form.code: other}), [code])
            yield from form.made("operator", f"{other}_for_{code}", change, [code])


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
