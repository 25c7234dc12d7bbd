"""Checks a submission: a folder with records of runs, and with the public key of each who signed them in NAME.pem."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from npu_assay import __version__
from npu_assay.conformance.backend.environment import LIBRARIES
from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.programs.variation_names import NONE
from npu_assay.conformance.record.archive import MEMBERS
from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.levels import reaches
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.verify.attestation import check_all
from npu_assay.conformance.verify.signing import KeyFileError, Verifier, read_public_key
from npu_assay.conformance.verify.verification import UNSHIPPED, verify_contents

KEY = ".pem"
MOST = 64  # entries of a folder
ENVIRONMENT = ("python", "implementation", "system", "machine", *LIBRARIES, "limits")
UNKNOWN = ("", "not installed", "not found")


class Problem(NamedTuple):
    """What is missing or wrong in a submission."""

    where: str
    what: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: found {self.found}, expected {self.expected}"


def check_submission(folder: Path, today: datetime.date, level: str) -> tuple[list[dict[str, str]], list[Problem]]:
    """The records of a submission, and all problems. Raises UsageError for a folder that cannot be read."""
    records, problems, keys = dict[str, dict[str, str]](), list[Problem](), dict[str, Verifier]()
    for path in sorted(_entries(folder), key=lambda path: (path.suffix != KEY, path.name)):
        if path.is_symlink() or not (path.is_dir() or path.suffix in (KEY, ".zip")):
            problems.append(Problem(path.name, "foreign file", "no record", f"records, archives of them, keys ({KEY})"))
        elif path.suffix == KEY:
            try:
                keys[path.stem] = read_public_key(path)
            except KeyFileError as error:
                problems.append(Problem(path.name, "key", f"'{error}'", "the public key of who signed"))
        else:
            record, wrong = _record(path, keys, today, level)
            first = records.setdefault(f"{record.get('backend', path.name)} {record.get('table')}", record)
            if first is not record:
                wrong += [("backend and table", f"those of {first['record']}", "one record of each")]
            problems += [Problem(path.name, *one) for one in wrong]
    if not records:
        problems.append(Problem(str(folder), "records", "none", "at least one"))
    return list(records.values()), problems


def _entries(folder: Path) -> list[Path]:
    with failing(folder, "cannot be read"):
        paths = sorted(islice(folder.iterdir(), MOST + 1))
    if len(paths) > MOST:
        raise UsageError(f"{folder}: found more than {MOST} files, expected at most so many")
    return paths


def _record(
    path: Path, keys: Mapping[str, Verifier], today: datetime.date, level: str
) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """What a record is of and who signed it, and what is wrong with it: what, found, expected."""
    record = {"record": path.name}
    try:
        inside = _entries(path) if path.is_dir() else []
        contents = read_contents(path)
        found = verify_contents(contents, today)
    except UsageError as error:
        return record, [("record", f"'{error}'", "one that can be read")]
    foreign = [one.name for one in inside if one.name not in MEMBERS or one.is_symlink()]
    wrong = [("foreign file", name, "files of 'assay certify' and 'assay attest'") for name in foreign]
    wrong += [("verify", f"'{problem}'", "no problem") for problem in found.problems]
    wrong += [("verify", f"'{note}'", "nothing to note") for note in found.notes if not note.startswith(UNSHIPPED)]
    if found.certificate is not None and found.verdict is not None:
        selected = found.certificate.selection.objection
        wrong += [("verdict", f"'{one}'", "certified") for one in found.verdict.objections if one != selected]
        wrong += _stated(found.certificate, level)
        checked = {name: check_all(contents, found.certificate, key).problems for name, key in keys.items()}
        signers = [name for name, problems in checked.items() if not problems]
        if not signers:
            unsigned = next(iter(checked.values()), ("no public key is there",))[0]
            wrong.append(("attestation", f"'{unsigned}'", f"all signed by one key, NAME{KEY}"))
        backend, table = found.certificate.backend["name"], found.certificate.table
        record |= {"backend": backend, "table": f"{table['name']}@{table['version']}"}
        record |= {"level": found.certificate.level, "signed_by": ", ".join(signers)}
    return record, wrong


def _stated(certificate: Certificate, level: str) -> Iterator[tuple[str, str, str]]:
    """What a certificate lacks: what, found, expected."""
    selection, environment = certificate.selection, certificate.environment
    if not selection.everything or selection.varied == NONE:
        yield "selection", f"'{selection}'", "all cases, with variations"
    if selection.seed:
        yield "seed", str(selection.seed), "0"
    if not reaches(certificate.level, level):
        yield "level", certificate.level, level
    if certificate.suite["version"] != __version__:
        yield "suite", certificate.suite["version"] or "no version", f"{__version__}, which checks"
    if not certificate.backend["sources"]:
        yield "backend", "no file", "the files that it is made of"
    for name in sorted({*ENVIRONMENT, *environment}):
        if environment.get(name, "") in UNKNOWN:
            yield f"environment: {name}", environment.get(name) or "nothing", "what the run was made with"
