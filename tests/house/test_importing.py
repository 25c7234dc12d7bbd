"""Which module a name means: the installed one, whatever folder of that name stands in the current directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from environments import Environment

PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "some_npu"
version = "1"

[tool.setuptools]
packages = ["some_npu"]
"""
# As the command is started: without the current directory on the path.
NAIVE = (
    "from importlib import import_module; import sys; sys.path.append('.'); print(import_module('some_npu').__file__)"
)
IMPORTED = """
import sys
from npu_assay.conformance.backend.importing import import_regular

import_regular("some_npu")
import_regular("helper")
print(sys.modules["some_npu"].WHERE if "some_npu" in sys.modules else "none", "helper" in sys.modules)
"""
SHOW = ("assay", "show", "some_npu:backend", "aten.abs.default")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder of a project that has the name of its package, in a current directory with a module."""
    package = tmp_path / "work" / "some_npu" / "some_npu"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("WHERE = 'the project'\n")
    (package.parent / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "work" / "helper.py").touch()
    return tmp_path / "work"


def test_an_editable_package_comes_before_the_folder_of_its_project(work: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install("-e", "some_npu", cwd=work)
    naive = environment.run("python", "-P", "-c", NAIVE, cwd=work)
    assert naive.stdout == "None\n", naive.stderr  # the folder, which is why the function is there
    assert environment.run("python", "-P", "-c", IMPORTED, cwd=work).stdout == "the project True\n"
    assert environment.run("python", "-c", IMPORTED, cwd=work).stdout == "the project True\n"  # the folder comes first
    found = environment.run(*SHOW, cwd=work)
    assert found.returncode == 2
    assert found.stderr == "assay: backend 'some_npu:backend': its module has no 'backend'; known: WHERE\n"


def test_what_a_backend_needs_and_a_release_lacks_is_named(tmp_path: Path) -> None:
    """`__getattr__` of a module may make a backend; that it fails does not mean that there is none."""
    make = "def __dir__():\n    return ['backend']\ndef __getattr__(name):\n    return str.copied_for_a_delegate\n"
    (tmp_path / "some_npu.py").write_text(make)
    found = Environment(tmp_path / "environment").run(*SHOW, cwd=tmp_path)
    assert found.returncode == 2
    assert "AttributeError: type object 'str' has no attribute 'copied_for_a_delegate'" in found.stderr


def test_an_installed_package_comes_before_a_module_of_its_name(work: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install("-e", "some_npu", cwd=work)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "some_npu.py").write_text("WHERE = 'the current directory'\n")
    assert environment.run("python", "-P", "-c", IMPORTED, cwd=elsewhere).stdout == "the project False\n"


def test_a_folder_that_is_not_installed_is_one_error_that_says_so(work: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    assert environment.run("python", "-P", "-c", IMPORTED, cwd=work).stdout == "none True\n"
    found = environment.run(*SHOW, cwd=work)
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    assert "its module has no 'backend'" in found.stderr
    assert f"it is the folder {work / 'some_npu'} without __init__.py" in found.stderr
    assert "pip install -e" in found.stderr


def test_a_module_imports_its_neighbors(tmp_path: Path) -> None:
    """What is found in the current directory leaves that on the path."""
    environment = Environment(tmp_path / "environment")
    (tmp_path / "helper.py").touch()
    (tmp_path / "some_npu.py").write_text("import helper\nWHERE = 'the current directory'\n")
    found = environment.run("python", "-P", "-c", IMPORTED, cwd=tmp_path)
    assert found.stdout == "the current directory True\n", found.stderr
