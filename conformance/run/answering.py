"""The side of the backend: tag, compile and run what a question asks, and say what happened.

This runs where the backend is, which knows no more than the question, and gets inputs when it has compiled. Nothing
here judges: outputs, tags and bytes go to who asked. What only this process can notice (settings that were changed,
inputs that were written) is told as failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.common.describing import describe, frames
from npu_assay.conformance.common.errors import NotRunError
from npu_assay.conformance.programs.build import build, materialise, model_inputs
from npu_assay.conformance.programs.graph import Value
from npu_assay.conformance.programs.seeds import filled
from npu_assay.conformance.record.levels import COMPILES, reaches
from npu_assay.conformance.record.levels import RUNS as RUN
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.run.checked_runtime import CheckedRuntime, same
from npu_assay.conformance.run.outline import outline
from npu_assay.conformance.run.partitioning import Recorder, after_passes, prepared
from npu_assay.conformance.run.question import Answer, Draw, Handed, Inputs, Question, digest_of_blobs
from npu_assay.partitioners.exir import Backend, BackendDetails, LoweredBackendModule, run_program, to_backend
from npu_assay.partitioners.exir.lowering import checked_partitions
from npu_assay.partitioners.exir.ops import CALL_DELEGATE, target_name

FIRST, SECOND, THIRD, LAST = "first", "second", "third", "first again"
RUNS = ((FIRST, 0), (SECOND, 1), (THIRD, 2), (LAST, 0))
"""The runs of a program that is loaded once, each with the number of its inputs."""
FRESH = ((THIRD, 2), (SECOND, 1))
"""Runs of which each is the first one of a program that is loaded anew."""
ANEW, BESIDE, BESIDE_ALONE = "loaded anew: ", "beside another: ", "another: "


class Watch(Protocol):
    """Follows the work from outside, where it runs in a process of its own."""

    def entered(self, stage: str) -> None: ...

    def changes(self, numeric: bool) -> list[str]:
        """The settings of the process that were changed (those that bear on numbers); they are put back."""

    def refused(self, error: BaseException) -> str | None:
        """What to say when an error comes from the limit of memory."""


@dataclass
class Work:
    """A question being answered. draw: gives the inputs. `stage` names what is running, for a crash's message."""

    question: Question
    backend: Backend
    draw: Draw
    watch: Watch | None = None
    answer: Answer = field(default_factory=Answer)
    stage: str = "passes"

    def enter(self, stage: str) -> None:
        self.stage = stage
        if self.watch is not None:
            self.watch.entered(stage)

    def settings(self) -> None:
        """Note, and put back, settings that bear on numbers."""
        if self.watch is not None:
            self.answer.ran += [Failure("state", change) for change in self.watch.changes(numeric=True)]

    def partitioner(self) -> Any:
        """A new one of the backend."""
        return self.backend.partitioner(**dict(self.question.options))

    def failed(self, error: BaseException) -> Failure:
        """A backend may raise anything; the report says what and where."""
        refused = None if self.watch is None else self.watch.refused(error)
        if refused is not None:
            return Failure("memory", f"{self.stage}: {refused}")
        if isinstance(error, NotRunError):
            return Failure("not_run", str(error))
        return Failure("crash", f"{self.stage}: {describe(error)}", frames(error))


def answer(question: Question, backend: Backend, draw: Draw, watch: Watch | None = None) -> Answer:
    """What a backend makes of a question. Never raises but KeyboardInterrupt: an error is part of the answer."""
    return ended(Work(question, backend, draw, watch), _answer)


def ended(work: Work, act: Callable[[Work], None]) -> Answer:
    """Do the work, however it ends."""
    try:
        act(work)
        work.answer.finished = True
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (SystemExit and its like, too: a case does not end the run)
        work.answer.error = work.failed(error)
    return work.answer


