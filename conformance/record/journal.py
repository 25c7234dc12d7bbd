"""The results of a run while it goes on, so that it can be continued where it was interrupted.

The first line says which run it is of, the others are results, each written as soon as it is known.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.folder import refuse_foreign, writing
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.names import CERTIFICATE, FILES, FUZZ_JOURNAL, JOURNAL, LIMITS, PackageError
from npu_assay.conformance.record.results import CaseResult, ResultError, from_line, to_line
from npu_assay.conformance.verify.result import result_problem
from npu_assay.files import check_regular, make_folder

Identity = Mapping[str, str]  # what must be the same for a run to be continued, in words of the command line


class Journal:
    """Writes each result down as it comes. `finished` are the results that an interrupted run left."""

    def __init__(
        self, folder: Path, file: io.FileIO, identity: Identity, finished: Sequence[CaseResult], keep: int
    ) -> None:
        """Take over a locked file, of which the first `keep` bytes stay."""
        self._folder = folder
        self._file = file
        self.finished = tuple(finished)
        if os.fstat(file.fileno()).st_size > keep:
            file.truncate(keep)
        file.seek(keep)
        if not keep:
            self._write(_header(identity))

    def add(self, result: CaseResult) -> None:
        """Write one result. Raises PackageError when the disk takes no more."""
        with writing(self._folder):
            self._write(to_line(result))

    def _write(self, line: str) -> None:
        rest = memoryview(f"{line}\n".encode())
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        """Close the file. Raises PackageError when the disk takes no more."""
        with writing(self._folder):
            self._file.close()


@contextmanager
def journal(
    folder: Path, identity: Identity, cases: Sequence[Case], resume: bool = False, level: str = NUMBERS
) -> Iterator[Journal]:
    """Make the folder, remove the files of an earlier run (its certificate first), open the journal.

    resume: go on with the journal that is there, if there is one. level: of the run. Raises PackageError
    when the folder cannot be used, holds files and is not the folder of a run, or, to resume, has the journal of
    another run or a finished one.
    """
    with writing(folder):
        make_folder(folder)
        refuse_foreign(folder)
        file = _locked(folder)
    try:
        with writing(folder):
            finished, keep = _left(folder, file, identity, cases, level) if resume else ((), 0)
            if not keep:
                (folder / FUZZ_JOURNAL).unlink(missing_ok=True)
            opened = Journal(folder, file, identity, finished, keep)
            for name in FILES[:-1]:
                (folder / name).unlink(missing_ok=True)
            for draft in folder.glob(".*.tmp"):  # of a process that was killed while it wrote the final files
                draft.unlink()
        yield opened
        opened.close()
    finally:
        file.close()


# ------------------------------------------------------------------------------------ one run at a time

PATIENCE = 1.0  # seconds
_OPEN: WeakSet[io.FileIO] = WeakSet()  # journals that this process has locked


def _close_inherited() -> None:
    """Close the journals in a forked copy of this process: a lock lasts as long as any process has the file open."""
    for file in _OPEN:
        file.close()
    _OPEN.clear()


os.register_at_fork(after_in_child=_close_inherited)


def _opened(path: Path) -> io.FileIO:
    """The journal, whose lines are written at once. Raises PackageError for a pipe, a device or too large a file."""
    with writing(path):
        file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
        try:
            check_regular(file.fileno(), LIMITS[JOURNAL])
        except OSError:
            file.close()
            raise
    return file


def _locked(folder: Path) -> io.FileIO:
    """The folder's journal, locked against other runs until this process ends.

    Nothing in the folder changes, except that an empty journal is created where there is none. Raises PackageError if
    another run holds the lock for longer than `PATIENCE`; a fork of a run that ended may hold it for a moment.
    """
    path, end = folder / JOURNAL, time.monotonic() + PATIENCE
    while True:
        file = _opened(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            if time.monotonic() < end:
                time.sleep(PATIENCE / 20)
                continue
            raise PackageError(
                f"{folder}: another run is writing into it; expected another --out DIR, or that it has ended"
            ) from None
        except OSError:  # a file system without locks, where nobody can tell
            return file
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                _OPEN.add(file)
                return file
        file.close()  # the run that had it removed it at its end


# ------------------------------------------------------------------------------------ what is left


def _header(identity: Identity) -> str:
    return json.dumps({"run": dict(identity)}, sort_keys=True)


def _left(
    folder: Path, file: io.FileIO, identity: Identity, cases: Sequence[Case], level: str
) -> tuple[tuple[CaseResult, ...], int]:
    """The results of an interrupted run, and how many bytes of its journal are whole lines."""
    path = folder / JOURNAL
    data = file.readall()
    if not data:
        if (folder / CERTIFICATE).is_file():
            path.unlink()
            raise PackageError(f"{folder}: --resume: the run in it has ended; leave out --resume to run again")
        return (), 0
    keep = data.rfind(b"\n") + 1  # what follows was being written when the run ended
    try:
        header, *lines = data[:keep].decode().split("\n")[:-1] if keep else [_header(identity)]
    except UnicodeDecodeError as error:
        raise PackageError(f"{path}: not UTF-8 text at byte {error.start}; {_AGAIN}") from error
    _check_same(path, header, identity)
    return _finished(path, lines, cases, level), keep


_AGAIN = "leave out --resume to start from the beginning"


def _check_same(path: Path, header: str, identity: Identity) -> None:
    """Raise PackageError for the journal of another run; the message says in what they differ."""
    try:
        data = json.loads(header)
        found = data["run"]
        known = {str(key): str(value) for key, value in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PackageError(f"{path}: its first line does not say which run it is of; {_AGAIN}") from error
    for key in sorted(known.keys() | identity.keys()):
        if known.get(key) != identity.get(key):
            found, expected = (run.get(key, "nothing") for run in (known, identity))
            raise PackageError(f"{path}: --resume: of another run: {key}: found {found}, expected {expected}; {_AGAIN}")


def _finished(path: Path, lines: Sequence[str], cases: Sequence[Case], level: str) -> tuple[CaseResult, ...]:
    """The results in a journal. Raises PackageError unless each is there once, as a run writes it."""
    by_name = {case.id: case for case in cases}
    results = dict[str, CaseResult]()
    for number, line in enumerate(lines, 2):
        try:
            result = from_line(line)
        except ResultError as error:
            raise PackageError(f"{path} line {number}: {error}; {_AGAIN}") from error
        case = by_name.get(result.case)
        problem = "no such case was selected" if case is None else result_problem(result, case, level=level)
        if result.case in results:
            problem = "the case stands there twice"
        if problem is not None:
            raise PackageError(f"{path} line {number}: {result.case}: {problem}; {_AGAIN}")
        results[result.case] = result
    return tuple(results.values())
