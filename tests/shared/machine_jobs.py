"""What the child process of `test_adapters` runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import numpy as np


def job(blob: bytes, inputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Adds 1 to the inputs; the blob says how it goes wrong."""
    if blob == b"die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if blob == b"hang":
        time.sleep(60)
    if blob == b"refuse":
        os.write(2, b"E 00:00:01.234567 executorch:Thing.cpp:12] tensor at 0x7f00aa55 is wrong\n")
        raise RuntimeError("error 0x12")
    print("noise")
    return [x + 1 for x in inputs]
