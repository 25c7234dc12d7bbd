"""Judges outputs that were computed elsewhere: `assay judge`.

The exported files are not trusted: cases, inputs and expected outputs are made again from the table, and a file that
differs is a failure of its case.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from npu_assay.conformance.common.describing import describe
from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.common.shapes import OF_ANY_KEY
from npu_assay.conformance.common.toml import LARGEST
from npu_assay.conformance.interchange.forms import (
    FORMATS,
    INTEGERS,
    expected_outputs,
    golden_of,
    inputs_of,
    output_quants,
    real_of,
)
from npu_assay.conformance.interchange.manifest import (
    DATA_SET,
    MANIFEST,
    TABLE,
    Entry,
    Manifest,
    ManifestError,
    folder_of,
    manifest_bytes,
    read_manifest,
)
from npu_assay.conformance.interchange.manifest import sha256 as digest
from npu_assay.conformance.interchange.tensors import KINDS, TensorFileError, read_tensor
from npu_assay.conformance.interchange.tensors import LARGEST as TENSORS
from npu_assay.conformance.judge.numerics import EXACT_SCHEMES, judge
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.results import METRICS, Failure, Number, program_sha256, rounded
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import FOLDER, Table, TableError, load_table, read_table
from npu_assay.files import read_regular, write_whole

PASS, FAIL = "pass", "fail"
SHAPE = {
    **dict.fromkeys(("manifest_sha256", "format", "rescale"), str),
    "table": {"name": str, "version": str, "rescale": str, "sha256": str},
    "counts": dict.fromkeys(("cases", PASS, FAIL), int),
    "left_out": int,
    "passed": bool,
    "cases": [
        {
            "case": str,
            "status": str,
            "failures": [{"check": str, "message": str}],
            "metrics": {OF_ANY_KEY: (float, int, str, None)},
        },
    ],
}
"""The judgments as JSON: what `write_report` writes."""
_INPUT = re.compile(r"input_\d+(\.pb|\.npy)")
_OUTPUT = re.compile(r"output_(0|[1-9]\d*)(\.pb|\.npy)")


@dataclass(frozen=True)
class Judgement:
    """One case, or one thing in the outputs' folder that belongs to none (then `case` is its name)."""

    case: str
    status: str
    failures: tuple[Failure, ...] = ()
    metrics: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All judgments; `arithmetic` says how the codes were compared."""

    manifest: Manifest
    manifest_sha256: str
    arithmetic: str
    judgements: tuple[Judgement, ...]

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(one.status for one in self.judgements)
        return {"cases": len(self.judgements), PASS: found[PASS], FAIL: found[FAIL]}

    @property
    def passed(self) -> bool:
        """Whether something was judged, and nothing failed."""
        return bool(self.judgements) and all(one.status == PASS for one in self.judgements)


@dataclass(frozen=True)
class Request:
    """What `assay judge` was asked for.

    arithmetic: "floats", a scheme's name for exact integers, or None: as the format and the table say.
    """

    folder: Path
    outputs: Path
    arithmetic: str | None = None


def judge_folder(request: Request) -> Report:
    """Judge every case of an exported folder. Raises UsageError if folder, table or outputs cannot be used."""
    manifest = read_manifest(request.folder)
    _check_outputs(request.outputs)
    _check_arithmetic(request.arithmetic)
    table = _table(request.folder, manifest)
    cases = {case.id: case for case in Selection(manifest.selection).of(table, all_cases(table))}
    found = list(_contradictions(manifest, cases))
    entries = {entry.case: entry for entry in manifest.cases}
    found += [_judged(request, entry, cases[name], table) for name, entry in entries.items() if name in cases]
    found += _extra(request.outputs, set(map(folder_of, entries)))
    return Report(manifest, digest(manifest_bytes(request.folder)), request.arithmetic or "as exported", tuple(found))


def _check_outputs(outputs: Path) -> None:
    """Raise UsageError if there is no folder, or if it is an exported one, which holds the expected outputs."""
    if not outputs.is_dir():
        raise UsageError(f"--outputs {outputs}: no such folder")
    if (outputs / MANIFEST).exists():
        raise UsageError(
            f"--outputs {outputs}: holds {MANIFEST}, so its outputs are the expected ones of 'assay export'; "
            "expected a folder of what was computed"
        )


def _check_arithmetic(name: str | None) -> None:
    if name is not None and name != "floats" and name not in EXACT_SCHEMES:
        choices = ", ".join(["floats", *sorted(EXACT_SCHEMES)])
        raise UsageError(f"--rescale {name}: expected one of {choices}")


def _table(folder: Path, manifest: Manifest) -> Table:
    """The table of the exported folder, which must equal the suite's table of that name, if there is one."""
    with failing(folder / TABLE, "cannot be read", ManifestError):
        table = read_table(read_regular(folder / TABLE, LARGEST, folder), TABLE)
    stated = manifest.table
    if table.sha256 != stated["sha256"]:
        raise ManifestError(f"{folder / TABLE}: not the table of the manifest (its digest differs)")
    if manifest.format not in FORMATS:
        raise ManifestError(f"{folder / MANIFEST}: format {manifest.format!r}, expected one of {[*FORMATS]}")
    try:
        own = load_table(table.title)
    except TableError:
        return table  # somebody's own; nothing to compare it with
    if own.sha256 != table.sha256:
        raise ManifestError(f"{folder / TABLE}: differs from {table.title} in {FOLDER.name} of this suite")
    return table


