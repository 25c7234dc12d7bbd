"""Scripts that show one case of a run with torch and ExecuTorch alone, for whoever the backend belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError, failing, nearest
from npu_assay.conformance.common.files import write_all
from npu_assay.conformance.compare.drift import Drift, Entry
from npu_assay.conformance.fuzz.programs import Known
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import program_sha256
from npu_assay.conformance.repro.script import TARGETS, script
from npu_assay.conformance.run.selection import all_cases

FOLDER = "repro"
_UNSAFE = re.compile(r"[^\w.=+-]+")


def script_of(found: Drift, case: str) -> str:
    """The script of one case. Raises UsageError for a case that is not in the run, or for one without a fault."""
    _check_backend(found)
    entry = next((entry for entry in found.entries if entry.result.case == case), None)
    if entry is None:
        of_row = [each.result.case for each in found.entries if each.result.row == case.partition("/")[0]]
        raise UsageError(f"--repro {case}: the run has no such case{nearest(case, of_row, most=0)}")
    if not entry.drifts:
        raise UsageError(f"--repro {case}: nothing to show, table and backend agree and the numbers are right")
    return script(found, entry, _cases(found, [entry])[case])


def write_scripts(found: Drift, folder: Path) -> str:
    """Write a script for every case that drifts; returns what was done. Raises UsageError if it cannot be written."""
    _check_backend(found)
    if not folder.is_dir():
        raise UsageError(f"--repros: {folder}: expected a folder, scripts are written beside the results")
    cases, target = _cases(found, found.found), folder / FOLDER
    texts = {f"{file_name(e.result.case)}.py": script(found, e, cases[e.result.case]) for e in found.found}
    with failing(target, "cannot be written"):
        target.mkdir(exist_ok=True)
        write_all({target / name: text for name, text in texts.items()})
        for path in target.glob("*.py"):
            if path.name not in texts:
                path.unlink()
    return f"{target}: {len(texts)} scripts"


def file_name(case: str) -> str:
    """A case's id as the name of a file."""
    return _UNSAFE.sub("-", case)


def _check_backend(found: Drift) -> None:
    if found.backend not in TARGETS:
        raise UsageError(f"no scripts for {found.backend}: expected one of {', '.join(TARGETS)}")


def _cases(found: Drift, entries: Sequence[Entry]) -> dict[str, Case]:
    """The cases of the results. Raises UsageError when this suite has others of these names."""
    known, cases = Known(found.table, all_cases(found.table), found.seed), dict[str, Case]()
    for entry in entries:
        name = entry.result.case
        with suppress(KeyError):
            cases[name] = known.case(name)
        if name not in cases or program_sha256(cases[name].graph) != entry.result.program:
            raise UsageError(
                f"{name}: this version of the suite has another case of that name; run `assay certify` again"
            )
    return cases
