"""Running the cases of a certificate again, and comparing what they show with what it records.

Digests show an edit, but whoever makes up records can make up their digests, too. Only running the cases shows that:
with the same random numbers, each gives the same line, byte for byte. With other random numbers each gives the same
verdict, which also shows a backend that was made for the numbers of the cases.
"""

from __future__ import annotations

import hashlib
import math
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from npu_assay.conformance.backend.environment import environment
from npu_assay.conformance.backend.info import About
from npu_assay.conformance.backend.loading import check_level
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.devices.place import HERE, Place
from npu_assay.conformance.fuzz.names import is_program
from npu_assay.conformance.isolation.forkserver import Subject
from npu_assay.conformance.isolation.limits import LIMITS, Limits
from npu_assay.conformance.isolation.pool import ProcessPool
from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.names import FUZZ, RESULTS, TABLE, Contents
from npu_assay.conformance.record.results import CaseResult, read_results
from npu_assay.conformance.run.execution import Job, Progress, made_beforehand, run_all
from npu_assay.conformance.table import held, load_table
from npu_assay.conformance.table.non_decomposed import check_preserved
from npu_assay.conformance.verify.rerun_compare import difference, verdict_difference
from npu_assay.conformance.verify.rerun_sources import file_problems

SHOWN = 3  # differing files or versions that are named
LIMITS_TEXT = re.compile(r"(\d[\d.e+-]{0,19}) s and (\d{1,12}) MiB a case")


@dataclass(frozen=True)
class Request:
    """What `assay verify --rerun` was asked for; None takes what the certificate names.

    backend: a spec. cases: how many, None for all; `draw` is the seed of which, which whoever made the record must not
    know before. seed: of the cases' random numbers.
    """

    backend: str | None = None
    cases: int | None = None
    draw: int = 0
    seed: int | None = None
    workers: int = 1
    limits: Limits = LIMITS
    place: Place = HERE


@dataclass(frozen=True)
class Difference:
    """A case whose result differs from the recorded one, and the difference in words."""

    case: str
    found: str


@dataclass(frozen=True)
class Rerun:
    """The outcome. ran: how many cases and random programs were run again, of the `known` ones in the record.

    seed: of the random numbers; `fresh` when they are not those of the record, which is then compared by verdict.
    problems: why nothing was run. notes: what differs without being a problem.
    """

    backend: str
    known: int
    seed: int
    fresh: bool
    draw: int | None
    ran: int = 0
    differences: tuple[Difference, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reproduced(self) -> bool:
        """Whether something was run, and all of it showed what is recorded."""
        return self.ran > 0 and not self.differences and not self.problems

    def __str__(self) -> str:
        """The outcome in words: how much of the record was run again, and how it was compared."""
        how = f"by verdict with random numbers of seed {self.seed}" if self.fresh else "to the byte"
        if not self.ran:
            return "not run again"
        part = "" if self.ran == self.known else " in part"
        if self.reproduced:
            return f"reproduced{part} ({self.ran} of {self.known} cases, {how})"
        return f"not reproduced ({len(self.differences)} of {self.ran} cases that were run again differ, {how})"


def rerun(contents: Contents, certificate: Certificate, request: Request, progress: Progress) -> Rerun:
    """Run cases of a record again; `verify` must have found no problem in the record.

    Raises UsageError for a backend or a table that cannot be loaded.
    """
    recorded = _recorded(contents)
    names = chosen(recorded, request.cases, request.draw)
    seed = certificate.selection.seed if request.seed is None else request.seed
    spec = str(certificate.backend["spec"]) if request.backend is None else request.backend
    base = Rerun(
        backend=spec,
        known=len(recorded),
        seed=seed,
        fresh=seed != certificate.selection.seed,
        draw=request.draw if len(names) < len(recorded) else None,
    )
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, TABLE)
        table.write_bytes(contents.files[TABLE])
        with held(str(table)):
            check_preserved(load_table(str(table)))
            tools = tuple(certificate.backend["tools"])
            job = Job(spec, str(table), tools, request.limits, seed=seed, level=certificate.level, place=request.place)
            made_beforehand(job)
            known = _about(job, request.backend is None)
            check_level(spec, known.level, job.level)
            problems = tuple(backend_problems(known, certificate))
            if problems:
                return replace(base, problems=problems)
            progress.started(len(names))
            differences = list(_differences(job, names, recorded, request.workers, base.fresh, progress))
    notes = _notes(known, certificate)
    differences.sort(key=lambda difference: difference.case)
    return replace(base, ran=len(names), differences=tuple(differences), notes=notes)


