"""How much of a model is stored in its file: what a device may hold beyond its limits is in proportion to that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

TIMES = 4
"""What is computed of stored numbers (copies, transpositions, results) as a multiple of them."""


def stored_bytes(arrays: Iterable[np.ndarray[Any, Any] | None]) -> int:
    """Bytes of constants. A part of the file that several of them show counts once."""
    found = sorted((a.__array_interface__["data"][0], a.nbytes) for a in arrays if a is not None)
    total, end = 0, 0
    for start, size in found:
        total += max(0, start + size - max(start, end))
        end = max(end, start + size)
    return total
