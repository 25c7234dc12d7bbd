"""Backends that an outsider writes as a file: what they do later, or to others, does not change what a case showed."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_isolation import PATIENT, failures

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
    assert failures(written, limits=PATIENT) == []
