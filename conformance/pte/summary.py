"""`assay inspect`: what a `.pte` file holds, told by a process of its own and checked here."""

from __future__ import annotations

import json
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.shapes import check_shape
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.isolation.sandbox import Work, confined
from npu_assay.conformance.pte.options import SUMMARY, Summary


def summary_of(path: Path, backends: tuple[str, ...], limits: Limits) -> Summary:
    """Everything about a model; `backends`, besides installed ones, read the delegates' blobs. Raises UsageError."""

    def prepare() -> Work:
        from npu_assay.conformance.backend.loading import by_delegate  # loads torch
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
