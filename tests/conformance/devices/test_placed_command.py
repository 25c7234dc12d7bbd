"""A certificate states the command of a device, wherever it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_assay.conformance.backend.info import about
from npu_assay.conformance.devices.place import DEVICE, HERE, Place

RECORD = """
from dataclasses import replace
from fake_backend import backend as plain
from npu_assay.conformance.devices.command import Command

backend = replace(plain, runtime=Command("true {folder}"))
"""


@pytest.mark.parametrize(
    ("place", "stated"), [(HERE, "true {folder}"), (Place(device="false {folder}"), "false {folder}")]
)
def test_the_command_is_stated(place: Place, stated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "behind_command.py").write_text(RECORD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert about("behind_command:backend", (), place).tools[DEVICE] == stated
    assert DEVICE not in about("fake_backend:backend", ()).tools
