"""What is asked of a program file, and the shape of what is told of it: no more, so that both processes share it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from npu_assay.conformance.isolation.limits import LIMITS, Limits

Summary = dict[str, Any]

_CALLS: Final = [{"operator": str, "calls": int}]
_METHOD: Final = {
    "name": str,
    "inputs": [str],
    "outputs": [str],
    "instructions": int,
    "operators": _CALLS,
    "delegates": [{"backend": str, "bytes": int, "calls": int, "compile_specs": [str], "operators": (_CALLS, None)}],
    "memory": {
        "arenas": [{"id": int, "bytes": int}],
        "arena_bytes": int,
        "planned_tensors": int,
        "bytes_without_reuse": int,
        "reuse_ratio": (float, None),
    },
}
SUMMARY: Final = {
    "file": str,
    "bytes": int,
    "flatbuffer_bytes": int,
    "segments": [{"content": str, "bytes": int}],
    "methods": [_METHOD],
}
"""What a summary holds, as `check_shape` takes it."""


@dataclass(frozen=True)
class Request:
    """What `assay run` was asked for. inputs: files of arrays; seed: of random inputs, None for none.

    force: write over a file that is there. backends: specs of those whose delegates run, besides the installed ones.
    """

    model: Path
    inputs: tuple[Path, ...]
    method: str
    seed: int | None
    out: Path | None
    force: bool = False
    backends: tuple[str, ...] = ()
    limits: Limits = LIMITS
