"""One record of the shards of a run: the bytes that the whole run would have written, or an error that says why not."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from npu_assay.conformance.backend.environment import suite_sources
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.fuzz.programs import Programs
from npu_assay.conformance.fuzz.record import write_file
from npu_assay.conformance.fuzz.stream import Fuzzed, merged
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import (
    Certificate,
    Kept,
    conclude,
    read_certificate,
)
from npu_assay.conformance.record.folder import results_text, sha256, write_package
from npu_assay.conformance.record.journal import journal
from npu_assay.conformance.record.names import CERTIFICATE, FUZZ, RESULTS, TABLE, Contents
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.results import CaseResult, read_results
from npu_assay.conformance.record.shard import Shard
from npu_assay.conformance.report.data import Report, make_report
from npu_assay.conformance.report.render import reports
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table, read_table
from npu_assay.conformance.verify.verification import changed_sources, verify_contents

HOW = "expected folders or archives of 'assay certify --shard'"


@dataclass(frozen=True)
class Part:
    """One shard as it was read."""

    path: Path
    contents: Contents
    certificate: Certificate

    @property
    def shard(self) -> Shard:
        shard = self.certificate.selection.shard
        assert shard is not None
        return shard


@dataclass(frozen=True)
class Merged:
    """The whole run: what its reports show, its files except the certificate, and its shards."""

    report: Report
    texts: Mapping[str, str]
    parts: tuple[Part, ...]
    programs: Sequence[CaseResult] = ()

    def write(self, folder: Path) -> None:
        """Write the record as a run does: temporary files that are moved into place, the certificate last.

        Raises PackageError for a folder that holds other files, and UsageError for the folder of a shard.
        """
        for part in self.parts:
            if part.path.resolve() == folder.resolve():
                raise UsageError(f"--out {folder}: found one of the shards, expected another folder")
        with journal(folder, {"merged": ", ".join(str(part.path) for part in self.parts)}, ()):
            if self.report.certificate.fuzz is not None:
                write_file(folder, iter(self.programs))
            write_package(folder, self.texts, self.report.certificate)


def merge(paths: Sequence[Path], today: datetime.date) -> Merged:
    """The run that these shards, in any order, make up.

    Its date is that of its latest shard, so the same shards give the same bytes on any day. Raises UsageError for
    shards of different runs, for a missing shard, and for a shard in which `assay verify` finds a problem.
    """
    parts = tuple(map(_read, paths))
    for part in parts[1:]:
        _check_same(part, parts[0])
    _check_whole(parts)
    _check_suite(parts[0])
    _check_programs(parts)
    for part in parts:
        for problem in verify_contents(part.contents, today).problems:
            raise UsageError(f"{part.path}: {problem} (see 'assay verify')")
    return _merged(parts)


def check_table(certificate: Certificate, name: str | None) -> None:
    """Raises UsageError for another table than the certificate's, and TableError if there is no such table."""
    if name is not None and (found := load_table(name).sha256) != certificate.table["sha256"]:
        stated = str(certificate.table["sha256"])
        raise UsageError(f"--table {name}: found sha256 {found[:12]}, expected {stated[:12]} as in the shards")


def _read(path: Path) -> Part:
    contents = read_contents(path)
    try:
        certificate = read_certificate(contents.text(CERTIFICATE))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    if certificate.selection.shard is None:
        raise UsageError(f"{path}: found a run of {str(certificate.selection) or 'all cases'}, {HOW}")
    return Part(path, contents, certificate)


# ------------------------------------------------------------------------------------ do they belong together?


