"""What a vendor answers to a case, stage by stage: a changed one that answers the same passes, and is not judged.

A run of a case asks twice for tags, compiles twice, runs up to six times and computes goldens. All of that follows from
tags, compiled bytes and what the device gives for them. So these are compared with what the unchanged vendor gave, no
further than the changed line has any effect, and only a case whose answer is another one is run and judged as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest

from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.seeds import redrawn
from npu_assay.conformance.record.tensor_text import digest
from npu_assay.conformance.run.answering import delegates
from npu_assay.conformance.run.checked_runtime import CheckedRuntime
from npu_assay.conformance.run.outline import outline
from npu_assay.conformance.run.partitioning import tags_of
from npu_assay.conformance.run.question import Handed
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import (
    Backend,
    CompileSpec,
    Partitioner,
    PartitionResult,
    apply_passes,
    run_program,
    to_backend,
)

PARTITION, COMPILE, RUN = range(3)
"""The stages in which a line runs: passes and tags; compiling; loading and running."""

Entered = Callable[[int], None]


@dataclass(frozen=True)
class Given:
    """What a delegate was given at a run, and the digest of what it gave."""

    blob: bytes
    specs: tuple[tuple[str, bytes], ...]
    inputs: tuple[Tensor, ...]
    outputs: str


@dataclass(frozen=True)
class Known:
    """The digests of tags, blobs and outputs of a case, and what its delegates were given."""

    digests: tuple[str, ...]
    given: tuple[Given, ...]


@dataclass
class _Asked(Partitioner):
    """Passes on to a partitioner, and adds the digest of its answer to `told`."""

    inner: Partitioner
    entered: Entered
    told: list[str]
    handed: list[Handed] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.inner.spec)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        answer = self.inner(exported_program)
        self.told.append(self._tags(answer))
        self.entered(COMPILE)
        return answer

    def _tags(self, answer: PartitionResult) -> str:
        """Nodes, tags, how tags are delegated, and reasons."""
        graph = answer.tagged_exported_program.graph
        told = (outline(graph), sorted(tags_of(graph).items()), answer.partition_tags)
        return _digest(repr((*told, getattr(self.inner, "rejections", None))).encode())


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def program_of(case: Case, table: Table) -> ExportedProgram:
    """The edge program of a case, before any vendor's passes."""
    return build(case.graph, tuple(table.preserve), table.mark)


def known(case: Case, table: Table, backend: Backend, entered: Entered) -> Known:
    """What a vendor answers to a case. entered: called with each stage. Raises whatever the vendor raises."""
    digests = list[str]()
    handed = _answered(case, table, backend, program_of(case, table), RUN, entered, digests)
    given = (Given(each.blob, each.specs, each.inputs, digest(each.outputs)) for each in handed)
    return Known(tuple(digests), tuple(given))


def differs(
    case: Case, table: Table, backend: Backend, program: ExportedProgram, before: Known, stages: Set[int]
) -> bool:
    """Whether a vendor answers another thing than `before`.

    program: the case's own, which this writes on. stages: in which the changed line runs; no others are looked at.
    """
    if stages == {RUN}:
        return any(_runs(backend, each) != each.outputs for each in before.given)
    told = list[str]()
    _answered(case, table, backend, program, max(stages), lambda stage: None, told)
    return tuple(told) != before.digests[: len(told)]


def first_difference(case: Case, table: Table, backend: Backend, program: ExportedProgram, before: Known) -> int | None:
    """The first stage whose answer is another one than `before`, or an error; None where all are the same."""
    told = list[str]()
    with suppress(Exception):  # whatever a broken vendor raises: the stage that ends so has no answer
        _answered(case, table, backend, program, RUN, lambda stage: None, told)
    answers = enumerate(zip_longest(told, before.digests))
    return next((stage for stage, (now, then) in answers if now != then), None)


def _runs(backend: Backend, given: Given) -> str:
    specs = [CompileSpec(key, value) for key, value in given.specs]
    inputs = [tensor.clone() for tensor in given.inputs]
    return digest(backend.runtime.execute(backend.runtime.load(given.blob, specs), inputs))


def _answered(
    case: Case, table: Table, backend: Backend, program: ExportedProgram, last: int, entered: Entered, told: list[str]
) -> Sequence[Handed]:
    """Adds the digests of the stages up to the last to `told`, and returns what was handed to delegates."""
    entered(PARTITION)
    program = apply_passes(program, backend.passes) if backend.passes else program
    asked = _Asked(backend.partitioner(**dict(case.options)), entered, told)
    if last == PARTITION:
        asked(program)
        return ()
    details = dict.fromkeys((backend.details.__name__, table.backend_id), backend.details)
    lowered = to_backend(program, asked, details=details)
    told.append(_digest(*(bytes(each.processed_bytes) for each in delegates(lowered))))
    if last == COMPILE:
        return ()
    entered(RUN)
    runtime = CheckedRuntime(backend.runtime, asked.handed.append)
    runtimes = {delegate.backend_id: runtime for delegate in delegates(lowered)}
    inputs = [model_inputs(redrawn(case.graph, number)) for number in range(3 if runtimes else 0)]
    outputs = [digest(run_program(lowered, each, runtimes)) for each in inputs]
    told.append(_digest(*(each.encode() for each in outputs)))
    return asked.handed
