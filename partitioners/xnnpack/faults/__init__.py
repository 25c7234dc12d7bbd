"""Broken copies of the XNNPACK backend, each with one fault that a vendor could ship.

`assay mutate xnnpack` tries them all; `assay certify partitioners.xnnpack.faults:half_up` certifies one.
"""

from __future__ import annotations

from partitioners.exir.backend import Backend
from partitioners.exir.faults import named
from partitioners.xnnpack import backend as _right
from partitioners.xnnpack.faults.catalogue import catalogue

__all__ = ["catalogue"]


def __getattr__(name: str) -> Backend:
    """The broken backend of that name."""
    return named(name, catalogue(_right), __name__)