def chosen(recorded: Collection[str], cases: int | None, draw: int) -> list[str]:
    """Which cases to run again: all (None), or so many, each with the same probability, whatever row it is of.

    They are the first by the sha256 of the seed and their name, random programs among them. Of more cases the first are
    those of fewer.
    """
    if cases is None or cases >= len(recorded):
        return sorted(recorded)
    return sorted(recorded, key=lambda name: hashlib.sha256(f"{draw} {name}".encode()).hexdigest())[:cases]


def missed(known: int, ran: int, changed: int) -> float:
    """Return the probability that a draw of `ran` of the known cases has none of `changed` ones, in whatever rows."""
    return math.comb(known - changed, ran) / math.comb(known, ran)


def recorded_limits(certificate: Certificate) -> Limits:
    """The limits of a run. Raises UsageError when the certificate does not say them as a run writes them."""
    text = certificate.environment.get("limits", "")
    found = LIMITS_TEXT.fullmatch(text)
    try:
        limits = Limits(float(found[1]), int(found[2])) if found else None
    except ValueError:
        limits = None
    if limits is None or str(limits) != text:
        raise UsageError(
            f"the certificate's limits are {text!r:.60}, expected such as '120 s and 4096 MiB a case'; "
            "give --timeout and --memory"
        )
    return limits


def _recorded(contents: Contents) -> dict[str, CaseResult]:
    """The records of cases and random programs by name."""
    found = read_results(contents.text(RESULTS), RESULTS)
    return found | (read_results(contents.text(FUZZ), FUZZ) if FUZZ in contents.files else {})


def _about(job: Job, named_there: bool) -> About:
    """What the process that loads the backend reports about it."""
    try:
        with ProcessPool(Subject(job.backend, job.tools, job.limits, job.place), job.table) as processes:
            return processes.about
    except UsageError as error:
        where = "; the certificate names this backend: give another name of it with --backend" if named_there else ""
        raise UsageError(f"{error}{where}") from error


# ------------------------------------------------------------------------------------ the same backend and table


def backend_problems(backend: About, certificate: Certificate) -> Iterator[str]:
    """The differences between the backend's files and versions and the recorded ones."""
    files = file_problems(backend.sources, certificate)
    stated = certificate.environment
    versions = [
        f"{name}: found {found}, recorded {stated.get(name, 'no version')}"
        for name, found in sorted(backend.tools.items())
        if stated.get(name) != found
    ]
    for what, found in (("files", files), ("versions", versions)):
        if found:
            rest = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            yield f"not run again: {what} differ from those of the certified backend: {'; '.join(found[:SHOWN])}{rest}"


def _notes(backend: About, certificate: Certificate) -> tuple[str, ...]:
    """The versions on this machine that differ from those of the recorded run."""
    stated = certificate.environment
    differing = [
        f"{name} {stated.get(name, 'unknown')}, here {found}"
        for name, found in environment().items()
        if stated.get(name) != found
    ]
    return (f"the record was made with {'; '.join(differing)}",) if differing else ()


def _differences(
    job: Job, names: Sequence[str], recorded: Mapping[str, CaseResult], workers: int, fresh: bool, progress: Progress
) -> Iterator[Difference]:
    for result in run_all(job, names, workers):
        by_verdict = fresh and not is_program(result.case)  # a random program's numbers follow from its name
        found = (verdict_difference if by_verdict else difference)(result, recorded[result.case])
        if found:
            yield Difference(result.case, found)
        progress.finished(result)
