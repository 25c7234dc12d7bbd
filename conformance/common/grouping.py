"""Things by what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def grouped_by(items: Iterable[_V], key: Callable[[_V], _K]) -> dict[_K, list[_V]]:
    """The items of each key; keys in the order of their first items."""
    found: dict[_K, list[_V]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def most_first(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Names with their counts: the largest first, equal ones by name."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
