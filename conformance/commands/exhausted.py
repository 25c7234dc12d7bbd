"""Errors of a process that the system, or who started it, gives too little of something: no fault of the suite."""

from __future__ import annotations

import errno
import math
import resource
from collections.abc import Mapping

from npu_assay.conformance.common.describing import message
from npu_assay.conformance.isolation.limits import is_out_of_memory

MEMORY = "memory"
FEW = 64  # files that a run needs to be able to open
LACKING: Mapping[int, str] = {
    errno.ENOMEM: MEMORY,
    errno.EMFILE: "room for open files",
    errno.ENFILE: "room for open files",
    errno.EAGAIN: "room for processes",
    errno.EFBIG: "room for files",
    errno.ENOSPC: "room for files",
    errno.EDQUOT: "room for files",
}
SAID: Mapping[str, str] = {
    "failed to map segment": MEMORY,
    "start new thread": "room for threads",
    "Too many open files": "room for open files",
}
"""What libraries say whose errors have no number."""


def exhausted(error: BaseException | None) -> str | None:
    """Return what the process had too little of, where that ended a command; None for any other error."""
    while error is not None:
        if (found := _lacking(error)) is not None:
            return found
        error = error.__cause__ or error.__context__
    return None


def _lacking(error: BaseException) -> str | None:
    if isinstance(error, OSError) and (found := LACKING.get(error.errno or 0)) is not None:
        return found
    if isinstance(error, OSError) and error.errno == errno.EINVAL and _limit(resource.RLIMIT_NOFILE) < FEW:
        return LACKING[errno.EMFILE]  # so says poll where it is asked about more than may be open
    # Native code that cannot allocate forgets to say why; whoever limits the address space knows.
    nameless = isinstance(error, SystemError | ImportError) and _limit(resource.RLIMIT_AS) < math.inf
    if nameless or is_out_of_memory(error):
        return MEMORY
    return next((lacking for text, lacking in SAID.items() if text in message(error)), None)


def _limit(kind: int) -> float:
    soft, _ = resource.getrlimit(kind)
    return math.inf if soft == resource.RLIM_INFINITY else soft
