"""The cases as pytest tests: a case per test, and the tags of each operator as a reviewable snapshot.

Load it with `pytest_plugins = ["npu_assay.conformance.plugin"]`; it needs syrupy. A test that takes the argument
`assay_target` runs for every backend; one that takes `assay_case`, too, for each of its cases, one that
takes `assay_row` for each operator of its table. The backends are those of the ini option `assay_backends`,
or the one of `--assay-backend`. With `--smoke` there are the cases of `assay certify --smoke`, and no operators; with
`--assay-sample N`, N random cases of each backend and as large a share of its operators.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from syrupy.data import Snapshot, SnapshotCollection, SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from npu_assay.conformance.common.memory import many_records
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.selection import smoke
from npu_assay.conformance.table import Row, Table, load_table

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation
    from syrupy.types import SnapshotIndex

    from npu_assay.conformance.run.tagging import Tagging
    from npu_assay.partitioners.exir import Backend

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
    def rows(self) -> tuple[Row, ...]:
        """The rows that have cases."""
        return tuple(row for row in self.table.every_row if row in self.table.rows or row.precisions)

    @property
    def name(self) -> str:
        """The table's name and version: the first part of the names of tests."""
        return self.table.title

    @property
    def folder(self) -> str:
        """Where the table's snapshots are, from the root folder."""
        return f"{FOLDER}/{self.name}"


T = TypeVar("T")
TARGETS = pytest.StashKey[tuple[Target, ...]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay")
    group.addoption("--assay-backend", metavar="BACKEND", help="an installed backend, or module:attribute")
    group.addoption("--assay-table", metavar="TABLE", help="a table's name or file, else the backend's own")
    group.addoption("--smoke", action="store_true", help="a first look: a few cases of each operator and constraint")
    group.addoption("--assay-sample", metavar="N", type=int, help="N random cases of each backend")
    group.addoption("--assay-sample-seed", metavar="SEED", type=int, default=0, help="of the random cases; else 0")
    parser.addini("assay_backends", "the backends that the cases run against", type="linelist")


def targets(config: pytest.Config) -> tuple[Target, ...]:
    """The backends that the options name, loaded once. Raises pytest.UsageError for one that does not load."""
    if TARGETS not in config.stash:
        named = config.getoption("--assay-backend")
        backends = [named] if named else config.getini("assay_backends")
        config.stash[TARGETS] = tuple(_load(each, config.getoption("--assay-table")) for each in backends)
    return config.stash[TARGETS]


def _load(spec: str, named: str | None) -> Target:
    import torch  # slow to load

    from npu_assay.conformance.backend.loading import BackendSpecError, load_backend
    from npu_assay.conformance.isolation.imports import unchanged
    from npu_assay.conformance.run.selection import all_cases

    torch.set_num_threads(1)
    try:
        with unchanged(spec):
            backend = load_backend(spec)
        table = load_table(named or backend.table)
        return Target(backend, table, all_cases(table))
    except (BackendSpecError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "assay_target" not in metafunc.fixturenames:
        return
    chosen = targets(metafunc.config)
    if "assay_case" in metafunc.fixturenames:
        pick = smoke if metafunc.config.getoption("--smoke") else tuple
        cases = [(each, case) for each in chosen for case in _sample(metafunc.config, each, pick(each.cases))]
        _parametrize(metafunc, "assay_case", [(each, case, case.id) for each, case in cases])
    elif "assay_row" in metafunc.fixturenames:
        rows = [(each, row) for each in chosen for row in _sample(metafunc.config, each, each.rows)]
        _parametrize(metafunc, "assay_row", [(each, row, row.name) for each, row in rows])
    else:
        metafunc.parametrize("assay_target", chosen, ids=[each.name for each in chosen])


def _sample(config: pytest.Config, target: Target, items: Sequence[T]) -> Sequence[T]:
    """In order, the share of `items` that `--assay-sample` is of the backend's cases: all of them without it."""
    most = config.getoption("--assay-sample")
    if most is None or most >= len(target.cases):
        return items
    count = math.ceil(len(items) * most / len(target.cases))
    drawn = random.Random(f"{config.getoption('--assay-sample-seed')} {target.name}").sample(range(len(items)), count)
    return [items[index] for index in sorted(drawn)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    with many_records():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--smoke"):
        rows = [item for item in items if "assay_row" in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in rows]
        config.hook.pytest_deselected(items=rows)


def _parametrize(metafunc: pytest.Metafunc, name: str, parts: Sequence[tuple[Target, Any, str]]) -> None:
    pairs = [(target, item) for target, item, _ in parts]
    metafunc.parametrize(("assay_target", name), pairs, ids=[f"{target.name}/{label}" for target, _, label in parts])


class TagSnapshot(SingleFileSnapshotExtension):
    """One text file per operator: golden/<table>/<operator>.txt, owned by the test `TEST`."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(Path(test_location.item.config.rootpath) / FOLDER / _parameter(test_location).partition("/")[0])

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """The operator, after the table in what the test is parametrised with."""
        return _parameter(test_location).partition("/")[2]

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        """The test that owns the file, in full: syrupy's own name lacks the slash, and no file is called that."""
        return test_location.item.name

    def discover_snapshots(
        self, *, test_location: PyTestLocation, ignore_extensions: list[str] | None = None
    ) -> SnapshotCollections:
        """Snapshots alone: other files of a folder, which syrupy would count as unused and delete, are left alone."""
        kept = SnapshotCollections()
        for found in super().discover_snapshots(test_location=test_location, ignore_extensions=ignore_extensions):
            if self.is_snapshot_location(location=found.location):
                kept.add(found)
        return kept

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        """The one snapshot of a file, under the name of the test that owns it."""
        collection = SnapshotCollection(location=snapshot_location)
        collection.add(Snapshot(name=_test_of(Path(snapshot_location))))
        return collection

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """A file belongs to the test that is parametrised with its name."""
        return test_location.item.name == _test_of(Path(snapshot_location))


def _parameter(test_location: PyTestLocation) -> str:
    """Table and operator, as in the name of a test."""
    return test_location.item.name.removeprefix(f"{TEST}[").removesuffix("]")


def _test_of(path: Path) -> str:
    """The test that owns a file."""
    return f"{TEST}[{path.parent.name}/{path.stem}]"


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
