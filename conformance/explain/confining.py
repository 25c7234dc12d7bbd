"""Explaining in processes of their own, one for each backend: whatever a backend does is an answer about it."""

from __future__ import annotations

import gc
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from mmap import mmap
from typing import TYPE_CHECKING, Any

from npu_assay.conformance.backend.loading import load_whole
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.named import names_file
from npu_assay.conformance.explain.progress import Progress, Step, silent
from npu_assay.conformance.explain.record import SCHEMA, Explained, Explanation, nothing
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.isolation.sandbox import Work, confined

if TYPE_CHECKING:
    from npu_assay.conformance.explain.models import Model

PT2E = "torchao.quantization.pt2e.quantize_pt2e"
RARELY = (100_000, 20, 20)  # of gc.set_threshold: export makes many objects that live, and 7 % of the time went there
TOLD, REFUSED, FILE = "told", "refused", "file"


@dataclass(frozen=True)
class Request:
    """What `assay explain` was asked for. calibrate: a file, "random", or None for the model as it is.

    inputs: the same for what the model runs on, None for that which calibrates it, or random numbers. dynamic: quantize
    activations at run time. pte: give the programs' files as well.
    """

    model: str
    backends: tuple[str, ...]
    calibrate: str | None
    limits: Limits
    inputs: str | None = None
    dynamic: bool = False
    pte: bool = False


@dataclass(frozen=True)
class Found:
    """The explanation, and the `.pte` files by backend."""

    explanation: Explanation
    files: dict[str, bytes]


def found(request: Request, workers: int, progress: Progress | None = None) -> Found:
    """The model on each backend, a process for each, so many at a time.

    Raises UsageError for what the user can put right.
    """
    _warm(request)
    with ThreadPoolExecutor(workers) as pool:  # a thread only waits for its backend's process, a copy of this one
        waiting = [
            pool.submit(_answer, request, spec, silent if progress is None else progress.of(spec))
            for spec in request.backends
        ]
        if progress is not None:
            progress.watch(waiting)
        answers = [each.result() for each in waiting]
    refused = next((str(answer[REFUSED]) for answer in answers if REFUSED in answer), None)
    if refused is not None:
        raise UsageError(refused)
    told = tuple(map(_told, request.backends, answers))
    files = {one.backend: b64decode(str(a.get(FILE, ""))) for one, a in zip(told, answers, strict=True)}
    return Found(Explanation(request.model, told), {name: data for name, data in files.items() if data})


def _warm(request: Request) -> None:
    """Load torch, and what quantizes, before a process is made for each backend.

    Where torch is loaded, `confined` keeps its copy to one thread: processes with more slow each other down, and copies
    of those stand still.
    """
    logging.disable(logging.WARNING)  # torchao tells what of it is not built for this machine
    import_module("npu_assay.conformance.explain.explaining")
    if request.calibrate is not None:
        with suppress(ImportError):  # what it says is said where it is needed
            import_module(PT2E)
    logging.disable(logging.NOTSET)


def _told(spec: str, answer: dict[str, Any]) -> Explained:
    try:
        return Explanation.from_json({"schema": SCHEMA, "model": "", "backends": [answer[TOLD]]}).backends[0]
    except (KeyError, ValueError) as error:
        return nothing(spec, f"its process gave no valid answer: {error}")


def _answer(request: Request, spec: str, step: Step) -> dict[str, Any]:
    """One backend's part, or why the question cannot be asked."""
    try:
        work = partial(_explained, request, spec, step)
        answer = json.loads(_confined(request, spec, lambda mark: json.dumps(work(mark)).encode()))
    except _Unreadable as error:
        return {REFUSED: str(error)}
    except (UsageError, ValueError, RecursionError) as error:
        return {TOLD: asdict(nothing(spec, str(error)))}
    return answer if isinstance(answer, dict) else {}


def _explained(request: Request, spec: str, step: Step, mark: mmap) -> dict[str, Any]:
    """In the process: the backend's part as JSON, and its file."""
    step("reading the model")
    gc.freeze()  # torch is not searched for garbage again and again
    gc.set_threshold(*RARELY)
    try:
        from npu_assay.conformance.explain.explaining import How, explained  # loads torch, as what follows does
        from npu_assay.conformance.explain.models import samples_of

        backend, model = load_whole(spec), _model(request, mark)
        samples = None if request.calibrate is None else samples_of(model, request.calibrate)
        inputs = samples if request.inputs is None else samples_of(model, request.inputs)
        model = model if inputs is None else replace(model, inputs=inputs)
        one, file = explained(model, backend, samples, How(request.dynamic), step)
    except UsageError as error:
        return {REFUSED: f"{_source(request, error)}{error}"}
    step("done")
    return {TOLD: asdict(one), FILE: b64encode(file).decode() if request.pte else ""}


def _source(request: Request, error: UsageError) -> str:
    """The file of the sample that an error is about, "" for another error."""
    from npu_assay.conformance.explain.inputs import SampleError  # loads torch

    if not isinstance(error, SampleError):
        return ""
    return f"{request.calibrate if error.calibrates else request.inputs or request.calibrate or 'random inputs'}: "


# ------------------------------------------------------------------------------------ the file of somebody


class _Unreadable(UsageError):
    """A file ended its process, or exceeded the limits, while it was read: that says nothing about a backend."""


def _confined(request: Request, spec: str, work: Callable[[mmap], bytes]) -> bytes:
    """The work's answer. Raises UsageError, and _Unreadable where the process ended while it read the model."""
    with mmap(-1, 1) as mark:  # which this process shares with its copy

        def prepare() -> Work:
            return lambda: work(mark)

        try:
            return confined(prepare, request.limits, spec)
        except UsageError as error:
            if mark[0]:
                raise _Unreadable(f"{request.model}: {str(error).removeprefix(f'{spec}: ')}") from error
            raise


def _model(request: Request, mark: mmap) -> Model:
    """The model; while it is read from a file, that is marked."""
    from npu_assay.conformance.explain.models import load_model  # loads torch

    mark[0] = names_file(request.model)
    try:
        model = load_model(request.model)
    except UsageError:  # it was refused, by a process that goes on
        mark[0] = False
        raise
    mark[0] = False
    return model


# ------------------------------------------------------------------------------------ a part of a model


def reduced(request: Request, what: str, name: str | None) -> tuple[str, tuple[str, ...]]:
    """The script of the smallest part that shows it, "" where there is none, and what is told. Raises UsageError."""
    _warm(request)

    (spec,) = request.backends
    answer = _confined(request, spec, lambda mark: json.dumps(_reduced(request, what, name, mark)).encode())
    found, told = json.loads(answer)
    return str(found), tuple(map(str, told))


def _reduced(request: Request, what: str, name: str | None, mark: mmap) -> tuple[str, tuple[str, ...]]:
    from npu_assay.conformance.explain.explaining import How  # loads torch, as what follows does
    from npu_assay.conformance.explain.models import quantize, samples_of
    from npu_assay.conformance.explain.reducing import reduce

    (spec,) = request.backends
    backend, model = load_whole(spec), _model(request, mark)
    program, quantizer = model.program, None
    if request.calibrate is not None and not model.is_quantized:
        samples, quantizer = samples_of(model, request.calibrate), partial(How(request.dynamic).quantizer, backend)
        program = quantize(model, quantizer(), samples).program
    found = reduce(program, backend, spec, what, name, quantizer=quantizer)
    return found.script, found.told
