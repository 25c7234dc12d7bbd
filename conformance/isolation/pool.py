"""Gives cases to runners, one per core, and turns timeouts, crashes and excess memory into results."""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory

from npu_assay.conformance.backend.info import About
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.isolation import base_process, forkserver, judge
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.isolation.forkserver import ASK, ENDED, ENDS, KILL, LOADED, READY, REFUSED, RUN, Subject
from npu_assay.conformance.isolation.frames import LAST
from npu_assay.conformance.isolation.judge import Bench
from npu_assay.conformance.isolation.leaks import GRACE
from npu_assay.conformance.isolation.limits import MEBI, Limits, end, is_stopped, resident
from npu_assay.conformance.isolation.privileges import hide_memory
from npu_assay.conformance.isolation.wire import Wire, WireError
from npu_assay.conformance.isolation.workers import LOOK, Task, Worker, cause
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.results import CaseResult, Failure, ResultError, from_line
from npu_assay.conformance.run.one_case import failed, partners
from npu_assay.conformance.run.selection import cases_of_run
from npu_assay.conformance.table import load_table

CHUNK = 16  # cases that a runner has waiting, so that it never waits itself
SPARE = 16  # open files that runners leave for the rest of the run, which writes reports
BEAT = 1.0  # seconds between two questions to the forkserver when nothing else is new
SILENCE = 60.0  # seconds without its answer; one that is stopped is noticed at once
LOADING = 600.0  # seconds that a backend may take to load


class ProcessPool:
    """A forkserver, the runners that it forks, and a judge for each of them, for the cases of one backend and table.

    table: name or path, None for the backend's own. about: what the backend reports about itself. seconds: how long
    each case took. Raises UsageError when the backend cannot be loaded.
    """

    def __init__(self, subject: Subject, table: str | None = None) -> None:
        self._folder = TemporaryDirectory(prefix="assay-device-", ignore_cleanup_errors=True)  # for calls of a device
        self._subject = replace(subject, place=replace(subject.place, folder=self._folder.name))
        self._named = table
        self._workers: list[Worker] = []
        self.seconds: dict[str, float] = {}
        hide_memory()
        try:
            self._start()
        except BaseException:
            self._folder.cleanup()
            raise

    def _start(self) -> None:
        self._kept, self._wire = base_process.start(self._subject)
        self._forkserver = self._asked = self._answered = 0
        self._since = time.monotonic()  # the last question
        self.about = self._introduction()

    def judge_by(self, table: str) -> None:
        """Take the cases of another table, by name or path, from now on."""
        self._named = table

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        self._stop_forkserver()
        self._folder.cleanup()

    def _stop_forkserver(self) -> int:
        """End the forkserver and all its descendants; returns how it ended."""
        self._wire.close()
        return self._kept.end()

    def _introduction(self) -> About:
        ready, _, _ = select.select([self._wire.socket], [], [], LOADING)
        messages = self._wire.messages() if ready else []
        if messages and LOADED in messages[0]:
            self._forkserver = messages[0]["process"]
            return About(**messages[0][LOADED])
        code = self._stop_forkserver()
        if messages and REFUSED in messages[0]:
            raise forkserver.refusal(messages[0])
        how = cause(code) if ready else f"no end in {LOADING:g} s"
        raise UsageError(f"backend {self._subject.backend!r}: loading it ends its process ({how})")

    def run(self, cases: Sequence[Case], workers: int) -> Iterator[CaseResult]:
        """Run cases on so many runners, and yield each result as it comes."""
        by_name = {case.id: case for case in cases}
        yield from self.run_named(list(by_name), by_name.__getitem__, workers)

    def run_named(
        self,
        names: Sequence[str],
        case: Callable[[str], Case],
        workers: int,
        level: str = NUMBERS,
        look: judge.Look | None = None,
    ) -> Iterator[CaseResult]:
        """As `run`, with cases by name; `case` makes those that are needed here. level, look: see `Bench`."""
        table = load_table(self._named or self.about.table)
        self._bench = Bench(table, case, self._subject.tools, partners(cases_of_run(table)), level, look)
        yield from _Run(self, names, case, workers).results()

    # -------------------------------------------------------------------------------- for _Run

    def hire(self) -> Worker:
        """A new runner, which begins as soon as the forkserver has forked it, and its judge, forked from here.

        Raises UsageError when this process cannot open so many files.
        """
        files, ends = list[int](), list[socket.socket]()
        try:
            files = forkserver.files()
            for _ in range(1 + ENDS):
                ends += socket.socketpair()
            if 0 <= _most_files() < max(each.fileno() for each in ends) + SPARE:  # the system gives the lowest number
                raise OSError(0, "too few open files would be left")
        except OSError as error:
            for opened in ends:
                opened.close()
            for file in files:
                os.close(file)
            raise _too_many(len(self._workers), str(error.strerror)) from error
        ours, orders, asking, asked, showing, shown = ends
        worker = Worker(Wire(ours), files)
        worker.judge = fork(lambda: judge.serve(orders, asking, showing, files[0], self._bench))
        self._wire.send({RUN: True}, [asked.fileno(), shown.fileno(), *files])
        for theirs in ends[1:]:
            theirs.close()
        self._workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> None:
        """Ask the forkserver to end a runner."""
        self._wire.send({KILL: worker.process})

    def dismiss(self, worker: Worker) -> None:
        """Forget a runner that has ended."""
        worker.close()
        self._workers.remove(worker)

    def news(self) -> list[tuple[Worker, int]]:
        """The runners that have ended since the last call, and how. Raises NurseryDied."""
        found = []
        for message in self._wire.messages():
            if REFUSED in message:
                raise forkserver.refusal(message)
            if ASK in message:
                self._answered = message[ASK]
            if READY in message:
                worker = next(worker for worker in self._workers if not worker.process)
                worker.process, worker.since = message[READY], time.monotonic()
                worker.memory = resident(worker.process)
            if ENDED in message:
                ended = next((worker for worker in self._workers if worker.process == message[ENDED]), None)
                found += [] if ended is None else [(ended, int(message["status"]))]
        return found

    def ask(self, now: bool) -> None:
        """Ask the forkserver for a sign of life: at once, or if it was not asked lately; one question at a time."""
        if self._asked == self._answered and (now or time.monotonic() - self._since > BEAT):
            self._asked, self._since = self._asked + 1, time.monotonic()
            self._wire.send({ASK: self._asked})

    @property
    def next_question(self) -> int:
        """The number of the next question: its answer shows that the forkserver outlived all that happened before."""
        return self._asked + 1

    @property
    def answered(self) -> int:
        """The last question that the forkserver answered."""
        return self._answered

    @property
    def lost(self) -> str:
        """How the forkserver was lost; "" while it answers."""
        if self._wire.closed:
            return "died"
        waited = time.monotonic() - self._since if self._asked > self._answered else 0.0
        if waited > LOOK and is_stopped(self._forkserver):
            return "was stopped"
        return "no longer answers" if waited > SILENCE else ""

    def restart(self) -> None:
        """Start another forkserver in place of a lost one, whose runners are lost, too."""
        for worker in list(self._workers):
            if worker.process:
                end(worker.process)
            self.dismiss(worker)
        self._stop_forkserver()
        self._start()

    def wait(self, seconds: float) -> None:
        """Wait until a runner or the forkserver sends something."""
        poll = select.poll()  # unlike select, at home with more than 1024 open files
        for end_of in (self._wire.socket, *(worker.wire.socket for worker in self._workers if not worker.wire.closed)):
            poll.register(end_of, select.POLLIN)
        poll.poll(1000 * seconds)

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._workers)

    @property
    def limits(self) -> Limits:
        return self._subject.patience


