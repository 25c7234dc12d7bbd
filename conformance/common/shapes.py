"""Checking data that was read from JSON against the shape that was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OF_ANY_KEY = "*"  # as the only key of a shape: any keys, all values of this shape


def check_shape(data: Any, shape: Any, where: str = "") -> None:
    """Raise ValueError, which names the place, unless `data` has the shape.

    A shape is a type, None, a tuple of alternatives, which are shapes, a list with the shape of all items, or a dict
    with the shape of each key. True is no int.
    """
    if isinstance(shape, Mapping):
        _check_mapping(data, shape, where)
    elif isinstance(shape, list):
        if not isinstance(data, list):
            raise _mismatch(data, "a list", where)
        for number, item in enumerate(data, 1):
            check_shape(item, shape[0], f"{where} {number}".strip())
    elif not _is(data, shape):
        kinds = shape if isinstance(shape, tuple) else (shape,)
        raise _mismatch(data, " or ".join(map(_named, kinds)), where)


def _check_mapping(data: Any, shape: Mapping[str, Any], where: str) -> None:
    if not isinstance(data, dict):
        raise _mismatch(data, "an object", where)
    if OF_ANY_KEY not in shape and set(data) != set(shape):
        differing = sorted(set(data) ^ set(shape))
        raise ValueError(f"{where}: keys {differing} are missing or unknown".removeprefix(": "))
    for key, value in data.items():
        check_shape(value, shape.get(key, shape.get(OF_ANY_KEY)), f"{where}.{key}".removeprefix("."))


def _is(data: Any, shape: Any) -> bool:
    if isinstance(shape, tuple):
        return any(_is(data, alternative) for alternative in shape)
    if isinstance(shape, (list, Mapping)):
        try:
            check_shape(data, shape)
        except ValueError:
            return False
        return True
    return data is None if shape is None else type(data) is shape


def _named(shape: Any) -> str:
    if isinstance(shape, (list, Mapping)):
        return "a list" if isinstance(shape, list) else "an object"
    return "null" if shape is None else str(shape.__name__)


def _mismatch(data: Any, expected: str, where: str) -> ValueError:
    found = f"{data!r:.40}"
    return ValueError(f"{where}: expected {expected}, found {found}".removeprefix(": "))
