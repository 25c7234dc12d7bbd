"""Reduces a failing program to a small one that fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from npu_assay.conformance.fuzz.names import Name, parse
from npu_assay.conformance.fuzz.programs import Programs
from npu_assay.conformance.fuzz.reductions import reductions
from npu_assay.conformance.record.results import CaseResult

MOST = 600  # programs that are run to make one small
TOGETHER = 8  # that are run at once; which one is taken does not depend on it
BY_MESSAGE = frozenset({"crash", "not_run", "partition"})

Run = Callable[[Sequence[str]], Iterator[CaseResult]]
Signature = frozenset[tuple[str, str]]


def signature(result: CaseResult) -> Signature:
    """How a program fails: the checks, and for errors their messages without numbers and names."""
    return frozenset((f.check, _words(f.message) if f.check in BY_MESSAGE else "") for f in result.failures)


def _words(message: str) -> str:
    """The stage and type of an error, and where it was raised."""
    kind = re.match(r"[\w ]+: \w+", message)
    place = re.search(r"\(in [^()]*\)$", message)
    return " ".join(found.group() for found in (kind, place) if found) or "partition"


def shrink(result: CaseResult, programs: Programs, run: Run) -> CaseResult:
    """The result of the smallest program that was found, which may be the one given."""
    wanted, tried = signature(result), 0
    smallest = result
    while tried < MOST:
        found, runs = _next(parse(smallest.case), wanted, programs, run)
        tried += runs
        if found is None:
            break
        smallest = found
    return smallest


def _next(name: Name, wanted: Signature, programs: Programs, run: Run) -> tuple[CaseResult | None, int]:
    """The first reduction that fails in the wanted way, and how many were run."""
    choices = (str(name.reduced(i)) for i, _ in enumerate(reductions(programs.case(str(name)).graph)))
    runs = 0
    while names := list(islice(choices, TOGETHER)):
        runs += len(names)
        results = {result.case: result for result in run(names)}
        for candidate in names:
            if signature(results[candidate]) & wanted:
                return results[candidate], runs
    return None, runs
