"""A file's model with one thing in it changed, for every thing in it: what a device must refuse, or run as it says.

Nobody chooses the changes: every number goes up, down, to the other sign and far away, every name becomes each other
one of its kind, every list loses its last item, or all but its first, has its last twice and has the next number behind
it, every array has another type, size and first number, alone and with the shape that a record gives it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from npu_assay.conformance.record.tensor_text import digest
from npu_assay.partitioners.common.machine import InputError
from npu_assay.partitioners.exir.flatbuffer import FormatError

FAR = 2**20
LISTED = os.environ.get("ALTERED_LIST", "")
"""A file to add all answers to: of an unchanged and a changed vendor, the difference shows what a digest hides."""
Change = tuple[str, Any]
Names = Mapping[str, Sequence[str]]
"""The names that a field of this name can have."""


def changes(model: Any, names: Names) -> Iterator[Change]:
    """Every change of a model: where and what it is, and the model with it."""
    yield from _of(model, "", names)


def _of(value: Any, field: str, names: Names) -> Iterator[Change]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _of_record(value, names)
    elif isinstance(value, Mapping):
        for key in value:
            for text, new in _of(value[key], str(key), names):
                yield f"[{key}]{text}", {**value, key: new}
    elif isinstance(value, tuple):
        yield from _of_items(value, field, names)
    elif isinstance(value, np.ndarray):
        yield from _of_array(value)
    else:
        yield from ((f" {value!r} -> {new!r}", new) for new in _others(value, names.get(field, ())))


def _of_record(value: Any, names: Names) -> Iterator[Change]:
    for one in dataclasses.fields(value):
        for text, new in _of(getattr(value, one.name), one.name, names):
            yield f".{one.name}{text}", dataclasses.replace(value, **{one.name: new})
    data = getattr(value, "data", None)
    if isinstance(data, np.ndarray) and getattr(value, "shape", None) == data.shape:
        for text, other in _of_other_sizes(data):
            yield text, dataclasses.replace(value, data=other, shape=other.shape)


def _of_items(items: tuple[Any, ...], field: str, names: Names) -> Iterator[Change]:
    if items:
        yield " without its last", items[:-1]
        if len(items) > 2:
            yield " with its first alone", items[:1]
        yield " with its last twice", (*items, items[-1])
        if isinstance(items[-1], int):
            yield " with the next one behind it", (*items, items[-1] + 1)
    for n, item in enumerate(items):
        for text, new in _of(item, field, names):
            yield f"[{n}]{text}", (*items[:n], new, *items[n + 1 :])


def _of_array(array: np.ndarray[Any, Any]) -> Iterator[Change]:
    yield " of another type", array.astype(np.int64 if array.dtype != np.int64 else np.int32)
    yield " with an axis more", array[None]
    if array.ndim and len(array):
        yield " without its last", array[:-1]
        yield " with its last twice", np.concatenate([array, array[-1:]])
    if array.size and array.dtype != np.bool_:
        for number in (array.flat[0] + 1 if array.flat[0] < 127 else 0, -1, 0):
            changed = array.copy()
            changed.flat[0] = np.asarray(number).astype(array.dtype)
            yield f" with {changed.flat[0]!s} first", changed


def _of_other_sizes(array: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The array with an axis more, and a number less and more along each axis: what knows its sizes refuses it."""
    yield " in another axis", array[None]
    for axis, size in enumerate(array.shape):
        for other in (size - 1, size + 1):
            places = np.minimum(np.arange(other), size - 1)
            yield f" of {other} along axis {axis}", np.take(array, places, axis) if size else array


def _others(value: Any, names: Sequence[str]) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (new for new in dict.fromkeys((value - 1, value + 1, -value, value + FAR)) if new != value)
    elif isinstance(value, float):
        yield from (-value, value * 2, value * 1e-30, math.nan)
    elif isinstance(value, str):
        yield from (name for name in names if name != value)


Run = Callable[[Any], Sequence[torch.Tensor]]
"""Writes a model's file, loads it, and runs it; gives what is to be compared."""


def outcome(run: Run, model: Any, exact: bool) -> str:
    """What a device says of a changed file: its refusal, or what it gives. Nothing else may be raised.

    exact: the numbers are the same on every machine, and belong to what it gives.
    """
    try:
        outputs = run(model)
    except (FormatError, InputError) as error:
        return str(error)
    return f"runs: {digest(outputs) if exact else [(x.dtype, tuple(x.shape)) for x in outputs]}"


def told(model: Any, names: Names, run: Run, exact: bool = True) -> str:
    """How many changes a device refuses and runs, and a digest of all that it says; where LISTED is set, all of it."""
    said = [f"{where}: {outcome(run, new, exact)}" for where, new in changes(model, names)]
    if LISTED:
        with Path(LISTED).open("a", encoding="utf-8") as file:
            file.write("\n".join([*said, ""]))
    ran = sum(": runs: " in line for line in said)
    return f"{len(said) - ran} refused, {ran} run, {hashlib.sha256(chr(10).join(said).encode()).hexdigest()[:16]}"
