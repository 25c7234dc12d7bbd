"""What an answer shows of a case, part by part: tags, blobs, runs, outputs and the end of the work."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import torch
from torch import Tensor

from npu_assay.conformance.judge.elements import furthest
from npu_assay.conformance.judge.gates import CHECKS as GATES
from npu_assay.conformance.judge.gates import FORM
from npu_assay.conformance.judge.integer_golden import affine
from npu_assay.conformance.judge.numerics import GateResult, beside, golden, is_exact, judge, judge_form
from npu_assay.conformance.judge.patterns import pattern
from npu_assay.conformance.programs.graph import Case, Graph, Quant
from npu_assay.conformance.record.levels import COMPILES, NUMBERS, TAGS, reaches
from npu_assay.conformance.record.levels import RUNS as RUN
from npu_assay.conformance.record.results import (
    METRICS,
    Element,
    Failure,
    Number,
    Reason,
    rounded,
    tag_failures,
)
from npu_assay.conformance.record.tensor_text import digest
from npu_assay.conformance.run.answering import (
    ANEW,
    BESIDE,
    BESIDE_ALONE,
    FIRST,
    FRESH,
    LAST,
    RUNS,
    SECOND,
    THIRD,
)
from npu_assay.conformance.run.checked_runtime import same
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.outline import NO_WORK, Tags, empty_partitions, on_integers
from npu_assay.conformance.run.question import Answer, Handed, Question
from npu_assay.conformance.run.tagging import tagging_of
from npu_assay.conformance.table import Table
from npu_assay.reference.golden import GoldenError

Elsewhere = Callable[[Handed], tuple[str, str | None]]
"""Runs a blob where nothing was compiled: the digest of what it gives there, or why there is none."""


@dataclass
class Observation:
    """What is known about a case so far."""

    verdict: str = "error"
    reasons: tuple[Reason, ...] | None = ()
    failures: list[Failure] = field(default_factory=list)
    metrics: dict[str, Number] = field(default_factory=lambda: dict.fromkeys(METRICS))
    blobs: list[str] = field(default_factory=list)
    partitions: int = 0
    checks: dict[str, Number] = field(default_factory=dict)
    elements: tuple[Element, ...] = ()
    pattern: str = ""

    def fail(self, check: str, message: str) -> None:
        self.failures.append(Failure(check, message))

    def finish(self, *checks: str) -> None:
        """These checks ran to their end: note how often each failed."""
        self.checks |= {check: sum(failure.check == check for failure in self.failures) for check in checks}


def judge_answer(
    case: Case,
    table: Table,
    given: Answer,
    drawing: Drawing,
    question: Question,
    elsewhere: Elsewhere | None,
    seen: Observation,
) -> None:
    """As far as the question's level goes; what is answered beyond that is not looked at."""
    level = question.level
    if given.tags is not None:
        judge_tags(case, table, given, given.tags, seen)
    judge_blobs(case, given, seen, level)
    judge_runs(given, elsewhere, seen)
    if FIRST in given.runs and reaches(level, RUN):
        whole = on_integers(given.nodes, given.tags or {})
        if len(given.blobs or ()) == 1 and given.handed and whole:
            judge_handed(case.graph, given.runs.get(SECOND, ()), given.handed[0].outputs, seen)
        if level == RUN:
            judge_outputs_form(case, given.runs[FIRST], seen)
        else:
            delegated = seen.verdict == "accept" and whole
            judge_outputs(case, given.runs[FIRST], table.rescale or None, delegated, seen)
            judge_drawn(given, drawing, table.rescale or None, delegated, seen)
    judge_again(given, seen)
    judge_partitions(given, table, seen)
    seen.failures += given.late
    judge_end(given, seen)
    judge_whole(given, question, seen)
    if given.finished:
        seen.finish("delegates", "mutation", "determinism", "empty", *(["tool"] if question.tools else []))


def judge_tags(case: Case, table: Table, given: Answer, tags: Tags, seen: Observation) -> None:
    """What the subject's tags and the reasons are against the table."""
    tagging = tagging_of(case, table.row(case.row), given.nodes, tags, given.rejections)
    seen.verdict, seen.reasons = tagging.verdict, tagging.reasons
    seen.failures += tag_failures(case, tagging.verdict, tagging.reasons)


