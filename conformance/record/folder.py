"""The folder that a run leaves behind. `verification` checks such a folder again.

While a run goes on there is only a journal. The final files appear at its end, `certificate.json`
last: a folder without it is incomplete, whatever else is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from npu_assay.conformance.record.certificate import Certificate, certificate_text
from npu_assay.conformance.record.names import CERTIFICATE, FUZZ_JOURNAL, JOURNAL, REPORTS, PackageError
from npu_assay.conformance.record.results import CaseResult, to_line
from npu_assay.files import replacing, write_synced


def refuse_foreign(folder: Path) -> None:
    """What stands in a folder is removed only if a run wrote it."""
    names = sorted(path.name for path in folder.iterdir())
    if names and not {CERTIFICATE, JOURNAL} & set(names):
        raise PackageError(
            f"{folder}: holds other files ({names[0]}{', ...' if names[1:] else ''}); "
            "expected a new or empty folder, or one that 'assay certify' wrote"
        )


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """What the system says against writing, as one error that names the folder."""
    try:
        yield
    except OSError as error:
        raise PackageError(f"{folder}: cannot be written: {error.strerror}") from error


def check_target(folder: Path, target: Path) -> None:
    """What is made of a run stands beside its folder: inside, it could take the place of one of the run's own files.

    Raises PackageError.
    """
    if target.is_dir():
        raise PackageError(f"{target}: a folder, expected the name of a file")
    if target.resolve().is_relative_to(folder.resolve()):
        raise PackageError(f"{target}: inside {folder}, whose files it is made of; expected --out FILE elsewhere")


def results_text(results: Sequence[CaseResult]) -> str:
    """results.jsonl: one line per case, sorted by case id."""
    return "".join(to_line(result) + "\n" for result in sorted(results, key=lambda result: result.case))


def sha256(text: str) -> str:
    """Digest of a text file's bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_package(folder: Path, texts: Mapping[str, str], certificate: Certificate) -> None:
    """Write the final files under temporary names, move them into place, the certificate last.

    Raises PackageError when the disk takes no more; the journal stays then.
    """
    digests = {name: sha256(text) for name, text in texts.items() if name in REPORTS}
    everything = {**texts, CERTIFICATE: certificate_text(replace(certificate, reports=digests))}
    with writing(folder):
        with replacing(*(folder / name for name in everything)) as drafts:
            for draft, text in zip(drafts, everything.values(), strict=True):
                write_synced(draft, text.encode())
        (folder / FUZZ_JOURNAL).unlink(missing_ok=True)
        (folder / JOURNAL).unlink(missing_ok=True)