def _stated(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """The names and values of all that must be equal in all shards: everything but dates and results."""
    shard = certificate.selection.shard
    yield "schema", str(certificate.schema)
    yield "table", f"{certificate.table['name']}@{certificate.table['version']}"
    yield "backend", str(certificate.backend["spec"])
    yield "level", certificate.level
    yield "selection", str(certificate.selection.whole) or "all cases"
    yield "seed", str(certificate.selection.seed)
    yield "random programs", "none" if certificate.fuzz is None else f"some of seed {certificate.fuzz.seed}"
    yield "kept answers", "none" if certificate.kept is None else f"of the results {certificate.kept.record}"
    yield "number of shards", "none" if shard is None else str(shard.of)
    yield from _leaves("suite", certificate.suite)
    yield from _leaves("backend", certificate.backend)
    yield from _leaves("table", certificate.table)
    yield from _leaves("environment", certificate.environment)
    yield from _leaves("waivers", {str(number): asdict(waiver) for number, waiver in enumerate(certificate.waivers, 1)})


def _leaves(name: str, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values in nested mappings, each by the names of its keys."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(f"{name}: {key}", value)
        else:
            yield f"{name}: {key}", str(value)


def _check_same(part: Part, first: Part) -> None:
    found, expected = dict(_stated(part.certificate)), dict(_stated(first.certificate))
    for key in [*expected, *(key for key in found if key not in expected)]:
        one, other = (stated.get(key, "nothing") for stated in (found, expected))
        if one != other:
            raise UsageError(f"{part.path}: {key}: found {one:.80}, expected {other:.80} as in {first.path}")


def _check_whole(parts: Sequence[Part]) -> None:
    """Raise UsageError unless every shard is there exactly once."""
    seen: dict[int, Part] = {}
    for part in parts:
        if (twin := seen.get(part.shard.number)) is not None:
            raise UsageError(
                f"{part.path}: found shard {part.shard} again, expected each once; {twin.path} is the same shard"
            )
        seen[part.shard.number] = part
    of = parts[0].shard.of
    if len(seen) < of:
        missing = next(number for number in range(1, of + 1) if number not in seen)
        raise UsageError(
            f"shards: found {len(seen)} of {of}, expected all; the first missing one is {missing}/{of} "
            f"(assay certify ... --shard {missing}/{of})"
        )


def _check_programs(parts: Sequence[Part]) -> None:
    """Raise UsageError unless each shard has its share of all random programs."""
    counts = [0 if part.certificate.fuzz is None else part.certificate.fuzz.programs for part in parts]
    for part, count in zip(parts, counts, strict=True):
        start, step = part.certificate.selection.stride
        expected = len(range(start, sum(counts), step))
        if count != expected:
            raise UsageError(
                f"{part.path}: found {count} random programs, expected {expected} of the {sum(counts)} of all shards "
                "(--fuzz is the same for each)"
            )


def _check_suite(part: Part) -> None:
    """Raise UsageError if this suite, which makes the merged reports, is not the one that ran the shards."""
    if changed := changed_sources(part.certificate, suite_sources()):
        raise UsageError(
            f"{part.path}: {changed[0]}: the file here is not the one of the suite that ran the shards "
            f"({len(changed)} files differ), expected the same suite"
        )


# ------------------------------------------------------------------------------------ one record


def _merged(parts: tuple[Part, ...]) -> Merged:
    """The whole run, with a verdict that follows from the results of all shards."""
    first = parts[0].certificate
    table_text = parts[0].contents.text(TABLE)
    table = read_table(table_text.encode(), TABLE)
    every = all_cases(table)
    selection = first.selection.whole
    cases = selection.of(table, every)
    results = [each for part in parts for each in read_results(part.contents.text(RESULTS), RESULTS).values()]
    results.sort(key=lambda result: result.case)
    made = max(datetime.date.fromisoformat(part.certificate.made) for part in parts)
    known = {case.id for case in every} if first.waivers else ()
    lines, programs = _programs(parts, every)
    fuzz = programs.fuzz if programs else None
    verdict = conclude(results, cases, selection, first.waivers, made, fuzz, known)
    certificate = replace(
        first,
        selection=selection,
        made=made.isoformat(),
        results_sha256=sha256(results_text(results)),
        certified=verdict.certified,
        counts=verdict.counts,
        objections=verdict.objections,
        reports={},
        fuzz=fuzz,
        kept=_kept(parts),
    )
    report = make_report(certificate, table, results, cases, programs.failures if programs else ())
    return Merged(report, {RESULTS: results_text(results), TABLE: table_text, **reports(report)}, parts, lines)


def _kept(parts: tuple[Part, ...]) -> Kept | None:
    """What all shards together kept of one earlier record; why one of them kept nothing, where one did not."""
    found = [part.certificate.kept for part in parts if part.certificate.kept is not None]
    if not found:
        return None
    why = next((each.why for each in found if each.why), "")
    return replace(found[0], cases=sum(each.cases for each in found), again=sum(each.again for each in found), why=why)


def _programs(parts: tuple[Part, ...], every: Sequence[Case]) -> tuple[list[CaseResult], Fuzzed | None]:
    """The random programs of all shards: the lines of their file, and the summary; None for a run without any."""
    fuzz = parts[0].certificate.fuzz
    if fuzz is None:
        return [], None
    return merged([part.contents.text(FUZZ) for part in parts], Programs(every), fuzz.seed)