def judge_blobs(case: Case, given: Answer, seen: Observation, level: str = NUMBERS) -> None:
    """As many delegates as the case promises, if it does; where nothing is compiled, as many partitions."""
    if level == TAGS:
        found = None if given.tags is None else len(set(given.tags.values()))
    else:
        seen.blobs += [hashlib.sha256(blob).hexdigest() for blob in given.blobs or ()]
        found = None if given.blobs is None else len(given.blobs)
    seen.partitions = found or 0
    if found is not None and case.delegates is not None and found != case.delegates:
        seen.fail("delegates", f"found {found} delegates, expected {case.delegates}")


def judge_runs(given: Answer, elsewhere: Elsewhere | None, seen: Observation) -> None:
    """What a run gives does not depend on what ran before it, on what runs beside it, or on the process."""
    settings = [failure for failure in given.ran if failure.check == "state"]
    seen.failures += dict.fromkeys(failure for failure in given.ran if failure.check != "state")
    runs = given.runs
    for name, text in (
        (LAST, "the same blob gave other outputs the second time"),
        *((ANEW + name, "the same blob gave other outputs after other runs than at first") for name, _ in FRESH),
        *((BESIDE + name, "the same blob gave other outputs in turn with another one") for name, _ in RUNS[:2]),
    ):
        first = FIRST if name == LAST else name.removeprefix(ANEW).removeprefix(BESIDE)
        _compare(runs, first, name, text, seen)
    for name, _ in RUNS[:2]:
        text = "another blob gave other outputs in turn with this one"
        _compare(runs, BESIDE_ALONE, BESIDE_ALONE + BESIDE + name, text, seen)
    if elsewhere is not None:
        for handed in given.handed:
            _ask(handed, elsewhere, seen)
    seen.failures += settings


def _compare(runs: Mapping[str, Sequence[Tensor]], one: str, other: str, text: str, seen: Observation) -> None:
    """The same outputs in two runs, where there were both; a difference is told once."""
    if one in runs and other in runs and not _alike(runs[one], runs[other]):
        failure = Failure("determinism", text)
        if failure not in seen.failures:
            seen.failures.append(failure)


