"""Assay one case: tag, compile, run, judge. Whatever the backend does becomes a verdict with a reason."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import torch
from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.errors import NotRunError
from npu_assay.conformance.graph import Case
from npu_assay.conformance.numerics import GateResult, golden, judge
from npu_assay.conformance.programs import materialise, model_inputs
from npu_assay.conformance.results import (
    METRICS,
    CaseResult,
    Failure,
    Number,
    Reason,
    program_sha256,
    rounded,
    status_of,
    tag_failures,
)
from npu_assay.conformance.table import Table
from npu_assay.conformance.tagging import NO_WORK, STEP, Recorder, Tags, prepare, tagging_of
from npu_assay.conformance.untrusted import Elsewhere, Watched, same
from npu_assay.partitioners.exir import Backend, LoweredBackendModule, run_program, to_backend
from npu_assay.partitioners.exir.ops import (
    CALL_DELEGATE,
    DEQUANTIZE,
    DEQUANTIZE_DYNAMIC,
    GETITEM,
    QUANTIZE,
    target_name,
)

COPIES = frozenset({"aten.clone.default", "dim_order_ops._clone_dim_order.default"})
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


class Watch(Elsewhere, Protocol):
    """Follows a case from outside, where cases run in a process of their own."""

    def entered(self, stage: str) -> None: ...

    def changes(self, numeric: bool) -> list[str]:
        """The settings of the process that were changed (those that bear on numbers); they are put back."""

    def refused(self, error: BaseException) -> str | None:
        """What to say when an error comes from the limit of memory."""


@dataclass
class Observation:
    """What is known about a case so far; `stage` names what is running, for a crash's message."""

    watch: Watch | None = None
    stage: str = "build"
    verdict: str = "error"
    reasons: tuple[Reason, ...] | None = ()
    failures: list[Failure] = field(default_factory=list)
    metrics: dict[str, Number] = field(default_factory=lambda: dict.fromkeys(METRICS))
    blobs: list[str] = field(default_factory=list)
    checks: dict[str, Number] = field(default_factory=dict)

    def enter(self, stage: str) -> None:
        self.stage = stage
        if self.watch is not None:
            self.watch.entered(stage)

    def fail(self, check: str, message: str) -> None:
        self.failures.append(Failure(check, message))

    def finish(self, *checks: str) -> None:
        """These checks ran to their end: note how often each failed."""
        self.checks |= {check: sum(failure.check == check for failure in self.failures) for check in checks}

    def fail_by(self, error: BaseException) -> None:
        """A backend may raise anything; the report says what and where."""
        refused = None if self.watch is None else self.watch.refused(error)
        if refused is not None:
            self.fail("memory", f"{self.stage}: {refused}")
        elif isinstance(error, NotRunError):
            self.fail("not_run", str(error))
        else:
            self.fail("crash", f"{self.stage}: {describe(error)}")


def run_case(
    case: Case, backend: Backend, table: Table, tools: Sequence[str] = (), watch: Watch | None = None
) -> CaseResult:
    """Everything that one case shows about a backend. Never raises: a crash is a failure of the case.

    tools: those of the backend's blob checks that every delegate must pass as well.
    """
    return result_of(case, watch, lambda seen: _observe(case, backend, table, tools, seen))


def result_of(case: Case, watch: Watch | None, observe: Callable[[Observation], None]) -> CaseResult:
    """What an observation of a case comes to, however it ends."""
    seen = Observation(watch)
    try:
        observe(seen)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (SystemExit and its like, too: a case does not end the run)
        seen.fail_by(error)
    return _result(case, seen)