def _answer(work: Work) -> None:
    question, found = work.question, work.answer
    sources = Sources.of(value for value in question.graph.values if value.constant)
    work.enter("passes")
    program = build(question.graph, question.preserve, question.mark)
    if question.passes:
        program = after_passes(program, work.backend)
    found.nodes = outline(program.graph)
    work.enter("partition")
    if not reaches(question.level, COMPILES):
        _tagged(work, program)
        work.settings()
        if not question.once:
            _partition_again(work, program)
        found.late += sources.changes()
        return
    lowered = _lowered(work, program)
    if reaches(question.level, RUN):
        runs(work, lowered, drawn(work), sources)
    work.settings()
    if not question.once:
        _partition_again(work, program)
        compile_again(work, lowered)
    found.late += sources.changes()
    for tool in question.tools:
        work.enter(tool)
        _ask_tool(work, lowered, tool)


def _tagged(work: Work, program: ExportedProgram) -> None:
    """Tag, and check what `to_backend` would; nothing is compiled."""

    def answered() -> None:
        work.answer.rejections, work.answer.tags = recorder.rejections, dict(recorder.tags)

    recorder = Recorder(work.partitioner(), answered)
    checked_partitions(program, recorder, _compilers(work))


def _partition_again(work: Work, program: ExportedProgram) -> None:
    """Ask another partitioner. It comes last: it writes its tags on the program."""
    work.enter("partition again")
    again = Recorder(work.partitioner())
    again(program)
    work.answer.tags_again = dict(again.tags)


def _lowered(work: Work, program: ExportedProgram) -> ExportedProgram:
    """Tag and compile. The tags are told as soon as the partitioner answers, even if compiling fails."""

    def answered() -> None:
        work.answer.rejections, work.answer.tags = recorder.rejections, dict(recorder.tags)
        work.enter("compile")

    recorder = Recorder(work.partitioner(), answered)
    return compiled(work, program, recorder)


def compiled(work: Work, program: ExportedProgram, partitioner: Recorder) -> ExportedProgram:
    """The lowered program; its blobs are told."""
    lowered = lower(work, program, partitioner)
    work.answer.blobs = [bytes(delegate.processed_bytes) for delegate in delegates(lowered)]
    return lowered


def lower(work: Work, program: ExportedProgram, partitioner: Recorder) -> ExportedProgram:
    """What `to_backend` makes of a program."""
    lowered: ExportedProgram = to_backend(program, partitioner, details=_compilers(work))
    return lowered


def _compilers(work: Work) -> dict[str, type[BackendDetails]]:
    """The backend's compiler, by its own name and by the table's."""
    return dict.fromkeys((work.backend.details.__name__, work.question.backend_id), work.backend.details)


def delegates(program: ExportedProgram) -> Iterator[LoweredBackendModule]:
    """The delegates that a lowered program calls, in order."""
    for node in program.graph.nodes:
        if node.op == "call_function" and target_name(node.target) == CALL_DELEGATE:
            yield program.graph_module.get_submodule(node.args[0].target)


def compile_again(work: Work, lowered: ExportedProgram) -> None:
    """Compile each partition a second time."""
    work.enter("compile again")
    for delegate in delegates(lowered):
        again = work.backend.details.preprocess(delegate.original_module, delegate.compile_specs)
        work.answer.blobs_again.append(bytes(again.processed_bytes))


def _ask_tool(work: Work, lowered: ExportedProgram, tool: str) -> None:
    for delegate in delegates(lowered):
        refusal = work.backend.blob_checks[tool].refusal(delegate.processed_bytes, delegate.compile_specs)
        if refusal:
            work.answer.late.append(Failure("tool", f"{tool}: {refusal}"))


# ------------------------------------------------------------------------------------ runs


def drawn(work: Work) -> Inputs:
    """The inputs, which whoever asks gives for the blobs: these stay as they are."""
    work.enter("inputs")
    return work.draw(digest_of_blobs(work.answer.blobs or ()))


