"""Limits of gates 1 and 2 by program. Computing one loads torch, which waits until it is asked for."""

from __future__ import annotations

from typing import NamedTuple

from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import program_sha256


class CodeLimits(NamedTuple):
    """The largest distance in LSB, share of codes off by one, and mean distance."""

    lsb: float
    rate: float
    bias: float


class KnownLimits:
    """The limits of cases of a table with this rescale scheme; None when the table names no scheme."""

    def __init__(self, scheme: str | None) -> None:
        self._scheme = scheme
        self._known: dict[str, CodeLimits | None] = {}

    def of(self, graph: Graph) -> CodeLimits | None:
        """The limits of a delegated case; None when no output has codes that can be compared."""
        program = program_sha256(graph)
        if program not in self._known:
            from npu_assay.conformance.judge.code_limits import code_limits  # loads torch

            limits = code_limits(graph, self._scheme)
            self._known[program] = None if limits is None else CodeLimits(*limits)
        return self._known[program]
