"""Broken copies of the Neutron backend, each with one fault that a vendor could ship.

`assay mutate neutron` tries them all;
`assay certify npu_assay.faults.neutron:multiple_of_4` certifies one.
"""

from __future__ import annotations

from npu_assay.faults import named
from npu_assay.faults.neutron.catalogue import catalogue
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.neutron import backend as _right

__all__ = ["catalogue"]


def __getattr__(name: str) -> Backend:
    """The broken backend of that name."""
    return named(name, catalogue(_right), __name__)
