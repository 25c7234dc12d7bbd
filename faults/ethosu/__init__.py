"""Broken copies of the Ethos-U backends, each with one fault that a vendor could ship.

`assay mutate ethos-u55` tries them all; `assay certify npu_assay.faults.ethosu:half_away` certifies one.
Those of Ethos-U85 that Ethos-U55 has as well have `u85_` before their name.
"""

from __future__ import annotations

from npu_assay.faults import named
from npu_assay.faults.ethosu.catalogue import catalogue
from npu_assay.partitioners.ethosu import ethos_u55 as _u55
from npu_assay.partitioners.ethosu import ethos_u85 as _u85
from npu_assay.partitioners.exir.backend import Backend

__all__ = ["catalogue"]


def __getattr__(name: str) -> Backend:
    """The broken backend of that name."""
    if name.startswith("u85_"):
        return named(name.removeprefix("u85_"), catalogue(_u85), __name__)
    return named(name, (*catalogue(_u55), *catalogue(_u85)), __name__)
