"""`assay run`: a method of a `.pte` file runs in a process of its own; its outputs are checked and saved here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.isolation.sandbox import Work, confined
from npu_assay.conformance.pte.options import Request
from npu_assay.conformance.pte.values import Output, decode, saved
from npu_assay.files import replacing


def run(request: Request) -> list[Output]:
    """The outputs, also written to the file that was asked for. Raises UsageError for all that cannot be run."""
    if request.out is not None and os.path.lexists(request.out) and not request.force:
        raise UsageError(f"{request.out}: it exists already, expected a new file (--force writes over it)")

    def prepare() -> Work:
        from npu_assay.conformance.backend.loading import by_delegate  # loads torch
        from npu_assay.conformance.pte.execute import executed

        backends = by_delegate(request.backends)
        return lambda: executed(request, backends)

    answer = confined(prepare, request.limits, str(request.model))
    try:
        outputs = decode(answer)
    except ValueError as error:
        raise UsageError(f"{request.model}: its process gave no valid answer: {error}") from error
    if request.out is not None:
        _save(request.out, outputs)
    return outputs


def _save(path: Path, outputs: Sequence[Output]) -> None:
    """An .npz file of the outputs, whole or not at all."""
    try:
        arrays = dict(saved(outputs))
    except ValueError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error
    with failing(path, "cannot be written"), replacing(path) as (draft,), draft.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes the first of them for a flag


def rows(outputs: Sequence[Output]) -> list[tuple[str, ...]]:
    """Number, type and content of each output, for a table."""
    return [(str(index), _type(each), _content(each.value)) for index, each in enumerate(outputs)]


def _type(output: Output) -> str:
    return f"{output.type}{list(output.value.shape)}" if isinstance(output.value, np.ndarray) else output.type


def _content(value: Any) -> str:
    """The range of a tensor and its first elements."""
    if value is None:
        return "no output"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if not value.size:
        return "no elements"
    flat = value.reshape(-1)
    first = ", ".join(f"{each:.6g}" if isinstance(each, float) else str(each) for each in flat[:4].tolist())
    text = first + (", ..." if flat.size > 4 else "")
    if value.dtype.kind in "bc":
        return text
    return f"{float(flat.min()):.6g} to {float(flat.max()):.6g}: {text}"
