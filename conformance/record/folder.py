"""The folder that a run leaves behind. `verification` checks such a folder again.

While a run goes on there is only a journal. The final files appear at its end, `certificate.json`
last: a folder without it is incomplete, whatever else is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.common.files import write_all
from npu_assay.conformance.record.certificate import Certificate, certificate_text, read_certificate
from npu_assay.conformance.record.names import (
    CERTIFICATE,
    FUZZ_JOURNAL,
    JOURNAL,
    REPORTS,
    RESULTS,
    Contents,
    PackageError,
)
from npu_assay.conformance.record.results import CaseResult, to_line


def refuse_foreign(folder: Path, own: Collection[str] = (CERTIFICATE, JOURNAL), writer: str = "assay certify") -> None:
    """Raise PackageError for a folder with files and none of a writer's own: they must not be removed."""
    names = sorted(path.name for path in folder.iterdir())
    if names and not set(own) & set(names):
        raise PackageError(
            f"{folder}: holds other files ({names[0]}{', ...' if names[1:] else ''}); "
            f"expected a new or empty folder, or one that '{writer}' wrote"
        )


def writing(folder: Path) -> AbstractContextManager[None]:
    """Raise an OSError of the body as a PackageError that names the folder."""
    return failing(folder, "cannot be written", PackageError)


def check_target(folder: Path, target: Path) -> None:
    """Raise PackageError for a target that is a folder, or inside the folder of the run.

    There it could overwrite one of the run's own files.
    """
    if target.is_dir():
        raise PackageError(f"{target}: found a folder, expected the name of a file")
    if target.resolve().is_relative_to(folder.resolve()):
        raise PackageError(f"{target}: inside {folder}, whose files it is made of; expected --out FILE elsewhere")


def results_text(results: Sequence[CaseResult]) -> str:
    """results.jsonl: one line per case, sorted by case id."""
    return "".join(to_line(result) + "\n" for result in sorted(results, key=lambda result: result.case))


def sha256(text: str) -> str:
    """Digest of a text file's bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def own_results(contents: Contents) -> tuple[Certificate, str]:
    """A run's certificate, and the text of the results that it was made of. Raises UsageError for others, or none."""
    certificate, text = read_certificate(contents.text(CERTIFICATE)), contents.text(RESULTS)
    if sha256(text) != certificate.results_sha256:
        raise UsageError(f"{RESULTS} is not the file that {CERTIFICATE} was made of; see 'assay verify'")
    return certificate, text


def write_package(folder: Path, texts: Mapping[str, str], certificate: Certificate) -> None:
    """Write the final files under temporary names, move them into place, the certificate last.

    Raises PackageError when they cannot be written; the journal then stays.
    """
    digests = {name: sha256(text) for name, text in texts.items() if name in REPORTS}
    everything = {**texts, CERTIFICATE: certificate_text(replace(certificate, reports=digests))}
    with writing(folder):
        write_all({folder / name: text for name, text in everything.items()})
        (folder / FUZZ_JOURNAL).unlink(missing_ok=True)
        (folder / JOURNAL).unlink(missing_ok=True)
