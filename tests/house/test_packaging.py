"""What is shipped and installed: built by the real build backend, installed by the real pip, without network."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from environments import Environment, copy_checkout
from places import ROOT

import npu_assay

FOLDERS = ("conformance", "faults", "partitioners", "reference")
WRITTEN = {"PKG-INFO", "setup.cfg"}  # into every source distribution
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


@dataclass(frozen=True)
class Built:
    """A copy of the checkout, the source distribution made in it, and a wheel made from that one by pip."""

    source: Path
    sdist: Path
    wheel: Path

    @cached_property
    def unpacked(self) -> Path:
        """The source distribution's folder."""
        with tarfile.open(self.sdist) as archive:
            archive.extractall(self.sdist.parent, filter="data")
        return self.sdist.with_name(self.sdist.name.removesuffix(".tar.gz"))

    def metadata(self) -> str:
        """What the wheel says of itself, the description at its end."""
        with zipfile.ZipFile(self.wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return archive.read(name).decode()


def copied(target: Path) -> Path:
    """The checkout, and in it what an older build left."""
    copy_checkout(target)
    for stale in ("build/lib/conformance/__init__.py", "build/lib/npu_assay/conformance/gone.py"):
        (target / stale).parent.mkdir(parents=True, exist_ok=True)
        (target / stale).touch()
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    source = copied(folder / "source")
    subprocess.run([sys.executable, "-c", SDIST, str(folder)], cwd=source, check=True, capture_output=True)
    sdist = folder / f"npu_assay-{npu_assay.__version__}.tar.gz"
    return Built(source, sdist, wheel_of(sdist, folder / "wheel"))


def wheel_of(project: Path, target: Path) -> Path:
    """The wheel of a folder or a source distribution, whose build has nothing to warn of."""
    arguments = ["wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", str(target), str(project)]
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], check=True, capture_output=True, text=True)
    assert "arning" not in done.stdout + done.stderr, done.stdout + done.stderr
    return next(target.glob("*.whl"))


def files(folder: Path) -> set[str]:
    """The paths of the files in a folder that are not what Python leaves there."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


# ------------------------------------------------------------------------------------ what is shipped


@pytest.mark.long
def test_the_source_distribution_is_the_checkout(built: Built) -> None:
    """Goldens, docs, tests, pinned versions: the README's commands work in it."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
        expected = {name for name in listed if (ROOT / name).exists()}
    else:
        expected = {*files(built.source)}
    with tarfile.open(built.sdist) as archive:
        members = {member.name.partition("/")[2]: member for member in archive if not member.isdir()}
    found = {name for name in members if ".egg-info/" not in name and name not in WRITTEN}
    assert (sorted(expected - found), sorted(found - expected)) == ([], [])
    assert all(members[f"npu_assay/{folder}"].linkname == f"../{folder}" for folder in FOLDERS)


