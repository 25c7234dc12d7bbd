"""What a backend is made of: the files that its certificate lists, and that must be the same for `--resume`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from environments import Environment
from places import ROOT, SHARED

from npu_assay.conformance.backend.info import backend_sources
from npu_assay.conformance.backend.loading import BackendSpecError, load_backend
from npu_assay.conformance.backend.sources import backend_files
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL

PARTITIONERS = ROOT / "partitioners"
API = "npu_assay/partitioners/__init__.py"  # what imports the suite's API runs this, too


def modules(folder: str) -> set[str]:
    """The modules in a folder of ours beside the export API, as a certificate names them."""
    paths = (PARTITIONERS / folder).rglob("*.py")
    return {f"npu_assay/partitioners/{path.relative_to(PARTITIONERS).as_posix()}" for path in paths}


# ------------------------------------------------------------------------------------ a run that is continued

NPU = """
from dataclasses import replace
from pathlib import Path
import fake_backend
import helper

class Runtime(fake_backend.FakeRuntime):
    def load(self, processed_bytes, compile_specs):
        helper.wait()
        return super().load(processed_bytes, compile_specs)

backend = replace(fake_backend.backend, runtime=Runtime())
"""
HELPER = "import time\n\n\ndef wait():\n    time.sleep(0.05)\n"
EDITS = ("helper.py", "offsets.toml", "weights/first.bin", "libkernels.so.1", "fake_backend.py")


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Files by their path in a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def certify(folder: Path, *more: str) -> subprocess.Popen[str]:
    """`assay certify` of some cases of the project in a folder."""
    command = [sys.executable, "-m", "npu_assay", "certify", "npu:backend", "-k", "aten.abs.default", "-n", "1"]
    return subprocess.Popen(
        [*command, "--out", "out", *more],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_half_way(process: subprocess.Popen[str], journal: Path) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and journal.read_bytes().count(b"\n") > 3:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.01)
    process.communicate()


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of two modules and data beside them, and a run of it that was killed."""
    folder = tmp_path_factory.mktemp("project")
    write(folder, {"npu.py": NPU, "helper.py": HELPER})
    write(folder, dict.fromkeys(EDITS[1:-1], "1"))
    shutil.copytree(SHARED / "data", folder / "data")
    shutil.copy(SHARED / "fake_backend.py", folder)
    kill_half_way(certify(folder), folder / "out" / JOURNAL)
    assert (folder / "out" / JOURNAL).exists() and not (folder / "out" / CERTIFICATE).exists()
    return folder


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EDITS)
def test_a_run_is_not_continued_when_a_file_of_the_backend_has_changed(interrupted: Path, name: str) -> None:
    before = (interrupted / name).read_text()
    (interrupted / name).write_text(f"{before}\n")
    try:
        process = certify(interrupted, "--resume")
        _, error = process.communicate(timeout=300)
    finally:
        (interrupted / name).write_text(before)
    assert process.returncode == 2
    assert f": --resume: of another run: backend's file {name}: found " in error


