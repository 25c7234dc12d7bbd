"""The cases as pytest tests: a case per test, and the tags of each operator as a reviewable snapshot.

Load it with `pytest_plugins = ["conformance.plugin"]`; it needs syrupy. A test that takes the fixture
`assay_case` runs for every case, one that takes `assay_row` for every operator of the table. The
backend comes from `--assay-backend` or the ini option `assay_backend`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from conformance.graph import Case
from conformance.table import Row, Table, load_table

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation
    from syrupy.types import SnapshotIndex

    from conformance.tagging import Tagging
    from partitioners.exir import Backend

FOLDER = "golden"
TEST = "test_tags"  # the test, parametrised with `assay_row`, that owns the snapshots


@dataclass(frozen=True)
class Target:
    """The backend under test, its table, and the table's cases in order."""

    backend: Backend
    table: Table
    cases: tuple[Case, ...]

    def of(self, row: Row) -> tuple[Case, ...]:
        """The cases of one row."""
        return tuple(case for case in self.cases if case.row == row.name)

    @property
    def folder(self) -> str:
        """Where the table's snapshots are, from the root folder."""
        return f"{FOLDER}/{self.table.name}@{self.table.version}"


TARGET = pytest.StashKey[Target]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay")
    group.addoption("--assay-backend", metavar="BACKEND", help="an installed backend, or module:attribute")
    group.addoption("--assay-table", metavar="TABLE", help="a table's name or file, else the backend's own")
    parser.addini("assay_backend", "the backend that the cases run against")


def target(config: pytest.Config) -> Target:
    """The backend that the options name, loaded once. Raises pytest.UsageError when there is none."""
    if TARGET not in config.stash:
        config.stash[TARGET] = _load(config)
    return config.stash[TARGET]


def _load(config: pytest.Config) -> Target:
    import torch

    from conformance.backends import BackendSpecError, load_backend
    from conformance.selection import all_cases

    torch.set_num_threads(1)
    try:
        backend = load_backend(config.getoption("--assay-backend") or config.getini("assay_backend"))
        table = load_table(config.getoption("--assay-table") or backend.table)
        return Target(backend, table, all_cases(table))
    except (BackendSpecError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "assay_case" in metafunc.fixturenames:
        cases = target(metafunc.config).cases
        metafunc.parametrize("assay_case", cases, ids=[case.id for case in cases])
    if "assay_row" in metafunc.fixturenames:
        rows = target(metafunc.config).table.rows
        metafunc.parametrize("assay_row", rows, ids=[row.name for row in rows])


@pytest.fixture(scope="session")
def assay_target(pytestconfig: pytest.Config) -> Target:
    """The backend under test with its table and cases."""
    return target(pytestconfig)


class TagSnapshot(SingleFileSnapshotExtension):
    """One text file per operator: golden/<table>/<operator>.txt, owned by the test `TEST`."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        config = test_location.item.config
        return str(Path(config.rootpath) / target(config).folder)

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """The operator: what the test is parametrised with."""
        return test_location.item.name.removeprefix(f"{TEST}[").removesuffix("]")

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        """The one snapshot of a file, under the name of the test that owns it."""
        collection = SnapshotCollection(location=snapshot_location)
        collection.add(Snapshot(name=f"{TEST}[{Path(snapshot_location).stem}]"))
        return collection

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """A file belongs to the test that is parametrised with its name."""
        path = Path(snapshot_location)
        here = str(path.parent) == cls.dirname(test_location=test_location)
        return here and test_location.item.name == f"{TEST}[{path.stem}]"


@pytest.fixture
def tag_snapshot(snapshot: Any) -> Any:
    """Compares an operator's tags with its file: `tags_text(...) == tag_snapshot`."""
    return snapshot.use_extension(TagSnapshot)


def tags_text(taggings: Iterable[tuple[Case, Tagging]]) -> str:
    """One line per case: its id without the row, the verdict, the reasons with what was found."""
    return "".join(f"{_short(case)}: {_answer(case, tagging)}\n" for case, tagging in taggings)


def _short(case: Case) -> str:
    return case.id.removeprefix(f"{case.row}/")


def _answer(case: Case, tagging: Tagging) -> str:
    reasons = ", ".join(f"{reason.code} ({reason.found})" for reason in tagging.reasons or ())
    silent = " [the table is silent]" if case.expect == "unspecified" else ""
    return f"{tagging.verdict}{' ' if reasons else ''}{reasons}{silent}"
