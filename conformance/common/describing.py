"""Exceptions in one line that is the same in every process."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def describe(error: BaseException) -> str:
    """An exception in one line: type, message without addresses, and the function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (in {frames[-1].name}, {Path(frames[-1].filename).name})" if frames else ""
    said = without_addresses(" ".join(str(error).split()))
    return f"{type(error).__name__}:{said and f' {said}'}{place}"


def without_addresses(text: str) -> str:
    """A text that is the same in every process."""
    return _ADDRESS.sub("0x...", text)