def describe(error: BaseException) -> str:
    """An exception in one line: type, message without addresses, and the function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (in {frames[-1].name}, {Path(frames[-1].filename).name})" if frames else ""
    said = without_addresses(" ".join(str(error).split()))
    return f"{type(error).__name__}:{said and f' {said}'}{place}"


def without_addresses(text: str) -> str:
    """A text that is the same in every process."""
    return _ADDRESS.sub("0x...", text)


def failed(case: Case, check: str, message: str) -> CaseResult:
    """The result of a case that did not answer."""
    seen = Observation()
    seen.fail(check, message)
    return _result(case, seen)


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
        partitions=len(seen.blobs),
        blobs=tuple(seen.blobs),
        checks=seen.checks,
    )


def _observe(case: Case, backend: Backend, table: Table, tools: Sequence[str], seen: Observation) -> None:
    inputs, sources = model_inputs(case.graph), Sources.of(case)
    seen.enter("passes")
    program = prepare(case, backend, table)
    seen.enter("partition")
    lowered, tags = _lower(case, backend, table, program, seen)
    seen.enter("run")
    outputs = run_lowered(backend, lowered, inputs, seen, elsewhere=is_baseline(case))
    seen.enter("judge")
    sources.check(seen)
    if seen.watch is not None:  # the golden is not computed under settings that the backend chose
        seen.failures += [Failure("state", change) for change in seen.watch.changes(numeric=True)]
    delegated = seen.verdict == "accept" and on_integers(lowered)
    judge_outputs(case, outputs, table.rescale or None, delegated, seen)
    seen.enter("partition again")
    _check_tags_again(case, backend, program, tags, seen)
    seen.enter("compile again")
    for delegate in delegates(lowered):
        check_delegate(backend, delegate, working(table), seen)
    sources.check(seen)
    for tool in tools:
        seen.enter(tool)
        for delegate in delegates(lowered):
            refusal = backend.blob_checks[tool].refusal(delegate.processed_bytes, delegate.compile_specs)
            if refusal:
                seen.fail("tool", f"{tool}: {refusal}")
    seen.finish("delegates", "mutation", "determinism", "empty", *(["tool"] if tools else []))


def is_baseline(case: Case) -> bool:
    """Whether the case is its row's first, whose blobs also run where nothing was compiled."""
    return case.side == "accept" and case.id.endswith("/baseline")


def _lower(
    case: Case, backend: Backend, table: Table, program: ExportedProgram, seen: Observation
) -> tuple[ExportedProgram, Tags]:
    """Tag and compile. The tags are judged as soon as the partitioner answers, even if compiling fails."""

    def answered() -> None:
        tagging = tagging_of(case, table.row(case.row), recorder, program)
        seen.verdict, seen.reasons = tagging.verdict, tagging.reasons
        seen.failures += tag_failures(case, tagging.verdict, tagging.reasons)
        seen.enter("compile")

    recorder = Recorder(backend.partitioner(**dict(case.options)), answered)
    details = dict.fromkeys((backend.details.__name__, table.backend_id), backend.details)
    lowered: ExportedProgram = to_backend(program, recorder, details=details)
    _check_number(case, len(list(delegates(lowered))), seen)
    seen.blobs += [hashlib.sha256(delegate.processed_bytes).hexdigest() for delegate in delegates(lowered)]
    return lowered, recorder.tags


def _check_number(case: Case, found: int, seen: Observation) -> None:
    """As many delegates as the case promises, if it does."""
    if case.delegates is not None and found != case.delegates:
        seen.fail("delegates", f"found {found} delegates, expected {case.delegates}")


def _check_tags_again(case: Case, backend: Backend, program: ExportedProgram, tags: Tags, seen: Observation) -> None:
    """A second, fresh partitioner tags the same. Comes last: it writes its tags on the program."""
    again = Recorder(backend.partitioner(**dict(case.options)))
    again(program)
    differing = sorted({name for name, _ in tags.items() ^ again.tags.items()})
    if differing:
        seen.fail("determinism", f"the same program was tagged differently twice: {', '.join(differing)}")


def delegates(program: ExportedProgram) -> Iterator[LoweredBackendModule]:
    """The delegates that a lowered program calls, in order."""
    for node in program.graph.nodes:
        if node.op == "call_function" and target_name(node.target) == CALL_DELEGATE:
            yield program.graph_module.get_submodule(node.args[0].target)


def working(table: Table) -> frozenset[str]:
    """The rows of a table that convert between reals and codes: there, that is work."""
    return frozenset(row.name for row in table.rows) & NO_WORK


def check_delegate(
    backend: Backend, delegate: LoweredBackendModule, working: frozenset[str], seen: Observation
) -> None:
    """A delegate computes something, and compiles to the same bytes again."""
    program = delegate.original_module
    if not any(computes(node) or _is_call(node, working) for node in program.graph.nodes):
        seen.fail("empty", "a partition computes nothing: it holds only quantize, dequantize and copies")
    again = backend.details.preprocess(program, delegate.compile_specs)
    if again.processed_bytes != delegate.processed_bytes:
        seen.fail("determinism", "the same partition compiled to different bytes twice")


