"""`assay inspect`: what a `.pte` file holds, told by a process of its own and checked here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from npu_assay.conformance.confined import Work, confined
from npu_assay.conformance.errors import UsageError
from npu_assay.conformance.isolation.limits import Limits

Summary = dict[str, Any]

_CALLS: Final = [{"operator": str, "calls": int}]
_METHOD: Final = {
    "name": str,
    "inputs": [str],
    "outputs": [str],
    "instructions": int,
    "operators": _CALLS,
    "delegates": [
        {"backend": str, "bytes": int, "calls": int, "compile_specs": [str], "operators": (_CALLS, type(None))}
    ],
    "memory": {
        "arenas": [{"id": int, "bytes": int}],
        "arena_bytes": int,
        "planned_tensors": int,
        "bytes_without_reuse": int,
        "reuse_ratio": (float, type(None)),
    },
}
SUMMARY: Final = {
    "file": str,
    "bytes": int,
    "flatbuffer_bytes": int,
    "segments": [{"content": str, "bytes": int}],
    "methods": [_METHOD],
}
"""The keys of a summary and the types of their values. A list has items of one form, a tuple the forms allowed."""


def summary_of(path: Path, backends: tuple[str, ...], limits: Limits) -> Summary:
    """Everything about a model; `backends`, besides installed ones, read the delegates' blobs. Raises UsageError."""

    def prepare() -> Work:
        from npu_assay.conformance.backends import by_delegate
        from npu_assay.conformance.inspect_program import inspect

        found = by_delegate(backends)
        return lambda: json.dumps(inspect(path, found)).encode()

    answer = confined(prepare, limits, str(path))
    try:
        summary = json.loads(answer)
    except (ValueError, RecursionError):
        summary = None
    if not _has_form(summary, SUMMARY):
        raise UsageError(f"{path}: its process gave no valid answer")
    return summary  # type: ignore[no-any-return]  # checked


def _has_form(value: Any, form: Any) -> bool:
    match form:
        case tuple():
            return any(_has_form(value, each) for each in form)
        case list():
            return type(value) is list and all(_has_form(each, form[0]) for each in value)
        case dict():
            return (
                type(value) is dict
                and value.keys() == form.keys()
                and all(_has_form(value[key], each) for key, each in form.items())
            )
    return type(value) is form