def _contradictions(manifest: Manifest, cases: Mapping[str, Case]) -> Iterator[Judgement]:
    """Cases that the table does not have, and selected cases that the manifest does not mention."""
    named = [*(entry.case for entry in manifest.cases), *(one.case for one in manifest.left_out)]
    for name, count in Counter(named).items():
        if name not in cases:
            yield _failed(name, "manifest", "the table has no such case")
        elif count > 1:
            yield _failed(name, "manifest", "stands in the manifest twice")
    for name in cases.keys() - set(named):
        yield _failed(name, "manifest", "the manifest has neither files of it nor a reason why it was left out")


def _extra(outputs: Path, known: set[str]) -> Iterator[Judgement]:
    for path in sorted(outputs.iterdir()):
        if path.is_dir() and path.name not in known:
            yield _failed(path.name, "extra", "outputs of a case that the exported folder does not hold")
        elif _is_tensor(path):
            yield _failed(path.name, "extra", "a tensor file outside of every case's folder")


def _is_tensor(path: Path) -> bool:
    """Whether a name is a tensor file's; a folder of a known case may have any name."""
    return path.suffix.lower() in KINDS and not path.is_dir()


def _failed(case: str, check: str, message: str) -> Judgement:
    return Judgement(case, FAIL, (Failure(check, message),))


# ------------------------------------------------------------------------------------ one case


def _judged(request: Request, entry: Entry, case: Case, table: Table) -> Judgement:
    failures = list(_entry_problems(request.folder, entry, case, table))
    metrics: dict[str, Number] = {}
    try:
        outputs = _outputs(request.outputs, folder_of(case.id), len(case.graph.outputs))
        found, metrics = _measured(outputs, request, entry, case, table)
        failures += found
    except TensorFileError as error:
        failures.append(Failure("output", str(error)))
    return Judgement(case.id, FAIL if failures else PASS, tuple(failures), metrics)


def _entry_problems(folder: Path, entry: Entry, case: Case, table: Table) -> Iterator[Failure]:
    """The differences between the exported files and the case."""
    place = folder / folder_of(case.id)
    asked = {"folder": place.name, "expect": case.expect, "reason": case.reason, "program": program_sha256(case.graph)}
    for key, value in asked.items():
        if getattr(entry, key) != value:
            yield Failure("manifest", f"{key} is {getattr(entry, key)!r:.200}, the table's case has {value!r}")
    for name, expected in entry.files.items():
        if name not in (entry.model, *entry.inputs, *entry.outputs):
            yield Failure("manifest", f"found a digest of {name:.200}, expected those of the model, inputs and outputs")
            continue
        try:
            data = read_regular(place / name, TENSORS, place)
        except OSError as error:
            yield Failure("edited", f"{name}: cannot be read: {error.strerror}")
            continue
        if digest(data) != expected:
            yield Failure("edited", f"{name}: is not the file that was exported (its digest differs)")
    yield from _wrong_numbers(place, entry, case, table)


def _wrong_numbers(folder: Path, entry: Entry, case: Case, table: Table) -> Iterator[Failure]:
    """Failures of files whose inputs or expected outputs are not those of the case."""
    quants = output_quants(case.graph, table) if entry.codes else ()
    outputs = expected_outputs(case, table, entry.codes)
    for kind, names, tensors in (
        ("input", entry.inputs, inputs_of(case, entry.codes)),
        ("output", entry.outputs, outputs),
    ):
        if len(names) != len(tensors):
            yield Failure("manifest", f"{len(names)} {kind}s, the case has {len(tensors)}")
            continue
        for index, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
            try:
                found = read_tensor(folder / name, folder)
            except TensorFileError as error:
                yield Failure("edited", f"{name}: {error}")
                continue
            quant = quants[index] if kind == "output" and entry.codes else None
            if quant is not None:
                found = real_of(found, quant)
            if not _alike(found, tensor):
                yield Failure("edited", f"{name}: not the numbers that follow from the case")