@pytest.mark.slow
def test_a_run_is_continued_when_other_files_have_changed(interrupted: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(interrupted, tmp_path / "copy")
    write(copy, {"unrelated.py": "x = 1\n", "log.txt": "x", "assay-old/x.json": "{}", ".cache/x.json": "{}"})
    process = certify(copy, "--resume")
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    sources = json.loads((copy / "out" / CERTIFICATE).read_text())["backend"]["sources"]
    tables = {f"data/{path.name}" for path in (SHARED / "data").glob("*.toml")}
    assert set(sources) == {*EDITS, "npu.py", *tables, API, *modules("common")}


# ------------------------------------------------------------------------------------ our own backends


@pytest.mark.parametrize("vendor", ["neutron", "xnnpack", "ethosu"])
def test_a_fault_is_of_the_files_of_its_backend_and_its_own(vendor: str) -> None:
    files = backend_sources(f"npu_assay.partitioners.{vendor}:any")
    faulty = backend_sources(f"npu_assay.faults.{vendor}:any")
    own = {f"npu_assay/faults/{name}.py" for name in (vendor, "blobs", "kernels", "listing", "rules")}
    assert set(faulty) == {*files, *own} and {name: faulty[name] for name in files} == files
    assert set(files) == {*modules(vendor), *modules("common"), API}


def test_an_adapter_is_of_its_own_package() -> None:
    files = backend_files("npu_assay.conformance.adapters.onnxruntime")
    own = "npu_assay/conformance/adapters/onnxruntime"
    assert set(files) == {f"{own}/{name}.py" for name in ("__init__", "cpu", "provider", "qnn_htp")}


# ------------------------------------------------------------------------------------ which modules


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import one", "one.py"),
        ("def f():\n    import one", "one.py"),
        ("try:\n    import absent\nexcept ImportError:\n    import one", "one.py"),
        ("import pack.part", "pack/__init__.py pack/part.py pack/near.py"),
        ("from pack import part", "pack/__init__.py pack/part.py pack/near.py"),
        ("from pack.part import thing", "pack/__init__.py pack/part.py pack/near.py"),
        ("from bare import leaf", "bare/leaf.py one.py"),
        ("import bare.deep.leaf as leaf", "bare/deep/leaf.py one.py"),
        ("import importlib\nm = importlib.import_module('one')", "one.py"),
        (
            "from importlib import import_module as i, import_module\nm = import_module('bare.leaf')",
            "bare/leaf.py one.py",
        ),
        ("m = __import__('one')", "one.py"),
        ("import torch, numpy, os.path, click, xml.dom", ""),
        ("from . import one", ""),
        ("import two", "two.py one.py"),
        ("name = 'one'\nimport importlib\nm = importlib.import_module(name)", ""),  # as the documents say
    ],
)
def test_imports_are_found(project: Path, text: str, found: str) -> None:
    write(project, {"npu.py": text, "one.py": "import two_of_none", "two.py": "import one, npu"})
    write(project, {"pack/__init__.py": "", "pack/part.py": "def f(: no Python", "pack/near.py": "from . import part"})
    write(project, {"bare/leaf.py": "import one", "bare/deep/leaf.py": "from ..leaf import one"})
    expected = {"npu.py", *found.split()} | ({"bare/leaf.py"} if "deep" in found else set())
    assert set(backend_files("npu")) == expected


def test_a_package_counts_whole_from_whichever_module(project: Path) -> None:
    files = {
        "npu/__init__.py": "",
        "npu/one/__init__.py": "",
        "npu/one/backend.py": "from ..two import rules",
        "npu/one/weights/big.bin": "",
        "npu/two/rules.py": "import common",
        "npu/lib/libnpu.so.2": "",
        "npu/any.ending": "",
        "common.py": "",
    }
    write(
        project, {**files, "npu/.git/x.py": "", "npu/__pycache__/x.pyc": "", "npu/venv/pyvenv.cfg": "", "other.py": ""}
    )
    write(project, {"npu/assay-npu/certificate.json": "", f"npu/out/{JOURNAL}": "", "npu/one/backend.py~": ""})
    (project / "npu" / "one" / "circle").symlink_to(project / "npu")
    for module in ("npu", "npu.one.backend", "npu.two.rules"):
        assert set(backend_files(module)) == set(files)
        assert all(file == project / name for name, file in backend_files(module).items())


def test_data_beside_a_module_counts_to_one_folder_below(project: Path) -> None:
    counted = ("npu.py", "table.toml", "weights/a.bin", "weights/lib.so.1", "bare/leaf.py", "bare/leaf.json")
    left = ("notes.md", "weights/log.txt", "weights/deep/b.bin", ".git/a.bin", "venv/a.json", "venv/pyvenv.cfg")
    others = ("out/results.partial.jsonl", "out/a.json", "assay-npu/a.json", "pack/__init__.py", "pack/a.toml")
    write(project, dict.fromkeys((*counted, *left, *others), ""))
    write(project, {"npu.py": "import bare.leaf"})
    assert set(backend_files("npu")) == set(counted)


