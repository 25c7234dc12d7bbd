"""`assay inspect`: what a `.pte` file holds, told by a process of its own and checked here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from npu_assay.conformance.common.confined import Work, confined
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.shapes import check_shape
from npu_assay.conformance.isolation.limits import Limits

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


def summary_of(path: Path, backends: tuple[str, ...], limits: Limits) -> Summary:
    """Everything about a model; `backends`, besides installed ones, read the delegates' blobs. Raises UsageError."""

    def prepare() -> Work:
        from npu_assay.conformance.backend.loading import by_delegate
        from npu_assay.conformance.pte.contents import inspect

        found = by_delegate(backends)
        return lambda: json.dumps(inspect(path, found)).encode()

    answer = confined(prepare, limits, str(path))
    try:
        summary: Summary = json.loads(answer)
        check_shape(summary, SUMMARY)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: its process gave no valid answer") from error
    return summary
