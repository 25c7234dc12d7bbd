"""A device behind a command: `ssh board run-models {folder}`, called with the files of one job or of many.

Nothing that it does ends a run: what it does not answer is asked once more, alone, and is then a result with a reason.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

import torch

from npu_assay.conformance.backend.loading import BackendSpecError
from npu_assay.conformance.devices import call, worker
from npu_assay.conformance.devices.call import AnswerError, Job
from npu_assay.conformance.devices.machine import MachineError, packed
from npu_assay.partitioners.exir import CompileSpec

MANY = ("{folder}", "{manifest}")
ONE = ("{model}", "{inputs}", "{outputs}")
FILE, FILES = 2**31, 2**33  # bytes of a file that a call may write, and of all together
LOOK = 0.05  # seconds between two looks at a call
PAUSE = 2.0  # seconds before a device that answered nothing is asked again
GIVEN_UP = 3  # jobs in a row that no second call had an answer to: from then on there is none until one is answered
Answer = list[torch.Tensor] | str
"""A job's outputs, or why there are none."""


@dataclass
class Command:
    """A command as a runtime. call, case: seconds for a call, and for one with one job. folder: where its files go.

    {folder} or {manifest} in the command stand for the files of many jobs; {model}, {inputs} and {outputs} for a
    model's file and the folders of one job. door: where a process takes jobs for calls that many share (`gather`).
    Raises BackendSpecError for a command that is none.
    """

    command: str
    call: float = 60.0
    case: float = 30.0
    folder: str = ""
    door: str = ""
    _lost: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise BackendSpecError(f"--device {self.command!r}: {error}") from None
        if not words or shutil.which(words[0]) is None:
            raise BackendSpecError(f"--device {self.command!r}: found no program {(*words, '')[0]!r}")
        if not self.takes_many and not all(name in self.command for name in ("{model}", "{outputs}")):
            expected = "{folder}, or {model}, {inputs} and {outputs}"
            raise BackendSpecError(f"--device {self.command!r}: expected {expected}, the places of its files")

    @property
    def takes_many(self) -> bool:
        """Whether one call is for many jobs."""
        return any(name in self.command for name in MANY)

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> bytes:
        """The blob itself: a device gets it with each job."""
        return bytes(processed_bytes)

    def run(self, model: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Raises MachineError, which says why there are none."""
        if self.door:
            found = self._asked(model, inputs)
        else:
            (found,) = self.answers([Job(model, tuple(inputs))])
        if isinstance(found, str):
            raise MachineError(found)
        return found

    execute = run

    def _asked(self, model: bytes, inputs: Sequence[torch.Tensor]) -> Answer:
        """The answer of the process that calls the device for many."""
        kinds, parts = packed(inputs)
        buffer, found = bytearray(), None
        try:
            with socket.socket(socket.AF_UNIX) as wire:
                wire.connect(self.door)
                wire.sendall(worker.message({"arrays": kinds}, [model, *parts]))
                while found is None:
                    block = wire.recv(2**20)
                    if not block:
                        return "the process that calls the device has ended"
                    buffer += block
                    found = worker.taken(buffer)
        except OSError as error:
            return f"the process that calls the device does not answer: {error.strerror or error}"
        header, numbers = found
        if "error" in header:
            return str(header["error"])
        return [torch.from_numpy(each) for each in worker.arrays(header["arrays"], numbers)]

    # -------------------------------------------------------------------------------- calls

    def answers(self, jobs: Sequence[Job]) -> list[Answer]:
        """The answer to each job. What a call leaves without an answer is asked again, its first job alone."""
        found: dict[str, Answer] = {}
        rest = list(jobs)
        while rest:
            group = rest if self.takes_many else rest[:1]
            told, why = self._called(group)
            found |= told
            left = [job for job in group if job.name not in told]
            if left:
                suspect = left[0]
                found[suspect.name] = self._alone(suspect) if len(group) > 1 else self._again(suspect, why)
            rest = [job for job in rest if job.name not in found]
        return [found[job.name] for job in jobs]

    def _alone(self, job: Job) -> Answer:
        told, why = self._called([job])
        return told[job.name] if told else self._again(job, why)

    def _again(self, job: Job, why: str) -> Answer:
        """The answer of a second call, after a pause in which a board can come back."""
        if self._lost < GIVEN_UP:
            time.sleep(PAUSE)
            told, why = self._called([job])
            self._lost = 0 if told else self._lost + 1
            return told.get(job.name, why)
        return why

    def _called(self, jobs: Sequence[Job]) -> tuple[dict[str, Answer], str]:
        """What one call answers, by job, and why it does not answer the rest."""
        try:
            with TemporaryDirectory(prefix="call-", dir=self.folder or None, ignore_cleanup_errors=True) as name:
                call.write(Path(name), jobs)
                return self._call_with(Path(name), jobs)
        except (OSError, TypeError) as error:
            return {}, f"the files of a call cannot be written: {error}"

    def _call_with(self, folder: Path, jobs: Sequence[Job]) -> tuple[dict[str, Answer], str]:
        why = self._call(folder, jobs)
        answered = {job.name: told for job in jobs if (told := self._read(folder, job, why)) is not None}
        self._lost = 0 if answered else self._lost
        other = call.asked_only(folder, jobs) if len(answered) < len(jobs) else ""
        return answered, f"{why or 'the device answers nothing to it'}{other}"

    def _read(self, folder: Path, job: Job, why: str) -> Answer | None:
        try:
            return call.read(folder, job, ended=not why and not self.takes_many)
        except AnswerError as error:
            return f"the device's answer: {error}"

    def _call(self, folder: Path, jobs: Sequence[Job]) -> str:
        """Run the command; returns how it went wrong, in words, or ""."""
        seconds, places = (self.call if len(jobs) > 1 else self.case), _places(folder, jobs[0])
        with TemporaryFile() as printed:
            process = subprocess.Popen(
                [_filled(word, places) for word in shlex.split(self.command)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
                preexec_fn=_limit_files,
            )
            try:
                how = _watched(process, folder, seconds)
            finally:
                _end(process)
            return f"{how}{_said(printed)}" if how else ""


def _places(folder: Path, job: Job) -> Mapping[str, str]:
    """What stands in the command for the files of a call."""
    own = folder / call.IN / job.name
    one = dict(zip(ONE, (own / call.MODEL, own, folder / call.OUT / job.name), strict=True))
    many = dict(zip(MANY, (folder, folder / call.MANIFEST), strict=True))
    return {name: str(place) for name, place in {**one, **many}.items()}


def _filled(word: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


def _limit_files() -> None:
    """The largest file that the command itself may write; a disk that it fills would be ours, too."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))


def _watched(process: subprocess.Popen[bytes], folder: Path, seconds: float) -> str:
    """How a call went wrong, in words; "" if it ended well."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            code = process.wait(LOOK)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                return f"no answer in {seconds:g} s"
            if _bytes(folder) > FILES:
                return f"it wrote more than {FILES} bytes"
            continue
        if code:
            return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return ""


def _bytes(folder: Path) -> int:
    """The bytes of the files in a folder, some of which may go meanwhile."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                found += os.lstat(os.path.join(place, name)).st_size
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and all of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _said(printed: IO[bytes]) -> str:
    """What a command printed last, in a few words."""
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - call.SAID))
    lines = printed.read(call.SAID).decode("utf-8", "replace").split("\n")
    told = [line.strip() for line in lines if line.strip()]
    return f" ({told[-1][:200]})" if told else ""
