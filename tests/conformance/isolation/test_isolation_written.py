"""Backends that an outsider writes as a file: what they do later, or to others, does not change what a case showed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.isolation.usage import taken
from tests.conformance.isolation.test_isolation import PATIENT, failures

SHARED = 2**26

SOURCE = """
import {imports}
from dataclasses import replace

import fake_backend


class Runtime(fake_backend.FakeRuntime):
    def load(self, processed_bytes, compile_specs):
        device = super().load(processed_bytes, compile_specs)
        return (lambda codes: act(device, codes)) if b"aten.neg" in processed_bytes else device


backend = replace(fake_backend.backend, runtime=Runtime())
{body}
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The spec of a backend in a file of its own, which is sound on abs; `act(device, codes)` answers for neg."""
    imports, body = request.param
    (tmp_path / "outsider.py").write_text(SOURCE.format(imports=imports, body=body))
    monkeypatch.syspath_prepend(tmp_path)
    return "outsider:backend"


ZEROED_LATER = """
def act(device, codes):
    for thread in threading.enumerate():  # until the answer before this one is zero
        if isinstance(thread, threading.Timer):
            thread.join()
    answer = device(codes)
    threading.Timer(0.3, answer.zero_).start()
    return answer
"""


@pytest.mark.parametrize("written", [("threading", ZEROED_LATER)], indirect=True)
def test_an_output_that_is_written_after_its_return_is_judged_as_it_was_returned(written: str) -> None:
    """That it is written is a failure of its own, and the only one."""
    assert failures(written, limits=PATIENT) == ["mutation: the runtime changed outputs that it had returned before"]


PATCHED = """
def act(device, codes):
    answer = device(codes)
    {}
    return answer
"""
CHECKED = "npu_assay.conformance.run.checked_runtime"
PATCHES = {
    "builtins.sorted": "builtins.sorted = lambda *_, **__: []",
    "math.isfinite": "math.isfinite = lambda number: False",
    "torch.round": "torch.round = lambda x, **_: x + 1",
    "torch.Tensor.clone": "torch.Tensor.clone = lambda x, **_: torch.zeros_like(x)",
    "torch.nn.functional.relu": "del torch.nn.functional.relu",
    "torch.ops.aten.clamp": "torch.ops.aten.clamp = torch.ops.aten.abs",
    "numpy.float32": "numpy.float32 = numpy.float16",
    "npu_assay.conformance.run.answering.answer": "npu_assay.conformance.run.answering.answer = lambda *_: None",
    f"{CHECKED}.same": f"{CHECKED}.same = lambda *_: True",
}
ALL = "builtins, importlib, math, numpy, npu_assay.conformance.run.answering, torch"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "written", [(ALL, PATCHED.format(patch)) for patch in PATCHES.values()], indirect=True, ids=PATCHES
)
def test_a_patch_that_stays_is_a_verdict_of_its_case_alone(written: str, request: pytest.FixtureRequest) -> None:
    """The cases that follow in the same process, too, are judged with what was there before."""
    assert f"state: {request.node.callspec.id} changed" in failures(written, limits=PATIENT)


ADDED = "builtins.outsider = torch.outsider = lambda: None; importlib.import_module('torch.utils.benchmark')"


@pytest.mark.parametrize("written", [(ALL, PATCHED.format(ADDED))], indirect=True)
def test_names_that_were_not_there_before_change_nothing(written: str) -> None:
    assert failures(written, limits=PATIENT) == []


GREEDY = {
    "children": """
def act(device, codes):
    take = "import mmap, time; m = mmap.mmap(-1, 2**28); [m.write(bytes(2**20)) for _ in range(256)]; time.sleep(1000)"
    for _ in range(5):
        subprocess.Popen([sys.executable, "-c", take])
    time.sleep(1000)
""",
    "memfd": """
def act(device, codes):
    file = os.memfd_create("greedy")
    for _ in range(1280):
        os.write(file, bytes(2**20))
    time.sleep(1000)
""",
    "stdout": """
def act(device, codes):
    for _ in range(1280):
        os.write(1, bytes(2**20))
    time.sleep(1000)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "written", [("os, subprocess, sys, time", body) for body in GREEDY.values()], indirect=True, ids=GREEDY
)
def test_memory_is_counted_wherever_a_case_takes_it(written: str) -> None:
    assert failures(written, limits=PATIENT) == ["memory: run: needs more than 256 MiB"]


def test_shares_are_counted_where_whole_pages_are_too_many() -> None:
    """Pages that a fork shares with its parent count twice, and are more than enough; as shares, they are not."""
    pages = bytearray(b"x" * SHARED)
    reading, writing = os.pipe()
    process = fork(lambda: os.read(reading, 1))
    try:
        whole, part = taken(os.getpid(), 0, enough=1 << 40), taken(os.getpid(), 0, enough=0)
        limit = whole - SHARED // 4
        assert part < whole - SHARED // 3 and taken(os.getpid(), 0, enough=limit) < limit
    finally:
        os.write(writing, pages[:1])
        os.waitpid(process, 0)
