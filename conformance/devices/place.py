"""Where a backend's programs run, if not where its record says."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass

from npu_assay.conformance.common.errors import UsageError

DEVICE = "device"
"""The name under which a certificate states a command."""


@dataclass(frozen=True)
class Place:
    """Another interpreter (`python`, its path) or a device behind a command (`device`); "" for neither.

    call, case: seconds that a call of the command may take, and one with one case in it. folder: where its files are
    made; "" for the system's own.
    """

    python: str = ""
    device: str = ""
    call: float = 60.0
    case: float = 30.0
    folder: str = ""

    @property
    def told(self) -> dict[str, str]:
        """What a certificate states of it."""
        return {DEVICE: self.device} if self.device else {}

    def check(self) -> None:
        """Raise UsageError for what cannot be started."""
        if self.python and self.device:
            raise UsageError("--device: found --python, too, expected one place where programs run")
        if self.python and shutil.which(self.python) is None:
            raise UsageError(f"--python {self.python}: found no such program, expected an interpreter's path")
        if self.device:
            words_of(self.device)


HERE = Place()
"""Where its record says."""


MANY = ("{folder}", "{manifest}")
ONE = ("{model}", "{inputs}", "{outputs}")
"""What stands in a command for the files of many jobs, and of one."""


def takes_many(command: str) -> bool:
    """Whether one call of a command is for many jobs."""
    return any(name in command for name in MANY)


def words_of(command: str) -> list[str]:
    """The program of a device's command and its arguments. Raises UsageError for an invalid one."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--device {command!r}: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--device {command!r}: found no program {(*words, '')[0]!r}")
    if not takes_many(command) and not all(name in command for name in ("{model}", "{outputs}")):
        expected = "{folder}, or {model}, {inputs} and {outputs}"
        raise UsageError(f"--device {command!r}: expected {expected}, the places of its files")
    return words