@dataclass
class _Run:
    pool: ProcessPool
    names: Sequence[str]
    case: Callable[[str], Case]
    workers: int
    suspects: deque[Task] = field(default_factory=deque)  # each goes to a runner that has run nothing yet
    doubtful: deque[Task] = field(default_factory=deque)  # each runs while nothing else does
    unsure: deque[tuple[int, Task, CaseResult]] = field(
        default_factory=deque
    )  # and the question that has to be answered

    def results(self) -> Iterator[CaseResult]:
        self.todo = deque(Task(name) for name in self.names)
        while self.todo or self.suspects or self.doubtful or self._running():
            self._hand_out()
            self.pool.ask(now=bool(self.unsure))
            self.pool.wait(LOOK)
            for worker in self.pool.workers:
                self._answers(worker)
            for worker, status in self.pool.news():
                worker.drain(self.pool.limits.seconds)
                self._answers(worker)
                yield from self._ended(worker, status)
            yield from self._sure()
            if how := self.pool.lost:
                yield from self._forkserver_lost(how)
            for worker in self.pool.workers:
                self._check(worker)

    def _running(self) -> bool:
        """Whether some case runs, or has a result that is not confirmed yet."""
        return bool(self.unsure) or any(worker.given for worker in self.pool.workers)

    # -------------------------------------------------------------------------------- giving

    def _hand_out(self) -> None:
        if self.doubtful:
            self._hand_out_alone()
            return
        while len(self.pool.workers) < self.workers and (self.suspects or len(self.todo) > self._waiting()):
            worker = self.pool.hire()
            if self.suspects:
                worker.give([self.suspects.popleft()])
            self._fill(worker)
        for worker in self.pool.workers:
            self._fill(worker)

    def _waiting(self) -> int:
        """The number of idle runners."""
        return sum(not worker.given and not worker.retired for worker in self.pool.workers)

    def _fill(self, worker: Worker) -> None:
        """Give cases to a runner that has few; near the end only few, so that all runners end together."""
        wanted = max(1, min(CHUNK, len(self.todo) // (4 * self.workers)))
        if worker.retired or worker.verdict or worker.wire.closed or 2 * len(worker.given) > wanted or not self.todo:
            return
        worker.give([self.todo.popleft() for _ in range(min(wanted, len(self.todo)))])

    def _hand_out_alone(self) -> None:
        if self._running():
            return
        idle = [worker for worker in self.pool.workers if not worker.retired and not worker.wire.closed]
        (idle[0] if idle else self.pool.hire()).give([self.doubtful.popleft()])

    # -------------------------------------------------------------------------------- taking

    def _answers(self, worker: Worker) -> None:
        """Take the results that a runner has sent."""
        if worker.wire.closed or worker not in self.pool.workers:
            return
        try:
            lines = worker.wire.lines()
            for line in lines:
                result = from_line(line[1:])
                if not worker.given or result.case != worker.given[0].name:
                    raise WireError("found the result of another case")
                task = worker.given.popleft()
                now = time.monotonic()
                self.pool.seconds[task.name] = now - worker.since
                worker.ran, worker.since, worker.retired = worker.ran + 1, now, line[0] == LAST
                if worker.retired:
                    self.pool.kill(worker)
                result = result if task.fault is None else _with(result, _only_behind(task.fault))
                self.unsure.append((self.pool.next_question, task, result))
        except (WireError, ResultError):
            self._end(worker, "crash", "the process wrote to the connection of the suite")

    def _sure(self) -> Iterator[CaseResult]:
        """The results that are confirmed: the forkserver has outlived them. A case could end it and return a result."""
        while self.unsure and self.unsure[0][0] <= self.pool.answered:
            yield self.unsure.popleft()[2]

    def _ended(self, worker: Worker, status: int) -> Iterator[CaseResult]:
        """A runner has ended: the case that it was running failed; the cases after it are run again."""
        check, message = worker.verdict or (
            "crash",
            f"{worker.stage}: the process died ({cause(status)}){worker.last}",
        )
        given = list(worker.given)
        if worker.retired or not given:
            self.todo.extendleft(reversed(given))
        else:
            self.todo.extendleft(reversed(given[1:]))
            self.pool.seconds[given[0].name] = time.monotonic() - worker.since
            if worker.ran and not worker.verdict:
                self.suspects.append(replace(given[0], fault=(check, message)))
            else:
                yield failed(self.case(given[0].name), check, message)
        self.pool.dismiss(worker)

    def _forkserver_lost(self, how: str) -> Iterator[CaseResult]:
        """A case ended or stopped the forkserver. To find out which, each is run again alone."""
        suspects = [task for _, task, _ in self.unsure]
        suspects += [worker.given[0] for worker in self.pool.workers if worker.given]
        rest = [task for worker in self.pool.workers for task in list(worker.given)[1:]]
        self.unsure.clear()
        self.todo.extendleft(reversed(rest))
        self.pool.restart()
        if len(suspects) == 1:
            yield failed(self.case(suspects[0].name), "crash", f"the process from which all cases start {how}")
        else:
            self.doubtful.extend(suspects)

    def _check(self, worker: Worker) -> None:
        """End a runner whose case takes too long or too much memory."""
        limits = self.pool.limits
        if not worker.given or not worker.process or worker.verdict or worker.retired:
            return
        if worker.wire.closed:
            self._unjudged(worker)
            return
        if worker.is_late(limits.seconds):
            self._end(worker, "hang", f"{worker.stage}: {limits.too_long}")
        elif worker.takes_more(limits.mebibytes * MEBI + worker.memory):
            self._end(worker, "memory", f"{worker.stage}: {limits.too_much}")

    def _unjudged(self, worker: Worker) -> None:
        """The judge has ended: after its runner, which the forkserver will report, or killed by the runner."""
        worker.alone = worker.alone or time.monotonic()
        if time.monotonic() - worker.alone > GRACE:
            self._end(worker, "crash", f"{worker.stage}: the process that judges the case died")

    def _end(self, worker: Worker, check: str, message: str) -> None:
        worker.verdict = check, message
        self.pool.kill(worker)


def _most_files() -> int:
    """How many files this process may have open; negative when there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return -1 if soft == resource.RLIM_INFINITY else soft


def _too_many(workers: int, found: str) -> UsageError:
    """The error when no more files can be opened for a runner beyond `workers`."""
    advice = f"raise it, or take at most {workers} with -n" if workers else "raise it"
    return UsageError(
        f"cannot start process {workers + 1} for cases: {found}; each needs {1 + forkserver.FILES} of them and the "
        f"rest of the run {SPARE}, and the limit is {_most_files()} in all (ulimit -n): {advice}"
    )


def _only_behind(fault: tuple[str, str]) -> Failure:
    return Failure(fault[0], f"{fault[1]}; only after other cases, not in a process of its own")


def _with(result: CaseResult, failure: Failure) -> CaseResult:
    return replace(result, failures=(*result.failures, failure), status="fail")