UNREADABLE = """
import os, sys
from npu_assay.conformance.backend.sources import backend_files
sys.path.append(sys.argv[1])
os.chmod(sys.argv[1], 0o755)
os.chmod(f"{sys.argv[1]}/closed", 0)
if os.geteuid() == 0:  # who may read everything
    os.chown(sys.argv[1], 65534, -1)
    os.seteuid(65534)
print(*backend_files("npu"))
"""


def test_a_folder_that_may_not_be_read_does_not_count() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        write(Path(folder), {"npu.py": "", "closed/a.toml": ""})
        command = [sys.executable, "-c", UNREADABLE, folder]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        Path(folder, "closed").chmod(0o700)
    assert run.stdout.split() == ["npu.py"], run.stderr


def test_a_file_that_cannot_be_read_is_one_error(project: Path) -> None:
    shutil.copy(SHARED / "fake_backend.py", project)
    write(project, {"npu.py": "from fake_backend import backend"})
    (project / "broken.bin").symlink_to("/proc/self/mem")  # it opens, and its first byte cannot be read
    problem = f"^backend 'npu:backend': cannot read {project}/broken.bin, one of its files: Input/output error$"
    with pytest.raises(BackendSpecError, match=problem):
        backend_sources("npu:backend")


def test_files_of_one_path_in_two_folders_both_count(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"npu.py": "import far", "a.toml": "1"})
    far = write(tmp_path / "far", {"far.py": "", "a.toml": "2"})
    monkeypatch.syspath_prepend(str(far))
    found = backend_files("npu")
    assert found["a.toml"] == project / "a.toml" and found["far/a.toml"] == far / "a.toml"


def test_what_was_imported_before_does_not_matter(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(SHARED / "fake_backend.py", project)
    write(project, {"npu.py": "import helper\nfrom fake_backend import backend", "helper.py": "", "bare/leaf.py": ""})
    names = ["npu", "helper", "fake_backend"]
    expected = backend_files("npu")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # of somewhere else
    assert backend_files("npu") == expected
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    load_backend("npu:backend")
    assert backend_files("npu") == expected and set(backend_sources("npu:backend")) == set(expected)


# ------------------------------------------------------------------------------------ installed backends

PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "1"

[tool.setuptools]
packages = {packages}
py-modules = {modules}
package-data = {{ "*" = ["*.toml"] }}
"""
PRINT = (
    "import sys; from npu_assay.conformance.backend.sources import backend_files; print(*backend_files(sys.argv[1]))"
)


@pytest.mark.slow
def test_of_what_is_installed_only_the_backends_own_distribution_counts(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    for name, packages, modules in (("some_npu", ["some_npu", "npu_data"], ["single"]), ("vendor", ["vendor"], [])):
        settings = PROJECT.format(name=name, packages=packages, modules=modules)
        write(
            tmp_path / name, {"pyproject.toml": settings, f"{name}/__init__.py": "import vendor", f"{name}/t.toml": ""}
        )
    write(tmp_path / "some_npu", {"npu_data/__init__.py": "", "single.py": "import vendor, top", "npu_data/d.toml": ""})
    write(tmp_path / "path", {"top.py": "", "outside.py": "import some_npu, vendor"})
    installed = "npu_data/__init__.py npu_data/d.toml single.py some_npu/__init__.py some_npu/t.toml"

    def found(module: str) -> str:
        path = {"PYTHONPATH": str(tmp_path / "path")}
        run = environment.run("python", "-c", PRINT, module, cwd=tmp_path / "environment", variables=path)
        assert run.returncode == 0, run.stderr
        return " ".join(sorted(run.stdout.split()))

    environment.install(tmp_path / "vendor", cwd=tmp_path)
    environment.install(tmp_path / "some_npu", cwd=tmp_path)
    assert found("some_npu") == installed
    assert found("single") == f"{installed} top.py"
    assert found("outside") == "outside.py"
    environment.install("-e", tmp_path / "some_npu", cwd=tmp_path)
    assert found("some_npu") == "some_npu/__init__.py some_npu/t.toml"
    assert found("outside") == "outside.py some_npu/__init__.py some_npu/t.toml"
