"""A copy of this process that does one thing and ends."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable


def fork(action: Callable[[], object]) -> int:
    """Run an action in a copy of this process, which ends with it; returns the copy's process id."""
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