LAST_BITS = 2.0**-20
"""Expected reals that are not exact come from float64 arithmetic, whose last bits depend on the processor."""


def _alike(found: Tensor, tensor: Tensor) -> bool:
    if found.shape != tensor.shape or found.dtype != tensor.dtype:
        return False
    if not found.dtype.is_floating_point:
        return torch.equal(found, tensor)
    return bool(torch.allclose(found.double(), tensor.double(), rtol=LAST_BITS, atol=0.0, equal_nan=True))


def _outputs(outputs: Path, name: str, count: int) -> list[Tensor]:
    """Read the outputs of the case of this name. Raises TensorFileError for missing, extra and unreadable files."""
    folder = outputs / name
    if not folder.is_dir():
        raise TensorFileError("found no folder with outputs of this case")
    places = [folder, folder / DATA_SET]
    named: dict[int, Path] = {}
    for path in (path for place in places if place.is_dir() for path in sorted(place.iterdir())):
        match = _OUTPUT.fullmatch(path.name)
        if match is None and _is_tensor(path) and not _INPUT.fullmatch(path.name):
            raise TensorFileError(f"{path.name} is one too many: outputs are named output_0, output_1, ...")
        if match is None:
            continue
        index = int(match[1])
        if index in named:
            raise TensorFileError(f"output_{index} is there twice: {named[index].name} and {path.name}")
        named[index] = path
    missing = [index for index in range(count) if index not in named]
    if missing:
        raise TensorFileError(f"output_{missing[0]}{' or '.join(KINDS)} is missing")
    extra = [path.name for index, path in named.items() if index >= count]
    if extra:
        raise TensorFileError(f"{extra[0]} is one too many: the case has {count} output{'s' * (count > 1)}")
    return [_read(named[index], outputs) for index in range(count)]


def _read(path: Path, outputs: Path) -> Tensor:
    try:
        return read_tensor(path, outputs)
    except TensorFileError as error:
        raise TensorFileError(f"{path.name}: {error}") from error


def _measured(
    outputs: Sequence[Tensor], request: Request, entry: Entry, case: Case, table: Table
) -> tuple[list[Failure], dict[str, Number]]:
    """The failures and metrics of the gates on the outputs."""
    chosen = request.arithmetic
    integers = entry.arithmetic == INTEGERS if chosen is None else chosen != "floats"
    scheme = table.rescale or None if chosen in (None, "floats") else chosen
    reals = list(outputs)
    if entry.codes:
        reals, wrong = _reals(outputs, case, table)
        if wrong:
            return wrong, {}
    try:
        gates = judge(golden_of(case.graph), reals, scheme, delegated=integers)
    except (ValueError, TypeError) as error:
        return [Failure("golden", f"cannot be judged by this arithmetic: {describe(error)}")], {}
    failures = [Failure(gate.gate, message) for gate in gates for message in gate.messages]
    metrics = {key: rounded(value) for gate in gates for key, value in gate.metrics.items() if key in METRICS}
    return failures, metrics


def _reals(outputs: Sequence[Tensor], case: Case, table: Table) -> tuple[list[Tensor], list[Failure]]:
    """The outputs as reals, which the gates compare, and failures for wrong dtypes."""
    reals, wrong = list[Tensor](), list[Failure]()
    for index, (codes, quant) in enumerate(zip(outputs, output_quants(case.graph, table), strict=True)):
        if codes.dtype != torch.int8 or quant is None:
            kind = str(codes.dtype).removeprefix("torch.")
            wrong.append(Failure("dtype", f"output_{index}: dtype {kind}, expected int8 codes"))
        else:
            reals.append(real_of(codes, quant))
    return reals, wrong


# ------------------------------------------------------------------------------------ the file


def _plain(judgement: Judgement) -> dict[str, Any]:
    """As plain data: files have no tracebacks."""
    data = asdict(judgement)
    return data | {"failures": [{"check": one["check"], "message": one["message"]} for one in data["failures"]]}


def write_report(report: Report, path: Path) -> None:
    """The judgments as JSON, whole or not at all. Raises UsageError when it cannot be written."""
    data = {
        "manifest_sha256": report.manifest_sha256,
        "format": report.manifest.format,
        "table": report.manifest.table,
        "rescale": report.arithmetic,
        "counts": report.counts,
        "left_out": len(report.manifest.left_out),
        "passed": report.passed,
        "cases": [_plain(one) for one in sorted(report.judgements, key=lambda one: one.case)],
    }
    with failing(path, "cannot be written"):
        write_whole(path, f"{json.dumps(data, indent=1, sort_keys=True)}\n".encode())
