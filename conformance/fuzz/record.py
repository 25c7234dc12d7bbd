"""The record of a run's random programs: a file with a line for each.

During the run the file is a journal, in which a block of programs is finished before the next one begins; within a
block the lines are in the order of arrival. At the end they are written in order, so that the file is the same however
many processes there were. Neither is ever held in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npu_assay.conformance.fuzz.names import Name, parse
from npu_assay.conformance.record.folder import writing
from npu_assay.conformance.record.names import FUZZ, FUZZ_JOURNAL, LIMITS, PackageError
from npu_assay.conformance.record.results import CaseResult, from_line, to_line
from npu_assay.files import check_regular, replacing, write_whole

BLOCK = 512  # programs


class Record:
    """The journal of a run's random programs. Raises PackageError for one of another run, or a damaged one."""

    def __init__(self, folder: Path, identity: Mapping[str, str], numbers: range, seed: int) -> None:
        """numbers: of the programs, those of a whole run or of a shard."""
        self._folder, self._path = folder, folder / FUZZ_JOURNAL
        self._numbers, self._seed = numbers, seed
        self._header = json.dumps({"run": dict(identity)}, sort_keys=True)
        self.blocks, self.finished = self._left()

    def left(self) -> int:
        """How many programs are still to be run."""
        return max(0, len(self._numbers) - self.blocks * BLOCK - len(self.finished))

    def _left(self) -> tuple[int, set[int]]:
        """How many blocks are complete, and which programs of the next are there. Removes an incomplete last line."""
        if not self._path.is_file():
            with writing(self._folder):
                write_whole(self._path, f"{self._header}\n".encode())
            return 0, set()
        with writing(self._folder), self._path.open("rb+") as file:
            check_regular(file.fileno(), LIMITS[FUZZ])
            header = file.readline()
            if header.decode("utf-8", "replace") != self._header + "\n":
                raise PackageError(
                    f"{self._path}: found the journal of another run, or a damaged one; leave out --resume to run again"
                )
            blocks, numbers, end = 0, set[int](), file.tell()
            for line in file:
                if not line.endswith(b"\n"):
                    break
                numbers.add(self._number(line.decode("utf-8", "replace").rstrip("\n"), blocks, numbers))
                end += len(line)
                if len(numbers) == len(self._block(blocks)):
                    blocks, numbers = blocks + 1, set()
            file.truncate(end)
        return blocks, numbers

    def _block(self, block: int) -> range:
        """The numbers of a block's programs."""
        return self._numbers[block * BLOCK : (block + 1) * BLOCK]

    def _number(self, line: str, block: int, known: set[int]) -> int:
        try:
            name = parse(from_line(line).case)
        except ValueError as error:
            raise PackageError(f"{self._path}: {error}; leave out --resume to run again") from error
        if name.seed != self._seed or name.trail or name.number not in self._block(block) or name.number in known:
            raise PackageError(f"{self._path}: found {name} in the wrong place; leave out --resume to run again")
        return name.number

    def todo(self) -> Iterator[list[str]]:
        """The programs of each block that are not there yet."""
        for block in range(self.blocks, self._count()):
            yield [str(Name(self._seed, number)) for number in self._block(block) if number not in self.finished]

    def _count(self) -> int:
        """How many blocks there are."""
        return -(-len(self._numbers) // BLOCK)

    def writer(self) -> Any:
        """The journal, open for further lines; each is written at once."""
        return self._path.open("ab", buffering=0)

    def in_order(self) -> Iterator[CaseResult]:
        """All results by number, a block at a time."""
        with self._path.open(encoding="utf-8") as file:
            file.readline()
            for block in range(self._count()):
                lines = (from_line(file.readline().rstrip("\n")) for _ in self._block(block))
                yield from sorted(lines, key=_by_number)


def _by_number(result: CaseResult) -> int:
    return parse(result.case).number


def write_file(folder: Path, lines: Iterator[CaseResult]) -> str:
    """Write fuzz.jsonl under a temporary name and move it into place; returns its digest."""
    digest = hashlib.sha256()
    with writing(folder), replacing(folder / FUZZ) as (draft,), draft.open("wb") as file:
        for result in lines:
            line = f"{to_line(result)}\n".encode()
            digest.update(line)
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
