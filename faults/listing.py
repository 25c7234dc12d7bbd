"""Catalogues of derived faults: which checks must notice which kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from npu_assay.faults import Fault, Made
from npu_assay.partitioners.exir.backend import Backend

CHECKS: Mapping[str, str] = {
    "partitioner misnamed": "reason",
    "partitioner unstable": "determinism",
    "partitioner grouping": "crash",
    "compiler bias": "gate3",
    "compiler unstable": "determinism",
    "device constant": "not_constant",
    "device function": "gate3",
    "device layout": "gate3 gate4",
    "device memory": "mutation",
    "device overflow": "finite",
    "device rounding": "gate1 gate2",
    "device saturation": "gate1 gate3",
    "device shape": "shape",
    "device ties": "gate1",
    "device zero_point": "gate1",
}
"""By stage and kind, all checks that must notice it; any may where none is named."""


def listed(stage: str, right: Backend, made: Iterable[Made]) -> Iterator[Fault]:
    """The faults of a stage of a backend."""
    for kind, name, cases, how in made:
        checks = frozenset(CHECKS.get(f"{stage} {kind}", "").split())
        yield Fault(name, stage, kind, how(right), cases, checks)