def _alike(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return len(some) == len(others) and all(
        a.dtype == b.dtype and same(a, b) for a, b in zip(some, others, strict=True)
    )


def judge_handed(graph: Graph, outputs: Sequence[Tensor], handed: Sequence[Tensor], seen: Observation) -> None:
    """A model whose only delegate computes every step returns what that gave: torch only dequantizes it.

    The delegate's outputs are also those of its blob in the third process, where the compiler has changed nothing.
    """
    quants = {value.name: value.quant for value in graph.values} | {step.name: step.quant for step in graph.steps}
    for index, (ref, output) in enumerate(zip(graph.outputs, outputs, strict=False)):
        quant = quants[ref.name]
        if not any(_means(codes, quant, output) for codes in handed):
            seen.fail("determinism", f"output {index} of the model is none of those that its delegate gave")


def _means(codes: Tensor, quant: Quant | None, output: Tensor) -> bool:
    """Whether an output of a delegate is this output of the model: its codes, or itself."""
    if codes.shape != output.shape:
        return False
    if codes.is_floating_point() or quant is None:
        return codes.dtype == output.dtype and same(codes, output)
    steps = (output.to(torch.float64) / affine(quant).scale32).round()
    return torch.equal(steps + quant.zero_point, codes.to(torch.float64))


def _ask(handed: Handed, elsewhere: Elsewhere, seen: Observation) -> None:
    found, refused = elsewhere(handed)
    if refused is not None:
        seen.fail("determinism", f"the blob does not run in a process that did not compile it: {refused}")
    elif found != digest(handed.outputs):
        seen.fail("determinism", "the blob gives other outputs in a process that did not compile it")


def judge_outputs(
    case: Case, outputs: Sequence[Tensor], scheme: str | None, delegated: bool, seen: Observation
) -> None:
    """The gates of `numerics`."""
    gates = judge(golden(case.graph), outputs, scheme, delegated=delegated)
    # What torch computed right tells nothing of the backend, and its last bits are this processor's.
    measured = delegated or any(gate.messages for gate in gates)
    for gate in gates:
        _record(gate, measured, seen)
    if any(gate.messages for gate in gates if gate.gate in GATES):
        seen.elements = furthest(golden(case.graph), outputs, scheme, delegated)
        seen.pattern = next(filter(None, map(pattern, beside(golden(case.graph), outputs, scheme, delegated))), "")


def judge_drawn(given: Answer, drawing: Drawing, scheme: str | None, delegated: bool, seen: Observation) -> None:
    """The gates on the inputs that were drawn when the program was compiled, up to the first run that fails any.

    Where no number is right or wrong, outside of the operator's domain, there is nothing to judge.
    """
    for name, number in ((SECOND, 1), (THIRD, 2)):
        if name not in given.runs or any(seen.checks.get(check) for check in (*FORM, *GATES)):
            return
        expected, outputs = golden(drawing.graphs[number]), given.runs[name]
        if delegated and scheme is not None and is_exact(expected, outputs, scheme):
            continue
        with suppress(GoldenError):
            for gate in judge(expected, outputs, scheme, delegated=delegated):
                if gate.messages:
                    _record_drawn(gate, name, seen)


def _record_drawn(gate: GateResult, name: str, seen: Observation) -> None:
    """The third inputs are others in every run, and records of the same backend are not: they hold no number of it."""
    found, excess = (gate.messages[0], gate.excess) if name == SECOND else ("wrong", math.inf)
    seen.fail(gate.gate, f"{found}; on the {name} inputs, which were drawn when the program was compiled")
    seen.checks[gate.gate] = rounded(excess)


def judge_outputs_form(case: Case, outputs: Sequence[Tensor], seen: Observation) -> None:
    """The number, shapes and types of the outputs, whatever their numbers are."""
    for guard in judge_form(golden(case.graph), outputs):
        _record(guard, False, seen)


def _record(gate: GateResult, measured: bool, seen: Observation) -> None:
    for message in gate.messages:
        seen.fail(gate.gate, message)
    seen.checks[gate.gate] = rounded(gate.excess)
    if measured:
        seen.metrics.update({key: rounded(value) for key, value in gate.metrics.items() if key in METRICS})


def judge_again(given: Answer, seen: Observation) -> None:
    """A second, fresh partitioner tags the same."""
    if given.tags is None or given.tags_again is None:
        return
    differing = sorted({name for name, _ in given.tags.items() ^ given.tags_again.items()})
    if differing:
        seen.fail("determinism", f"the same program was tagged differently twice: {', '.join(differing)}")


def judge_partitions(given: Answer, table: Table, seen: Observation) -> None:
    """A partition computes something, and compiles to the same bytes again."""
    if given.error is not None:
        return
    for _ in range(empty_partitions(given.nodes, given.tags or {}, working(table))):
        seen.fail("empty", "a partition computes nothing: it holds only quantize, dequantize and copies")
    for first, again in zip(given.blobs or (), given.blobs_again, strict=False):
        if first != again:
            seen.fail("determinism", "the same partition compiled to different bytes twice")


def working(table: Table) -> frozenset[str]:
    """The rows of a table that convert between reals and codes: there, that is work."""
    return frozenset(row.name for row in table.rows) & NO_WORK


def judge_whole(given: Answer, question: Question, seen: Observation) -> None:
    """An answer that names no error leaves nothing out of what was asked."""
    partitions = len(set((given.tags or {}).values()))
    runs = {FIRST} if question.runs else set()
    if partitions and question.runs and not question.once:
        runs |= {name for name, _ in RUNS} | ({ANEW + name for name, _ in FRESH} if question.anew else set())
    blobs = -1 if given.blobs is None else len(given.blobs)
    whole = {
        "its end": given.finished,
        "tags": given.tags is not None and (question.once or given.tags_again is not None),
    }
    if reaches(question.level, COMPILES):
        whole |= {
            f"blobs of {partitions} partitions": blobs == partitions,
            "as many blobs again": blobs >= 0 and len(given.blobs_again) == (0 if question.once else partitions),
        }
    if reaches(question.level, RUN):
        whole |= {
            "all runs": runs <= set(given.runs),
            "what a delegate was given": bool(given.handed) or not (partitions and question.elsewhere),
        }
    missing = [name for name, there in whole.items() if not there]
    if given.error is None and missing:
        seen.fail("crash", f"the process of the backend left out {', '.join(missing)}")


def judge_end(given: Answer, seen: Observation) -> None:
    """What ended the work."""
    if given.error is not None:
        seen.failures.append(given.error)
