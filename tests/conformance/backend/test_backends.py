"""Loading a backend: its parts are what they must be, and whatever is wrong is one error that says where."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_backend
import pytest
from calling import call

from npu_assay.conformance.backend.loading import BackendSpecError, load_backend

LONE = "a\ud800"


def loading(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Any:
    module = ModuleType("strange_fields")
    vars(module)["backend"] = replace(fake_backend.backend, **fields)
    monkeypatch.setitem(sys.modules, "strange_fields", module)
    return load_backend("strange_fields:backend")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("table", Path("x.toml"), r"its table is .*Path\('x.toml'\), expected some text"),
        ("table", None, "its table is None, expected some text"),
        ("name", None, "its name is None, expected some text"),
        ("name", 7, "its name is 7, expected some text"),
        ("name", " ", "its name is ' ', expected some text"),
        ("name", LONE, "its name is .*, expected some text"),
        ("processes", "2", "its processes is '2', expected a whole number from 0"),
        ("processes", True, "its processes is True, expected a whole number from 0"),
        ("processes", -1, "its processes is -1, expected a whole number from 0"),
        ("details", object(), "its details is .*, expected a class with preprocess"),
    ],
)
def test_a_field_of_another_kind_is_one_error(
    field: str, value: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loading(monkeypatch).name == "fake"
    with pytest.raises(BackendSpecError, match=f"backend 'strange_fields:backend': {message}"):
        loading(monkeypatch, **{field: value})


def test_a_module_that_ends_the_process_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    for command in (["show", "leaving:b", "aten.neg.default"], ["export", "leaving:b", "cases"]):
        found = call(*command)
        assert found.exit_code == 2
        assert found.output == "assay: backend 'leaving:b': importing leaving ends the process (exit code 0)\n"
