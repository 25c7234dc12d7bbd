"""Runs any number of random programs: in blocks, recorded in a file, the failing ones reduced."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from npu_assay.conformance.fuzz.names import Name, parse
from npu_assay.conformance.fuzz.programs import Programs
from npu_assay.conformance.fuzz.record import Record, write_file
from npu_assay.conformance.fuzz.shrink import Run, Signature, shrink, signature
from npu_assay.conformance.fuzz.text import graph_text
from npu_assay.conformance.record.certificate import Fuzz
from npu_assay.conformance.record.folder import writing
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult, from_line, to_line

SHRUNK = 10  # in all


@dataclass(frozen=True)
class Small:
    """A failing program as it was drawn, its smallest reduction, and how many programs fail in that way."""

    drawn: CaseResult
    small: CaseResult
    text: str
    alike: int


@dataclass(frozen=True)
class Fuzzed:
    """The random programs of a run."""

    fuzz: Fuzz
    failures: tuple[Small, ...]


def fuzz(
    record: Record,
    asked: tuple[int, int],
    folder: Path,
    programs: Programs,
    run: Run,
    finished: Callable[[CaseResult], None],
) -> Fuzzed:
    """Run the remaining programs of a run, reduce the failing ones, and write their file."""
    with record.writer() as journal:
        for names in record.todo():
            for result in run(names):
                with writing(folder):
                    journal.write(f"{to_line(result)}\n".encode())
                finished(result)
    failing = _Failing()
    for result in record.in_order():
        failing.see(result)
    small = {first.case: shrink(first, programs, run) for first, _ in failing.chosen()}
    digest = write_file(folder, _lines(record, [found for first, found in small.items() if found.case != first]))
    return Fuzzed(Fuzz(asked[0], asked[1], failing.count, digest, failing.undecided), _shown(failing, small, programs))


def merged(texts: Sequence[str], programs: Programs, seed: int) -> tuple[list[CaseResult], Fuzzed]:
    """The lines of a whole run's file, and its summary, from the files of its shards.

    The first program of the run that fails in some way is also the first one of its shard, so it was reduced there.
    """
    drawn, small, failing = list[CaseResult](), dict[str, CaseResult](), _Failing()
    for result in map(from_line, (line for text in texts for line in text.splitlines())):
        name = parse(result.case)
        if name.trail:
            small[str(Name(name.seed, name.number))] = result
        else:
            drawn.append(result)
    drawn.sort(key=lambda result: parse(result.case).number)
    for result in drawn:
        failing.see(result)
    lines = drawn + [small[first.case] for first, _ in failing.chosen() if first.case in small]
    digest = hashlib.sha256("".join(f"{to_line(line)}\n" for line in lines).encode()).hexdigest()
    found = Fuzz(len(drawn), seed, failing.count, digest, failing.undecided)
    return lines, Fuzzed(found, _shown(failing, small, programs))


def recorded(text: str, programs: Programs) -> tuple[Small, ...]:
    """The failing programs of a run, from the text of its file."""
    failing, small = _Failing(), dict[str, CaseResult]()
    for result in map(from_line, text.splitlines()):
        name = parse(result.case)
        if name.trail:
            small[str(Name(name.seed, name.number))] = result
        else:
            failing.see(result)
    return _shown(failing, small, programs)


def _shown(failing: _Failing, small: Mapping[str, CaseResult], programs: Programs) -> tuple[Small, ...]:
    """Failing programs with their reductions; one that `small` does not have was not reduced."""
    pairs = [(first, small.get(first.case, first), alike) for first, alike in failing.chosen()]
    return tuple(Small(a, b, graph_text(programs.case(b.case).graph), alike) for a, b, alike in pairs)


class _Failing:
    """The first program that fails in each way, and how many fail in that way."""

    def __init__(self) -> None:
        self.count = self.undecided = 0
        self._first: dict[Signature, CaseResult] = {}
        self._alike: dict[Signature, int] = {}

    def see(self, result: CaseResult) -> None:
        if result.status not in NOT_PASSED:
            return
        self.count += result.status == "fail"
        self.undecided += result.status == "undecided"
        key = signature(result)
        if key in self._first or len(self._first) < SHRUNK:
            self._first.setdefault(key, result)
            self._alike[key] = self._alike.get(key, 0) + 1

    def chosen(self) -> list[tuple[CaseResult, int]]:
        return [(result, self._alike[key]) for key, result in self._first.items()]


def _lines(record: Record, small: Sequence[CaseResult]) -> Iterator[CaseResult]:
    """All programs in order, then the small ones."""
    yield from record.in_order()
    yield from small
