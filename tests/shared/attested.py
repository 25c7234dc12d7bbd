"""Fixtures: a key, a run, and the run signed with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attesting import made_key
from calling import call

from tests.conformance.record.test_package import run


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return made_key(tmp_path_factory.mktemp("keys"), "ours")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "out"
    run(folder)
    return folder


@pytest.fixture(scope="module")
def signed(plain: Path, keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed") / "out"
    shutil.copytree(plain, folder)
    found = call("attest", folder, "--key", keys[0])
    assert found.exit_code == 0 and found.output.endswith("\ncertified\n"), found.output
    return folder
