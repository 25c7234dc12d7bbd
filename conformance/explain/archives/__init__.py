"""Reading `.pt2` files that nobody vouches for: torch gets an archive that was written here, of what was checked.

torch.export.load unpickles, evaluates and looks names up in many places. `records` bounds and names the records of the
archive, `structure` their JSON field by field, `operators`, `sizes`, `nesting` and `names` the texts in it.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch._export.serde.schema import ExportedProgram as Serialized
from torch.export import ExportedProgram

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.archives.records import CONFIGS, FIXED, LARGEST, PROGRAM, Records, payloads
from npu_assay.conformance.explain.archives.structure import read
from npu_assay.conformance.explain.named import check_file
from npu_assay.conformance.isolation.limits import is_out_of_memory

DIRECTORY = 2**26  # bytes: the most of a zip archive's list of records
VERSION = b"6\n"  # of the archive, as this torch writes it
SAMPLES = "data/sample_inputs/model.pt"


def read_program(path: Path) -> ExportedProgram:
    """The program in anybody's file of `torch.export.save`; nothing in it is unpickled, evaluated or imported.

    Raises UsageError for another or an unsafe file.
    """
    try:
        check_file(path)
        return torch.export.load(_checked(path))
    except UsageError as error:
        raise UsageError(_prefixed(path, str(error))) from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except zipfile.BadZipFile as error:
        raise UsageError(f"{path}: not a .pt2 file: found a damaged zip archive: {str(error)[:200]}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: found graphs that are nested too deeply, expected those of a program") from error
    except Exception as error:  # torch raises anything for a file that is damaged
        if is_out_of_memory(error):
            raise UsageError(f"{path}: needs more memory than there is (--memory)") from error
        text = " ".join(str(error).split())[:200]
        raise UsageError(f"{path}: not a program that torch can read: {type(error).__name__}: {text}") from error


def _prefixed(path: Path, text: str) -> str:
    return text if text.startswith(f"{path}: ") else f"{path}: {text}"


def _checked(path: Path) -> io.BytesIO:
    """An archive of what was checked, and of nothing else. Raises UsageError."""
    if not zipfile.is_zipfile(path):
        hint = "what torch.export.save writes, or module:factory of Python code"
        raise UsageError(f"not a .pt2 file: found no zip archive, expected {hint}")
    made = io.BytesIO()
    with _File(path) as file, zipfile.ZipFile(file) as given, zipfile.ZipFile(made, "w") as taken:
        file.bound = LARGEST
        _write(Records(given, path.stat().st_size), taken)
    made.seek(0)
    return made


class _File(io.FileIO):
    """A file of which no more is read at once than `bound`: what a zip archive says of its list is not believed."""

    bound = DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.bound:
            raise UsageError(f"found a list of records of {size} bytes, expected at most {self.bound}")
        return super().read(-1 if size is None else size) or b""


def _write(records: Records, taken: zipfile.ZipFile) -> None:
    """Write what torch reads: the program, its tensors, and no sample inputs."""
    _put(taken, PROGRAM, json.dumps(_program(records)).encode())
    for folder, config in CONFIGS.items():
        told, used = payloads(records, folder)
        _put(taken, folder + config, json.dumps(told).encode())
        for name in used:
            _put(taken, name, records.bytes_of(name))
    for name, content in {**FIXED, ".data/version": VERSION, SAMPLES: b""}.items():
        _put(taken, name, content)


def _put(taken: zipfile.ZipFile, name: str, data: bytes) -> None:
    taken.writestr(f"archive/{name}", data)


def _program(records: Records) -> Any:
    try:
        return read(Serialized, records.json_of(PROGRAM))
    except UsageError as error:
        raise UsageError(f"{PROGRAM}: {error}") from error
