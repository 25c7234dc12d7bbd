"""Answers of an earlier run are kept where nothing changed that they depend on, asked where it did, and it is said."""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_backend import TABLE

from npu_assay.conformance.cases.limits import LimitError
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.certificate import Certificate, Selection, read_certificate
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.kept import AT_LEAST, Earlier, keep, read_earlier
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.table import TableError, read_table, table_bytes
from npu_assay.conformance.verify.verification import verify

TODAY = datetime.date(2026, 6, 1)
ROWS = ("aten._softmax.default", "aten.max_pool1d.default", "aten.mean.dim", "aten.prelu.default")


class Counted:
    """How many cases were asked besides those that were asked again."""

    asked = 0

    def started(self, cases: int) -> None:
        self.asked = cases

    def finished(self, result: CaseResult) -> None: ...


def run(folder: Path, **changes: Any) -> tuple[Certificate, int]:
    told = Counted()
    assay(replace(Request("fake_backend:backend", None, Selection(), 2, folder), **changes), told, lambda: TODAY)
    return read_certificate((folder / CERTIFICATE).read_text()), told.asked


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record")
    run(folder)
    return folder


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Earlier:
    """A run of some rows of Neutron's table, which have many limits."""
    folder = tmp_path_factory.mktemp("pools")
    expression = " or ".join(ROWS)
    run(folder, backend="neutron", selection=Selection(expression, variations="none"))
    return read_earlier(folder)


def test_of_what_is_as_it_was_a_part_is_asked_again(record: Path, tmp_path: Path) -> None:
    certificate, asked = run(tmp_path / "next", since=record)
    known = certificate.counts["cases"]
    assert certificate.kept is not None and not certificate.kept.why and not asked
    assert (certificate.kept.cases, certificate.kept.again) == (known - AT_LEAST, AT_LEAST)
    assert (tmp_path / "next" / RESULTS).read_bytes() == (record / RESULTS).read_bytes()
    found = verify(tmp_path / "next", TODAY)
    assert found.certified and any(
        f"{known - AT_LEAST} answers are those of the record" in note for note in found.notes
    )


def test_only_what_a_run_asked_itself_is_kept(record: Path, tmp_path: Path) -> None:
    run(tmp_path / "next", since=record)
    with pytest.raises(UsageError, match="found answers that it kept itself"):
        run(tmp_path / "third", since=tmp_path / "next")


def test_a_changed_row_is_asked_and_no_other(record: Path, tmp_path: Path) -> None:
    table = tmp_path / "fake@1.0.toml"
    table.write_text(
        Path(TABLE).read_text().replace('abs.default" = { document = ""', 'abs.default" = { document = "x"')
    )
    certificate, asked = run(tmp_path / "next", since=record, table=str(table))
    assert certificate.kept is not None and not certificate.kept.why
    rows = [
        case.row
        for case in Selection().of(
            read_table(table.read_bytes(), "it"), all_cases(read_table(table.read_bytes(), "it"))
        )
    ]
    assert asked == rows.count("aten.abs.default")
    assert certificate.kept.cases + certificate.kept.again == rows.count("aten.neg.default")


def test_an_edited_record_is_an_error(record: Path, tmp_path: Path) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(record, folder)
    with (folder / RESULTS).open("a") as results:
        results.write("\n")
    with pytest.raises(UsageError, match=r"is not the file that certificate\.json was made of"):
        run(tmp_path / "next", since=folder)
    with pytest.raises(UsageError, match="found the folder of this run"):
        run(record, since=record)
    with pytest.raises(UsageError, match="expected one of both"):
        run(tmp_path / "next", since=record, resume=True)


def test_nothing_is_kept_where_a_case_answers_otherwise(pools: Earlier) -> None:
    """The sample shows what no digest sees."""
    cases = [case for case in all_cases(pools.table) if case.id in pools.results]
    other = {name: replace(result, verdict="error") for name, result in pools.results.items()}
    found, stated = keep(pools, pools.certificate, pools.table, cases, lambda names: (other[name] for name in names))
    assert stated.cases == 0 and "asked again answer otherwise" in stated.why
    assert all(result is other[name] for name, result in found.items()) and len(found) == stated.again


def leaves(data: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in data.items():
        yield from leaves(value, (*place, key)) if isinstance(value, Mapping) else [(*place, key)]


def changed(data: Mapping[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    head, *rest = place
    inner = changed(data[head], tuple(rest)) if rest else ["vela"] if head == "tools" else "0" * 64
    return {**data, head: inner}


def test_whatever_else_a_record_states_decides(pools: Earlier) -> None:
    """Every file, version and limit; the version of the suite and its name stand for its files."""
    now, cases = pools.certificate, all_cases(pools.table)
    assert pools.answers(now, pools.table, cases)[0]
    others: list[Certificate] = [
        replace(now, **{part: changed(getattr(now, part), place)})  # type: ignore[arg-type]  # names of its fields
        for part in ("suite", "backend", "environment")
        for place in leaves(getattr(now, part))
        if place not in (("name",), ("version",))
    ]
    others += [replace(now, level="runs"), replace(now, selection=replace(now.selection, seed=7))]
    assert len(others) > 50
    for other in others:
        kept, why = pools.answers(other, pools.table, cases)
        assert not kept and "found" in why


def test_every_number_of_a_row_decides_of_its_cases(pools: Earlier) -> None:
    """Each number and source in the rows that were run, and each number that holds for all."""
    text, name = table_bytes("neutron@1.3").decode(), "neutron@1.3.toml"
    lines = [line for line in text.splitlines() if line.startswith(tuple(f'"{row}"' for row in ROWS))]
    planted = 0
    for line in lines:
        row = line.split('"')[1]
        for place in re.finditer(r"\d+(?=[\],]? ?@|, )|@decision", line.partition("constraints")[2]):
            start = line.index("constraints") + len("constraints") + place.start()
            new = "@v1.3.1" if place[0].startswith("@") else str(int(place[0]) + 1)
            edited = text.replace(line, line[:start] + new + line[start + len(place[0]) :])
            try:
                table = read_table(edited.encode(), name)
                cases = all_cases(table)
            except (TableError, LimitError):
                continue
            planted += 1
            kept, why = pools.answers(pools.certificate, table, cases)
            assert not why and {case.partition("/")[0] for case in kept} == {*ROWS} - {row}
            others = {case.id for case in all_cases(pools.table) if case.row in {*ROWS} - {row}}
            assert others & pools.results.keys() == kept.keys()
    assert planted >= 10
    for old, new in (
        ("macs = 8", "macs = 16"),
        ("tflite_double_round", "tosa_single_round"),
        ("static_shape @decision", "static_shape @document"),
    ):
        kept, why = pools.answers(
            pools.certificate, read_table(text.replace(old, new).encode(), name), all_cases(pools.table)
        )
        assert not kept and "says of all its rows" in why
