"""Assay one case: ask the backend, judge what it answers. Whatever the backend does becomes a verdict with a reason.

The two halves are apart: `answering` is where the backend is and knows a program and inputs; here is what the case
promises, and the goldens. `isolation` puts a process between them; `run_case` does both in this one.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from npu_assay.conformance.backend.loading import highest_level
from npu_assay.conformance.common.describing import describe
from npu_assay.conformance.judge.elements import furthest
from npu_assay.conformance.judge.gates import CHECKS as GATES
from npu_assay.conformance.judge.gates import FORM
from npu_assay.conformance.judge.integer_golden import affine
from npu_assay.conformance.judge.numerics import GateResult, beside, golden, is_exact, judge, judge_form
from npu_assay.conformance.judge.patterns import pattern
from npu_assay.conformance.judge.second_golden import golden_failures
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case, Graph, Quant
from npu_assay.conformance.programs.seeds import is_first, is_thorough, opened, runs_once
from npu_assay.conformance.programs.variation_names import has_passes
from npu_assay.conformance.record.levels import COMPILES, NUMBERS, TAGS, reaches
from npu_assay.conformance.record.levels import RUNS as RUN
from npu_assay.conformance.record.results import (
    METRICS,
    SUITE,
    CaseResult,
    Element,
    Failure,
    Number,
    Reason,
    program_sha256,
    rounded,
    status_of,
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
    answer,
)
from npu_assay.conformance.run.checked_runtime import same
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.outline import NO_WORK, Tags, empty_partitions, on_integers
from npu_assay.conformance.run.question import Answer, Handed, Question
from npu_assay.conformance.run.suite_faults import fault_of_golden, fault_of_program
from npu_assay.conformance.run.tagging import tagging_of
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import Backend
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


def run_case(
    case: Case, backend: Backend, table: Table, tools: Sequence[str] = (), level: str | None = None
) -> CaseResult:
    """Everything that one case shows about a backend, in this process. Never raises: a crash is a failure of the case.

    tools: those of the backend's blob checks that every delegate must pass as well. level: how far to look, None for
    as far as the backend goes.
    """
    level = highest_level(backend) if level is None else level
    drawing = Drawing(case.graph)
    given = answer(asked(case, table, tools, level=level), backend, drawing)
    return judged(case, table, given, drawing, tools, level=level)


def asked(
    case: Case, table: Table, tools: Sequence[str] = (), beside: Graph | None = None, level: str = NUMBERS
) -> Question:
    """What a case asks of a backend. beside: a program that a row's first case takes turns with."""
    first, anew = is_first(case.id, case.side), is_thorough(case.id, case.side)
    beside = opened(beside) if first and beside is not None else None
    how = {"once": runs_once(case.id, case.side), "passes": has_passes(case.id)}
    return question(case, table, tools=tuple(tools), elsewhere=first, anew=anew, beside=beside, level=level, **how)


def partners(cases: Iterable[Case]) -> dict[str, str]:
    """By the id of each row's first case, that of the next accepted one, which takes turns with it, where there is one.

    Of the same precision, and with the same options of the partitioner.
    """
    found, first = dict[str, str](), dict[tuple[str, str | None], Case]()
    for case in cases:
        key = case.row, case.precision
        if is_first(case.id, case.side):
            first.setdefault(key, case)
        elif case.expect == "accept" and key in first and case.options == first[key].options:
            found.setdefault(first[key].id, case.id)
    return found


def question(case: Case, table: Table, **more: Any) -> Question:
    """A case's program, its inputs open, and how the table has programs made, and nothing else of either."""
    return Question(opened(case.graph), tuple(table.preserve), table.mark, table.backend_id, case.options, **more)


def judged(
    case: Case,
    table: Table,
    given: Answer,
    drawing: Drawing,
    tools: Sequence[str] = (),
    elsewhere: Elsewhere | None = None,
    level: str = NUMBERS,
) -> CaseResult:
    """The result of a case whose question was answered so, on inputs that were drawn so."""

    def judge(seen: Observation) -> None:
        if given.error is not None and (fault := fault_of_program(case, table)) is not None:
            seen.fail(SUITE, fault)
            return
        question = asked(case, table, tools, level=level)
        _judge(case, table, given, drawing, question, elsewhere, seen)
        if FIRST in given.runs and level == NUMBERS and not question.once:
            seen.failures += golden_failures(case.graph)

    return result_of(case, judge, table.rescale or None)


def result_of(case: Case, judge: Callable[[Observation], None], scheme: str | None) -> CaseResult:
    """What judging a case comes to, however it ends. scheme: the rescale scheme of its golden's integers."""
    seen = Observation()
    try:
        judge(seen)
    except Exception as error:  # noqa: BLE001  (an answer may be anything)
        fault = fault_of_golden(case.graph, scheme)
        seen.fail(*(("crash", f"judge: {describe(error)}") if fault is None else (SUITE, fault)))
    return _result(case, seen)


def failed(case: Case, check: str, message: str) -> CaseResult:
    """The result of a case that did not answer."""
    seen = Observation()
    seen.fail(check, message)
    return _result(case, seen)


def with_failures(result: CaseResult, found: Sequence[Failure]) -> CaseResult:
    """A result with what was noticed after it, each failure once."""
    known = set(result.failures)
    fresh = [failure for failure in dict.fromkeys(found) if failure not in known]
    return replace(result, failures=(*result.failures, *fresh), status="fail") if fresh else result


def _result(case: Case, seen: Observation) -> CaseResult:
    failures = tuple(seen.failures)
    return CaseResult(
        case=case.id,
        row=case.row,
        constraint=case.constraint,
        side=case.side,
        expect=case.expect,
        reason=case.reason,
        program=program_sha256(case.graph),
        verdict=seen.verdict,
        reasons=seen.reasons,
        status=status_of(case.expect, failures),
        failures=failures,
        metrics=seen.metrics,
        partitions=seen.partitions,
        blobs=tuple(seen.blobs),
        checks=seen.checks,
        elements=seen.elements,
        shapes=_shapes(case.graph) if failures else {},
        pattern=seen.pattern,
    )


def _shapes(graph: Graph) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The shapes of each step's results, in order; nothing of a program that torch refuses."""
    try:
        nodes = build(graph).graph.nodes
    except Exception:  # noqa: BLE001  (a program that cannot be drawn is not another failure)
        return {}
    found = dict[str, tuple[tuple[int, ...], ...]]()
    for node in nodes:
        results = node.meta.get("val")
        if (step := node.meta.get("step")) is not None and node.target is not operator.getitem:
            tensors = results if isinstance(results, list | tuple) else [results]
            found[step] = tuple(tuple(map(_size, x.shape)) for x in tensors if isinstance(x, Tensor))
    return found


def _size(size: int | torch.SymInt) -> int:
    """A dimension; of an open one the size that the case runs with."""
    return size if isinstance(size, int) else int(size.node.hint)


def _judge(
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