@pytest.mark.long
@pytest.mark.parametrize("origin", ["source", "sdist"])
def test_the_wheel_holds_the_folders_and_nothing_older(origin: str, built: Built, tmp_path: Path) -> None:
    wheel = built.wheel if origin == "sdist" else wheel_of(built.source, tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    top = {path.name for path in (ROOT / "npu_assay").iterdir() if path.is_file()}
    inside = {f"{folder}/{name}" for folder in FOLDERS for name in files(ROOT / folder)}
    assert names == {f"npu_assay/{name}" for name in top | inside}
    assert {"npu_assay/py.typed", "npu_assay/conformance/tables/neutron@1.3.toml"} <= names


def test_the_index_shows_no_dead_link(built: Built) -> None:
    """There, the description stands alone: files of the source distribution have names, no links."""
    header, _, description = built.metadata().partition("\n\n")
    assert "Description-Content-Type: text/markdown" in header
    assert description.startswith("# npu-assay\n") and "`docs/many-machines.md`" in description
    targets = re.findall(r"\]\(([^)]*)\)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)=\"([^\"]*)\"", description, re.MULTILINE)
    assert [target for target in targets if not "".join(target).startswith("https://")] == []
    named = set(re.findall(r"`((?:docs|examples)/[^`]*)`", description))
    assert named and all((ROOT / name).exists() for name in named)


# ------------------------------------------------------------------------------------ what is installed


def checked(environment: Environment, origin: Path, folder: Path) -> None:
    """The command runs there, from `origin`, and by both of its names."""
    where = environment.run("python", "-P", "-c", "import npu_assay as a; print(a.__file__)", cwd=folder)
    assert Path(where.stdout.strip()) == origin / "npu_assay/__init__.py", where.stderr
    listed = environment.run("assay", "list", cwd=folder)
    assert listed.returncode == 0 and "neutron@1.3" in listed.stdout, listed.stderr
    assert environment.run("python", "-m", "npu_assay", "list", cwd=folder).stdout == listed.stdout
    done = environment.run("assay", "certify", "neutron", "-k", "aten.abs.default/operator", "-n", "1", cwd=folder)
    assert " 0 fail" in done.stdout, done.stdout + done.stderr
    assert environment.run("assay", "new", "my_npu", cwd=folder).returncode == 0


@pytest.mark.long
def test_installing_puts_one_name_there(built: Built, tmp_path: Path) -> None:
    """Started where a folder has the package's name, which is nobody's business."""
    environment = Environment(tmp_path / "environment")
    environment.install(built.wheel, cwd=tmp_path)
    assert environment.names() == {"npu_assay"}
    (tmp_path / "work" / "npu_assay").mkdir(parents=True)
    checked(environment, environment.site, tmp_path / "work")
    nothing = environment.run("python", "-c", "import conformance", cwd=tmp_path)
    assert "ModuleNotFoundError: No module named 'conformance'" in nothing.stderr


@pytest.mark.slow
def test_the_source_distribution_works_as_the_checkout_does(built: Built, tmp_path: Path) -> None:
    """Installed in place: the command, the linter of imports through the links, and the tests."""
    environment, work = Environment(tmp_path / "environment"), tmp_path / "work"
    environment.install("-e", built.unpacked, cwd=tmp_path)
    assert not {"conformance", "faults", "reference", "partitioners"} & environment.names()
    work.mkdir()
    checked(environment, built.unpacked, work)
    tests = ["tests/house/test_architecture.py", "tests/conformance/table/test_table.py"]
    done = environment.run("pytest", "-q", "-n", "0", *tests, cwd=built.unpacked)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_source_distribution_is_installed_by_pip(built: Built, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(built.sdist, cwd=tmp_path)
    assert environment.names() == {"npu_assay"}
    assert environment.run("assay", "list", cwd=tmp_path).returncode == 0


# ------------------------------------------------------------------------------------ one copy of every module


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_the_checkout_is_no_package_of_its_own(folder: str) -> None:
    """In the checkout, Python would find it; a second copy of its classes would not be the first one's."""
    found = subprocess.run([sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True)
    expected = f"ImportError: module {folder}: expected npu_assay.{folder}, of which this is the folder\n"
    assert found.stderr.endswith(expected)


def test_a_backend_by_its_old_name_is_one_error() -> None:
    command = [sys.executable, "-P", "-m", "npu_assay", "show", "partitioners.neutron:backend", "aten.abs.default"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    assert "expected npu_assay.partitioners" in found.stderr


def test_the_module_of_the_command_can_be_imported() -> None:
    command = [sys.executable, "-c", "import npu_assay.__main__; print('imported')"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout == "imported\n"


# ------------------------------------------------------------------------------------ an extra that is missing

WITHOUT = """
from importlib import import_module
from npu_assay.conformance.backend.loading import load_backend, registered

quantizers = {"neutron": "NeutronQuantizer", "xnnpack": "XnnpackQuantizer", "ethosu": "EthosUQuantizer"}
asked = [load_backend(name).quantizer for name in registered()]
asked += [lambda v=vendor, n=name: getattr(import_module(f"npu_assay.partitioners.{v}"), n)
          for vendor, name in quantizers.items()]
asked += [lambda v=vendor: import_module(f"npu_assay.partitioners.{v}.quantizer") for vendor in quantizers]
for ask in asked:
    try:
        ask()
    except ModuleNotFoundError as error:
        print(error)
"""


def test_a_quantizer_without_torchao_is_one_error_that_names_the_extra(tmp_path: Path) -> None:
    """However it is asked for, for every vendor; all else works without."""
    environment = Environment(tmp_path / "environment", without="torchao")
    found = environment.run("python", "-c", WITHOUT, cwd=tmp_path)
    said = "a quantizer needs torchao, which is not installed; expected: pip install 'npu-assay[quantize]'"
    assert found.stdout.splitlines() == [said] * 11, found.stderr


BY_NAME = """
from npu_assay.partitioners.ethosu import EthosUQuantizer
from npu_assay.partitioners.neutron import NeutronQuantizer
from npu_assay.partitioners.xnnpack import XnnpackQuantizer

print(*(quantizer.__module__.split(".")[2] for quantizer in (EthosUQuantizer, NeutronQuantizer, XnnpackQuantizer)))
"""


@pytest.mark.long
def test_every_vendor_has_its_quantizer_by_name() -> None:
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", BY_NAME], capture_output=True, text=True)
    assert found.stdout == "ethosu neutron xnnpack\n", found.stderr
