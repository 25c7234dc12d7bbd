"""The one module that caches: remembering what a function returned. And making very many records at once."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, wraps
from typing import TypeVar

Record = TypeVar("Record")
Result = TypeVar("Result")

once = cache
"""Decorates a function without arguments, which is called once."""
keep = lru_cache
"""`@keep(MOST)` decorates a function whose last so many results are kept, by arguments that are equal."""


def remember(size: int) -> Callable[[Callable[[Record], Result]], Callable[[Record], Result]]:
    """As `functools.lru_cache(size)` for a function of one immutable record, which is told by its identity.

    Records that are equal are not always the same: 0.0 equals -0.0, and 1 equals 1.0 and True. A cache that compares
    them hands the one's result to the other, whichever came first, so that what a case shows would depend on the
    cases that ran before it.
    """

    def decorate(function: Callable[[Record], Result]) -> Callable[[Record], Result]:
        known: OrderedDict[int, tuple[Record, Result]] = OrderedDict()  # with the record, so that its id stays its own

        @wraps(function)
        def remembering(record: Record) -> Result:
            key = id(record)
            if key not in known:
                known[key] = record, function(record)
                if len(known) > size:
                    known.popitem(last=False)
            return known[key][1]

        return remembering

    return decorate


@contextmanager
def many_records() -> Iterator[None]:
    """No garbage collection in here: where thousands of records are made and all are kept, it takes half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