def runs(work: Work, lowered: ExportedProgram, given: Inputs, sources: Sources) -> None:
    """Run what was lowered. A program with delegates is loaded once and runs on three inputs and the first again.

    Where that is asked, the second and the third input also run as the first one of a program that is loaded anew. So
    each input runs at two places, counted from when the program was loaded, or by twos and threes from the beginning.
    """
    graphs = [filled(work.question.graph, *drawn) for drawn in zip(given.runs, given.sizes, strict=True)]
    sources = sources.and_of(graphs[0].inputs)
    inputs = list(map(model_inputs, graphs))
    device = _Device(work, lowered)
    work.answer.runs[FIRST] = device.run(inputs[0])
    if device.delegated and not work.question.once:
        for name, number in RUNS[1:]:
            device.keeps = work.question.elsewhere and name == SECOND
            work.answer.runs[name] = device.run(inputs[number])
        if work.question.anew:
            work.answer.runs |= {ANEW + name: _Device(work, lowered).run(inputs[number]) for name, number in FRESH}
        if work.question.beside is not None:
            _in_turn(work, _Device(work, lowered), inputs, given)
    work.answer.ran += sources.changes()


@dataclass
class _Device:
    """A lowered program, its blobs loaded anew at the first run. `keeps`: tell what delegates are given."""

    work: Work
    lowered: ExportedProgram
    keeps: bool = False

    def __post_init__(self) -> None:
        self.runtime = CheckedRuntime(self.work.backend.runtime, self._handed)
        self.runtimes = {delegate.backend_id: self.runtime for delegate in delegates(self.lowered)}

    @property
    def delegated(self) -> bool:
        """Whether there is a delegate to run."""
        return bool(self.runtimes)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Delegates on the backend's runtime, which must not write its inputs, the rest in torch."""
        self.work.enter("run")  # which ends copies that an earlier run made of this process
        outputs: list[Tensor] = run_program(self.lowered, inputs, self.runtimes)
        self.work.answer.ran += [Failure("mutation", wrote) for wrote in dict.fromkeys(self.runtime.wrote)]
        self.runtime.wrote.clear()
        return [x.clone() if isinstance(x, Tensor) else x for x in outputs]

    def _handed(self, handed: Handed) -> None:
        if self.keeps and all(isinstance(x, Tensor) for x in handed.outputs):  # else it fails anyhow
            self.work.answer.handed.append(handed)


def _in_turn(work: Work, device: _Device, inputs: Sequence[Sequence[Tensor]], given: Inputs) -> None:
    """Run the program and another one in turn, and the other one by itself; nothing when that is not lowered."""
    graph, found = work.question.beside, work.answer.runs
    assert graph is not None
    try:
        program = prepared(graph, work.backend, work.question.preserve, work.question.mark)
        lowered = lower(work, program, Recorder(work.partitioner()))
        other = model_inputs(filled(graph, given.beside))
        alone = _Device(work, lowered).run(other)
    except Exception:  # noqa: BLE001  (the other program is a case of its own, which says what is wrong with it)
        return
    beside = _Device(work, lowered)
    for name, number in RUNS[:2]:
        found[BESIDE + name] = device.run(inputs[number])
        found[BESIDE_ALONE + BESIDE + name] = beside.run(other)
    found[BESIDE_ALONE] = alone


@dataclass(frozen=True)
class Sources:
    """A program's own tensors, which other programs may share, and how they were."""

    tensors: tuple[Tensor, ...]
    before: tuple[Tensor, ...]

    @classmethod
    def of(cls, values: Iterable[Value]) -> Sources:
        tensors = tuple(map(materialise, values))
        return cls(tensors, tuple(tensor.clone() for tensor in tensors))

    def and_of(self, values: Iterable[Value]) -> Sources:
        """These and those of other values."""
        others = Sources.of(values)
        return Sources((*self.tensors, *others.tensors), (*self.before, *others.before))

    def changes(self) -> list[Failure]:
        """Put back what was written."""
        changed = [pair for pair in zip(self.tensors, self.before, strict=True) if not same(*pair)]
        for tensor, before in changed:
            tensor.copy_(before)
        text = "the backend changed the constants of the program that it was given"
        return [Failure("mutation", text)] if changed else []
