"""Backends that lower the limits of the processes that started theirs: `limiting_backends:no_files`."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hostile_backends import running

from npu_assay.partitioners.exir import Backend


def _above() -> Iterator[int]:
    """The run's processes above this one."""
    process = os.getpid()
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        if process > 1 and b"npu_assay" in Path(f"/proc/{process}/cmdline").read_bytes():
            yield process


def _lowering(kind: int, value: int) -> Backend:
    def lower() -> None:
        for process in _above():
            with suppress(OSError, ValueError):
                resource.prlimit(process, kind, (value, resource.prlimit(process, kind)[1]))

    return running(lower)


few_files = _lowering(resource.RLIMIT_NOFILE, 3)
no_files = _lowering(resource.RLIMIT_NOFILE, 0)
no_writing = _lowering(resource.RLIMIT_FSIZE, 0)
no_space = _lowering(resource.RLIMIT_AS, 2**20)