def computes(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) not in NO_WORK | COPIES


def on_integers(lowered: ExportedProgram) -> bool:
    """Whether a lowered program computes every step on codes, in its delegates."""
    return not _falls_back(lowered) and not _splits_integers(lowered)


def _falls_back(lowered: ExportedProgram) -> bool:
    """Whether torch, not a delegate, rounds codes: computes some step, or gives a copy other parameters."""
    return any((STEP in node.meta and computes(node)) or _requantises(node) for node in lowered.graph.nodes)


def _splits_integers(lowered: ExportedProgram) -> bool:
    """Whether a delegate computes in floats between a dequantize and a quantize node that torch runs."""
    for node in lowered.graph.nodes:
        if _is_call(node, {CALL_DELEGATE}) and any(_is_call(x, DEQUANTIZE | DEQUANTIZE_DYNAMIC) for x in node.args[1:]):
            return True
        if _is_call(node, QUANTIZE) and _is_call(node.args[0], {GETITEM}):
            return _is_call(node.args[0].args[0], {CALL_DELEGATE})
    return False


def _requantises(node: torch.fx.Node) -> bool:
    """Whether a quantize node takes, through copies or at once, what had another scale or zero point."""
    if node.op != "call_function" or target_name(node.target) not in QUANTIZE:
        return False
    source = node.args[0]
    while _is_call(source, COPIES):
        source = source.args[0]
    return _is_call(source, DEQUANTIZE) and source.args[1:3] != node.args[1:3]


def _is_call(node: Any, names: Collection[str]) -> TypeGuard[torch.fx.Node]:
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and target_name(node.target) in names


@dataclass(frozen=True)
class Sources:
    """A case's own tensors, which its program, its golden and other cases share, and how they were."""

    tensors: tuple[Tensor, ...]
    before: tuple[Tensor, ...]

    @classmethod
    def of(cls, case: Case) -> Sources:
        tensors = tuple(map(materialise, case.graph.values))
        return cls(tensors, tuple(tensor.clone() for tensor in tensors))

    def check(self, seen: Observation) -> None:
        """Put back what was written."""
        changed = [pair for pair in zip(self.tensors, self.before, strict=True) if not same(*pair)]
        for tensor, before in changed:
            tensor.copy_(before)
        if changed:
            seen.fail("mutation", "the backend changed the constants of the program that it was given")


def run_lowered(
    backend: Backend, lowered: ExportedProgram, inputs: Sequence[Tensor], seen: Observation, elsewhere: bool = False
) -> list[Tensor]:
    """Run the whole program: delegates on the backend's runtime, which must not write its inputs, the rest in torch.

    elsewhere: delegates also run in a process that has nothing but their blobs, where there is one.
    """
    runtime = Watched(backend.runtime, seen.watch if elsewhere else None)
    outputs: list[Tensor] = run_program(lowered, inputs, {d.backend_id: runtime for d in delegates(lowered)})
    if runtime.changed:
        seen.fail("mutation", "the runtime changed the tensors that it was given")
    if runtime.wavering:
        seen.fail("determinism", "the same blob gave other outputs the second time")
    if runtime.bound:
        seen.fail("determinism", f"the blob {runtime.bound}")
    return outputs


def judge_outputs(
    case: Case, outputs: Sequence[Tensor], scheme: str | None, delegated: bool, seen: Observation
) -> None:
    gates = judge(golden(case.graph), outputs, scheme, delegated=delegated)
    # What torch computed right tells nothing of the backend, and its last bits are this processor's.
    measured = delegated or any(gate.messages for gate in gates)
    for gate in gates:
        _record(gate, measured, seen)


def _record(gate: GateResult, measured: bool, seen: Observation) -> None:
    for message in gate.messages:
        seen.fail(gate.gate, message)
    seen.checks[gate.gate] = rounded(gate.excess)
    if measured:
        seen.metrics.update({key: rounded(value) for key, value in gate.metrics.items() if key in METRICS})
