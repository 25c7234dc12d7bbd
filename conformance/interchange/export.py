"""Writing a table's cases as files: `assay export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from npu_assay import __version__
from npu_assay.conformance.backend.loading import load_whole
from npu_assay.conformance.common.describing import describe
from npu_assay.conformance.common.errors import failing
from npu_assay.conformance.common.files import new_folder
from npu_assay.conformance.interchange.forms import FORMATS, Format, Made
from npu_assay.conformance.interchange.manifest import (
    DATA_SET,
    MANIFEST,
    TABLE,
    Entry,
    LeftOut,
    Manifest,
    ManifestError,
    folder_of,
    manifest_text,
    sha256,
)
from npu_assay.conformance.interchange.tensors import tensor_bytes
from npu_assay.conformance.isolation.imports import unchanged
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.results import program_sha256
from npu_assay.conformance.run.selection import all_cases, none_selected
from npu_assay.conformance.table import Table, read_table, table_bytes, table_path
from npu_assay.conformance.table.non_decomposed import check_preserved
from npu_assay.partitioners.exir import Backend
from npu_assay.reference.onnx_forms.site import FormError

Progress = Callable[[int, int, int], None]  # cases looked at, of how many, how many of them left out


@dataclass(frozen=True)
class Request:
    """What `assay export` was asked for. table: None for the backend's own."""

    backend: str
    format: str
    folder: Path
    expression: str | None = None
    table: str | None = None


def export(request: Request, progress: Progress = lambda *_: None) -> Manifest:
    """Write the folder, whole or not at all. Raises ManifestError if it exists already, UsageError for other errors."""
    if request.folder.exists() or request.folder.is_symlink():
        raise ManifestError(f"{request.folder}: exists already, expected a new folder")
    with unchanged(request.backend):
        backend = load_whole(request.backend)
    name = request.table or backend.table
    table_file = table_bytes(name)
    table = read_table(table_file, table_path(name).name)
    check_preserved(table)
    known = all_cases(table)
    cases = Selection(request.expression).of(table, known)
    if not cases:
        raise none_selected(f"-k {request.expression!r}", known, request.expression)
    with failing(request.folder, "cannot be written", ManifestError), new_folder(request.folder) as draft:
        (draft / TABLE).write_bytes(table_file)
        return _write(request, draft, backend, table, cases, progress)


def _write(
    request: Request, folder: Path, backend: Backend, table: Table, cases: tuple[Case, ...], progress: Progress
) -> Manifest:
    entries, left_out = list[Entry](), list[LeftOut]()
    chosen = FORMATS[request.format]
    for number, case in enumerate(cases, 1):
        try:
            made = chosen.make(case, table, backend)
            files = case_files(made, chosen)
        except FormError as error:
            left_out.append(LeftOut(case.id, error.code, str(error)))
        except Exception as error:  # noqa: BLE001  (a backend may raise anything; other cases are still written)
            left_out.append(LeftOut(case.id, "crash", describe(error)))
        else:
            entries.append(_entry(case, made, chosen, files))
            _write_case(folder / folder_of(case.id), files)
        progress(number, len(cases), len(left_out))
    manifest = Manifest(
        {"name": "npu-assay", "version": __version__},
        request.format,
        {"name": backend.name, "spec": request.backend},
        {"name": table.name, "version": table.version, "rescale": table.rescale, "sha256": table.sha256},
        request.expression,
        tuple(entries),
        tuple(left_out),
    )
    (folder / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
    return manifest


def case_files(made: Made, chosen: Format) -> dict[str, bytes]:
    """The files of a case by their names in its folder. Raises FormError for numbers that files do not have."""
    tensors = {
        f"{DATA_SET}/{kind}_{index}{chosen.tensors}": tensor_bytes(tensor, f"{kind}_{index}", chosen.tensors)
        for kind, tensors in (("input", made.inputs), ("output", made.outputs))
        for index, tensor in enumerate(tensors)
    }
    return {chosen.model: made.model, **tensors}


def _entry(case: Case, made: Made, chosen: Format, files: Mapping[str, bytes]) -> Entry:
    def names(kind: str) -> tuple[str, ...]:
        return tuple(name for name in files if name.startswith(f"{DATA_SET}/{kind}_"))

    return Entry(
        case.id,
        folder_of(case.id),
        case.expect,
        case.reason,
        program_sha256(case.graph),
        made.arithmetic,
        made.codes,
        chosen.model,
        names("input"),
        names("output"),
        {name: sha256(data) for name, data in files.items()},
    )


def _write_case(folder: Path, files: Mapping[str, bytes]) -> None:
    (folder / DATA_SET).mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
