"""Backends that nobody vouches for run in processes of their own, which may crash, hang or misbehave.

`crew` gives cases to runners and draws the conclusions when one dies; `nursery` is the process that has loaded the
backend and forks runners; `keeper`, above it, ends whatever it leaves; `runner` runs cases there and looks at what
they leave behind (`state`, `leaks`). This guards against faults, not against malice: a backend has the rights of the
user who runs it.
"""

from __future__ import annotations

from npu_assay.conformance.isolation.crew import Crew
from npu_assay.conformance.isolation.limits import LIMITS, Limits
from npu_assay.conformance.isolation.nursery import Subject

__all__ = ["LIMITS", "Crew", "Limits", "Subject"]
