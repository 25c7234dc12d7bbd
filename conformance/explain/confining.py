"""Explaining in processes of their own, one for each backend: whatever a backend does is an answer about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

from npu_assay.conformance.confined import Work, confined
from npu_assay.conformance.errors import UsageError
from npu_assay.conformance.explain.record import SCHEMA, Explained, Explanation
from npu_assay.conformance.isolation.limits import Limits

REFUSED = "refused"


@dataclass(frozen=True)
class Request:
    """What `assay explain` was asked for. calibrate: a file, "random", or None for the model as it is."""

    model: str
    backends: tuple[str, ...]
    calibrate: str | None
    limits: Limits


def explanation_of(request: Request, workers: int) -> Explanation:
    """The model on each backend, a process for each. Raises UsageError for what the user can put right."""
    count = min(workers, len(request.backends))
    if count < 2:
        _warm(request)
        answers = [_answer(request, backend) for backend in request.backends]
    else:
        with ProcessPoolExecutor(count, get_context("spawn"), _warm, (request,)) as pool:
            answers = list(pool.map(_answer, [request] * len(request.backends), request.backends))
    return Explanation(request.model, tuple(map(_told, request.backends, answers)))


def _warm(request: Request) -> None:
    """Load what every backend needs before a process is made for each."""
    import npu_assay.conformance.explain.explaining

    if request.calibrate is not None:
        with suppress(ImportError):  # what it says is said where it is needed
            import torchao.quantization.pt2e.quantize_pt2e


def _told(spec: str, answer: dict[str, Any]) -> Explained:
    if REFUSED in answer:
        raise UsageError(str(answer[REFUSED]))
    data = {"schema": SCHEMA, "model": "", "backends": [answer]}
    try:
        return Explanation.from_json(data).backends[0]
    except ValueError as error:
        return nothing(spec, f"its process gave no valid answer: {error}")


def nothing(spec: str, error: str) -> Explained:
    """A backend that ended the process that it was asked in."""
    return Explained(spec, False, (), (), (), None, None, (), error)


def _answer(request: Request, spec: str) -> dict[str, Any]:
    """One backend's part, or why the question cannot be asked."""

    def prepare() -> Work:
        return lambda: json.dumps(_explained(request, spec)).encode()

    try:
        answer: dict[str, Any] = json.loads(confined(prepare, request.limits, spec))
        if not isinstance(answer, dict):
            raise ValueError("no object")
    except (UsageError, ValueError, RecursionError) as error:
        return asdict(nothing(spec, str(error)))
    return answer


def _explained(request: Request, spec: str) -> dict[str, Any]:
    """In the process: the backend's part as JSON."""
    try:
        from npu_assay.conformance.backends import load_backend
        from npu_assay.conformance.explain.explaining import explained
        from npu_assay.conformance.explain.models import calibration, load_model

        backend, model = load_backend(spec), load_model(request.model)
        samples = None if request.calibrate is None else calibration(model, request.calibrate)
    except UsageError as error:
        return {REFUSED: str(error)}
    return asdict(explained(model, backend, samples))
