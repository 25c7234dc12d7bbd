"""Warnings that are not for those who run a backend."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """ExecuTorch uses parts of itself, of torch and of Python that are deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
