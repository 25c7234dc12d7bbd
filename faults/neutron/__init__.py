"""Broken copies of the Neutron backend, each with one fault that a vendor could ship.

`assay mutate neutron` tries them all;
`assay certify npu_assay.faults.neutron:multiple_of_4` certifies one.
"""

from __future__ import annotations

from npu_assay.faults import named
from npu_assay.faults.neutron.catalogue import catalogue, catalogue_1_4
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.neutron import backend as _right
from npu_assay.partitioners.neutron import backend_1_4 as _right_1_4

__all__ = ["catalogue", "catalogue_1_4"]
NEWER = "release_1_4_"


def __getattr__(name: str) -> Backend:
    """The broken backend of that name; after `release_1_4_` one of that release."""
    if name.startswith(NEWER):
        return named(name.removeprefix(NEWER), catalogue_1_4(_right_1_4), __name__)
    return named(name, catalogue(_right), __name__)
