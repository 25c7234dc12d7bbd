"""The process that judges cases, beside the runner that has the backend.

It is forked from the run, which never imports a backend, and asks one runner. What the case is, what its table promises
and what the goldens are stays here; to the runner goes a `Question`, when it has compiled the inputs, and back comes an
`Answer`, as bytes.
"""

from __future__ import annotations

import gc
import logging
import os
import pkgutil
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module

import torch

from npu_assay import reference
from npu_assay.conformance.fuzz import observe
from npu_assay.conformance.fuzz.names import is_program
from npu_assay.conformance.isolation import frames
from npu_assay.conformance.isolation.clean_process import CleanProcess
from npu_assay.conformance.isolation.forking import close_files
from npu_assay.conformance.isolation.frames import DRAW, GOOD, LAST, STAGE, FrameError
from npu_assay.conformance.isolation.limits import die_with_parent
from npu_assay.conformance.isolation.text import encoded
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run import one_case, wire_format
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.question import Answer, Question, digest_of_blobs
from npu_assay.conformance.run.wire_format import AnswerError
from npu_assay.conformance.table import Table

NOISE = "?"
"""A line in place of a result: what the runner sent is not an answer."""
JUDGING = "judge"


def load_judges() -> None:
    """Load what judging loads piece by piece: once, for all judges, while nothing can have changed it."""
    for found in pkgutil.walk_packages(reference.__path__, f"{reference.__name__}."):
        import_module(found.name)


Look = Callable[[Case, Answer], None]
"""Sees the answer of a case, where it is judged."""


@dataclass(frozen=True)
class Bench:
    """What every judge knows: the table, its cases by name, the blob checks that are asked for.

    partners: see `one_case.partners`. level: of the run, see `record.levels`. look: sees each answer, besides.
    """

    table: Table
    case: Callable[[str], Case]
    tools: tuple[str, ...] = ()
    partners: Mapping[str, str] = field(default_factory=dict)
    level: str = NUMBERS
    look: Look | None = None


class _RunnerEndedError(Exception):
    """The runner has ended, so it cannot be asked."""


def serve(orders: socket.socket, runner: socket.socket, clean: socket.socket, stage: int, bench: Bench) -> None:
    """Judge the cases whose names arrive, line by line, until the other end closes or the runner ends."""
    os.setsid()
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    close_files({end.fileno() for end in (orders, runner, clean)} | {stage})
    torch.set_num_threads(1)
    logging.disable()  # a judge tells what it finds in results alone
    gc.freeze()  # pages are shared with the run as long as nobody writes to them
    judge = _Judge(runner, CleanProcess(clean), stage, bench)
    with orders.makefile("r", encoding="utf-8", newline="\n") as names:
        for name in names:
            try:
                kind, result = judge.result(bench.case(name.strip()))
            except _RunnerEndedError:
                return
            except (AnswerError, FrameError):
                orders.sendall(f"{NOISE}\n".encode())
                return
            orders.sendall(b"%b%b\n" % (kind.encode(), encoded(result)))
            if kind == LAST:
                return


def _check_drawn(drawing: Drawing, answer: Answer) -> None:
    """Raise AnswerError for runs of other blobs than those that inputs were drawn for."""
    if (answer.runs or drawing.blobs is not None) and drawing.blobs != digest_of_blobs(answer.blobs or ()):
        raise AnswerError("blobs: found others than those that the inputs were drawn for")


@dataclass
class _Judge:
    runner: socket.socket
    clean: CleanProcess
    stage: int
    bench: Bench
    secret: str = field(default_factory=secrets.token_hex, repr=False)

    def result(self, case: Case) -> tuple[str, CaseResult]:
        """Ask, and judge the answer. Raises _RunnerEndedError, AnswerError or FrameError when there is none."""
        beside = self._beside(case)
        question, drawing = self._question(case, beside), Drawing(case.graph, beside, self.secret)
        message = self._asked(wire_format.question_bytes(question))
        if message[:1] == DRAW.encode():
            inputs = drawing(message[1:].decode("ascii", "replace"))
            message = self._asked(wire_format.inputs_bytes(inputs))
        answer = wire_format.read_answer(question.name, message[1:])
        _check_drawn(drawing, answer)
        os.pwrite(self.stage, JUDGING.encode().ljust(STAGE), 0)
        if self.bench.look is not None:
            self.bench.look(case, answer)
        behind, answer.behind = answer.behind, []
        if is_program(case.id):
            result = observe.judged(case, self.bench.table, answer, drawing)
        else:
            tools, level = self.bench.tools, self.bench.level
            result = one_case.judged(case, self.bench.table, answer, drawing, tools, self.clean.run, level)
        last = message[:1] == LAST.encode() or self.clean.dead
        return LAST if last else GOOD, one_case.with_failures(result, behind)

    def _asked(self, message: bytes) -> bytes:
        frames.send(self.runner, message)
        found = frames.receive(self.runner)
        if found is None:
            raise _RunnerEndedError
        return found

    def _beside(self, case: Case) -> Graph | None:
        with suppress(KeyError):  # of a partner that is none of these cases
            return self.bench.case(self.bench.partners[case.id]).graph
        return None

    def _question(self, case: Case, beside: Graph | None) -> Question:
        if is_program(case.id):
            return observe.asked(case, self.bench.table)
        return one_case.asked(case, self.bench.table, self.bench.tools, beside, self.bench.level)
