"""Hides warnings that users of a backend can do nothing about."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings that ExecuTorch uses deprecated parts of itself, of torch and of Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
