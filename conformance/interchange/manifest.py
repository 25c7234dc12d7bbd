"""The manifest of an exported folder: the cases that it holds, and those that were left out, with reasons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.shapes import OF_ANY_KEY, check_shape
from npu_assay.files import read_regular

MANIFEST = "manifest.json"
TABLE = "table.toml"
SCHEMA = 1
LARGEST = 2**27  # bytes; 10,000 cases take 2**24
SEAL = "sha256"
DATA_SET = "test_data_set_0"
CASE = {
    **dict.fromkeys(("case", "folder", "expect", "program", "arithmetic", "model"), str),
    "reason": (str, None),
    "codes": bool,
    "inputs": [str],
    "outputs": [str],
    "files": {OF_ANY_KEY: str},
}
SHAPE = {
    "schema": int,
    "suite": {"name": str, "version": str},
    "format": str,
    "backend": {"name": str, "spec": str},
    "table": {"name": str, "version": str, "rescale": str, "sha256": str},
    "selection": (str, None),
    "cases": [CASE],
    "left_out": [{"case": str, "code": str, "reason": str}],
    SEAL: str,
}


class ManifestError(UsageError):
    """A folder that `assay export` did not write, or cannot write."""


@dataclass(frozen=True)
class Entry:
    """One case of the folder. Names are relative to its own folder; `files` are the digests of all of them.

    program: digest of the case's graph. arithmetic: "floats" or "integers", see `forms`. codes: whether the model's
    inputs and outputs are codes and not reals.
    """

    case: str
    folder: str
    expect: str
    reason: str | None
    program: str
    arithmetic: str
    codes: bool
    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True)
class LeftOut:
    """A case without files: a short stable word for the reason (`code`), and the reason in a sentence."""

    case: str
    code: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """Everything that an export states. selection: the `-k` expression."""

    suite: Mapping[str, str]
    format: str
    backend: Mapping[str, str]
    table: Mapping[str, str]
    selection: str | None
    cases: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...]
    schema: int = SCHEMA


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def folder_of(case: str) -> str:
    """A case's folder: its id with `__` between the parts."""
    return case.replace("/", "__")


def manifest_text(manifest: Manifest) -> str:
    """The file; it holds its own digest."""
    data = asdict(manifest)
    return json.dumps(data | {SEAL: _seal(data)}, indent=1, sort_keys=True) + "\n"


def _seal(data: Mapping[str, Any]) -> str:
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode())


def manifest_bytes(folder: Path) -> bytes:
    """Read a folder's manifest. Raises ManifestError."""
    path = folder / MANIFEST
    try:
        return read_regular(path, LARGEST, folder)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}; expected a folder of 'assay export'") from error


def read_manifest(folder: Path) -> Manifest:
    """Raise ManifestError for a folder without a manifest, or with one that is not as it was written."""
    path = folder / MANIFEST
    try:
        data = json.loads(manifest_bytes(folder))
        check_shape(data, SHAPE)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ManifestError):
            raise
        raise ManifestError(f"{path}: not a manifest of 'assay export' ({error})") from error
    seal = data.pop(SEAL)
    if data["schema"] != SCHEMA:
        raise ManifestError(f"{path}: schema is {data['schema']}, expected {SCHEMA}")
    if _seal(data) != seal:
        raise ManifestError(f"{path}: edited (its {SEAL} does not fit the rest)")
    entries = tuple(
        Entry(**case | {"inputs": tuple(case["inputs"]), "outputs": tuple(case["outputs"])}) for case in data["cases"]
    )
    left_out = tuple(LeftOut(**one) for one in data["left_out"])
    return Manifest(**data | {"cases": entries, "left_out": left_out})
