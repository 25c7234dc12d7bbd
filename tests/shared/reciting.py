"""Backends whose devices ignore their inputs: the compiler finds the question, and keeps what the judge expects.

They recite it for programs of one operator, and are right on all others and where a blob also runs elsewhere. Where
there is nothing to recite they answer zeros. Load one as `reciting:from_the_stack`.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import fake_backend
import torch
from fake_backend import FakeBackend, FakeRuntime
from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import Backend, CompileSpec, PreprocessResult

WHICH = "/value/ramp"
"""The cases that are run: several are the same program until it has inputs."""
SCHEME = "tflite_double_round"
Answers = list[list[int]]
Find = Callable[[], Iterator[Any]]

# ------------------------------------------------------------------------------------ ways to the question


def _on_the_stack() -> Iterator[Any]:
    for innermost in [sys._getframe(), *sys._current_frames().values()]:
        frame: Any = innermost
        while frame is not None:
            yield from list(frame.f_locals.values())
            frame = frame.f_back


def _on_the_heap() -> Iterator[Any]:
    yield from gc.get_objects()


def _from_another_thread() -> Iterator[Any]:
    found = list[Any]()
    thread = threading.Thread(target=lambda: found.extend(_on_the_stack()))
    thread.start()
    thread.join()
    yield from found


def question(find: Find) -> Any:
    """The question that is being answered."""
    return next(each for each in find() if type(each).__name__ == "Question")


# ------------------------------------------------------------------------------------ ways to the answers


def _by_import(asked: Any) -> Answers:
    from npu_assay.conformance.judge.numerics import golden

    return [codes.flatten().tolist() for codes in golden(asked.graph).codes(SCHEME) if codes is not None]


def _from_the_sources(asked: Any) -> Answers:
    """As by import, from whatever stands in the folders of the suite."""
    _find_all()
    return _by_import(asked)


def _find_all() -> None:
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _by_the_suite(asked: Any) -> Answers:
    """Makes the suite's cases, and draws the inputs of the one that is asked about by the suite's own rule."""
    _find_all()
    from npu_assay.conformance.cases import cases_for
    from npu_assay.conformance.programs import seeds
    from npu_assay.conformance.run import drawing
    from npu_assay.conformance.run.question import digest_of_blobs
    from npu_assay.conformance.table import load_table

    graphs = (case.graph for case in cases_for(load_table(fake_backend.TABLE)) if case.id.endswith(WHICH))
    graph = next(each for each in graphs if seeds.opened(each) == seeds.opened(asked.graph))
    drawn = drawing.Drawing(graph)
    drawn(digest_of_blobs([RECITED]))
    return [answer for each in drawn.graphs for answer in _by_import(replace(asked, graph=each))]


def _drawn_early(asked: Any) -> Answers:
    """Asks the judge for the inputs of a blob that is not compiled yet."""
    _find_all()
    from npu_assay.conformance.programs.seeds import filled
    from npu_assay.conformance.run.question import digest_of_blobs

    draw = next(each for each in _on_the_stack() if getattr(getattr(each, "func", None), "__name__", "") == "_drawn")
    graphs = [filled(asked.graph, fills) for fills in draw(digest_of_blobs([RECITED])).runs]
    return [answer for graph in graphs for answer in _by_import(replace(asked, graph=graph))]


# ------------------------------------------------------------------------------------ places for them

RECITED = b'{"recited": []}'
_KEPT: dict[str, Answers] = {}


def _file(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"recited-{name}.json"


def _in_the_blob(answers: Answers) -> bytes:
    return json.dumps({"recited": answers}).encode()


def _in_memory(answers: Answers) -> bytes:
    _KEPT["last"] = answers
    return RECITED


def _in_a_file(answers: Answers) -> bytes:
    blob = json.dumps({"recited": [], "name": hashlib.sha256(repr(answers).encode()).hexdigest()}).encode()
    _file(hashlib.sha256(blob).hexdigest()).write_text(json.dumps(answers))
    return blob


def _kept(blob: bytes) -> Answers:
    found: Answers = json.loads(blob)["recited"]
    file = _file(hashlib.sha256(blob).hexdigest())
    return found or (json.loads(file.read_text()) if file.exists() else _KEPT.get("last", []))


# ------------------------------------------------------------------------------------ the backend


def _is_alone(asked: Any) -> bool:
    return len(asked.graph.steps) == 1 and not asked.elsewhere and not asked.anew


def reciting(find: Find, answers: Callable[[Any], Answers], keep: Callable[[Answers], bytes]) -> Backend:
    """A backend with this way to the question and to its answers, and this place for them."""

    class Recites(FakeBackend):
        @staticmethod
        def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
            asked = question(find)
            if not _is_alone(asked):
                return FakeBackend.preprocess(edge_program, compile_specs)
            try:
                found = answers(asked)
            except (ImportError, StopIteration, ValueError):
                found = []
            return PreprocessResult(keep(found))

    Recites.__name__ = FakeBackend.__name__
    return replace(fake_backend.backend, details=Recites, runtime=_Device())


@dataclass
class _Told:
    """Recites its answers one after another, the first one again after the third."""

    answers: Answers
    runs: int = field(default=0)

    def __call__(self, codes: Tensor) -> Tensor:
        if not self.answers:
            return torch.zeros_like(codes)
        answer = self.answers[self.runs % 3 % len(self.answers)]
        self.runs += 1
        return torch.tensor(answer, dtype=codes.dtype).reshape(codes.shape)


class _Device(FakeRuntime):
    def load(self, processed_bytes: bytes, compile_specs: Any) -> Any:
        if "recited" not in json.loads(processed_bytes):
            return super().load(processed_bytes, compile_specs)
        return _Told(_kept(processed_bytes))


from_the_stack = reciting(_on_the_stack, _by_import, _in_the_blob)
from_the_heap = reciting(_on_the_heap, _from_the_sources, _in_memory)
from_another_thread = reciting(_from_another_thread, _from_the_sources, _in_a_file)
drawn_early = reciting(_on_the_stack, _drawn_early, _in_memory)
from_the_suite = reciting(_on_the_stack, _by_the_suite, _in_memory)
