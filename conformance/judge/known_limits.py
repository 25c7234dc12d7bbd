"""Limits of gates 1 and 2 by program: computing them from the goldens loads torch, so they are kept in a file.

Whoever edits that file can hide nothing that a made-up record could not hide: a record of zeros is within any limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from npu_assay.conformance.common.remembered import Remembered
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import program_sha256

KIND, LIMITS = "limits", "limits"


class CodeLimits(NamedTuple):
    """The largest distance in LSB, share of codes off by one, and mean distance."""

    lsb: float
    rate: float
    bias: float


class KnownLimits:
    """The limits of cases of a table with this rescale scheme; None when the table names no scheme.

    file: opens the file of kept limits; called once, when the first limit is needed.
    """

    def __init__(self, scheme: str | None, file: Callable[[], Remembered] | None = None) -> None:
        self._scheme, self._open = scheme, file
        self._file: Remembered | None = None
        self._known: dict[str, CodeLimits | None] = {}
        self._new = False

    def of(self, graph: Graph) -> CodeLimits | None:
        """The limits of a delegated case; None when no output has codes that can be compared."""
        if self._file is None and self._open is not None:
            self._file = self._open()
            self._known |= _entries(self._file.read(LIMITS))
        program = program_sha256(graph)
        if program not in self._known:
            from npu_assay.conformance.judge.code_limits import code_limits

            limits = code_limits(graph, self._scheme)
            self._known[program] = None if limits is None else CodeLimits(*limits)
            self._new = True
        return self._known[program]

    def keep(self) -> None:
        """Write the limits that were computed to the file."""
        if self._new and self._file is not None:
            self._file.write(LIMITS, self._known)
            self._new = False


def _entries(found: object) -> dict[str, CodeLimits | None]:
    """The valid entries of a file of limits."""
    if not isinstance(found, dict):
        return {}
    known = {program: None for program, entry in found.items() if entry is None}
    return known | {program: CodeLimits(*entry) for program, entry in found.items() if _is_limits(entry)}


def _is_limits(entry: object) -> bool:
    numbers = entry if isinstance(entry, list) and len(entry) == len(CodeLimits._fields) else [None]
    return all(type(number) is float and 0 <= number < math.inf for number in numbers)
