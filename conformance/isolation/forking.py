"""Forks this process for one action."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress


def fork(action: Callable[[], object]) -> int:
    """Run an action in a fork of this process, which then ends; returns the fork's process id."""
    with warnings.catch_warnings():  # Python 3.12 warns when there are threads; the copy uses nothing of theirs
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        return process
    code = 1
    try:
        action()
        code = 0
    finally:
        os._exit(code)


def close_files(but: Collection[int]) -> None:
    """Close all files that a fork inherited, except stdin, stdout, stderr and those of `but`."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:  # where the system does not tell, every number is tried
        numbers = list(range(os.sysconf("SC_OPEN_MAX")))
    for number in numbers:
        if number > 2 and number not in but:
            with suppress(OSError):  # of a number that is no file, or was that of the list
                os.close(number)
