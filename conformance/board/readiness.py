"""How ready a backend is: a level for each operator and precision, from its verified record alone.

A record is verified first, as `assay verify` does: its cases are made again from its table, each status is derived
again. One in which anything contradicts has no level. A waiver lifts none, nor does a case that was not asked.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.escaped import beginning, counted
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.programs.variation_names import is_variation
from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.levels import LEVELS, reaches
from npu_assay.conformance.record.names import RESULTS, Contents
from npu_assay.conformance.record.results import NOT_PASSED, CaseResult, Failure, read_line
from npu_assay.conformance.verify.attestation import check_all
from npu_assay.conformance.verify.result import FORM, GATES
from npu_assay.conformance.verify.signing import Verifier
from npu_assay.conformance.verify.verification import verify_contents

NOTHING, TAGGED, COMPILED, RUN, RIGHT, VARIED, REPRODUCED = range(7)
STEPS = (
    "not installable",
    "tags as documented",
    "what is tagged compiles",
    "it runs",
    "its numbers are right",
    "variations, too",
    "reproduced by somebody else",
)
"""The levels by number; each has all that those before it have."""
OF_CHECK = {"tag": TAGGED, "reason": TAGGED, "delegates": TAGGED, "empty": TAGGED, "tool": COMPILED, "not_run": RUN}
OF_STAGE = {"passes": TAGGED, "partition": TAGGED, "compile": COMPILED, "inputs": RUN, "run": RUN}
STOPPED = ("crash", "hang", "memory")
"""The level that a failed check keeps a case from, of those that stop a case by the stage it was in; else RIGHT."""
LONGEST = 300  # letters of a reason


@dataclass(frozen=True)
class Ready:
    """The level of an operator in one precision ("" in a table without). lacks: what keeps it from the next level."""

    operator: str
    precision: str
    level: int
    lacks: str


@dataclass(frozen=True)
class Readiness:
    """A record's levels. refused: why it has none, else "".

    subject: the digest of what it is about: files of the backend, of the table and of the suite. signed: ids of the
    keys given that vouch for it.
    """

    operators: tuple[Ready, ...]
    refused: str = ""
    subject: str = ""
    signed: tuple[str, ...] = ()

    @property
    def precisions(self) -> Mapping[str, tuple[int, ...]]:
        """By precision, how many operators have each level."""
        groups = grouped_by(self.operators, lambda one: one.precision)
        return {name: tuple(sum(x.level == at for x in of) for at in range(len(STEPS))) for name, of in groups.items()}


def readiness(contents: Contents, keys: Iterable[Verifier], today: datetime.date) -> Readiness:
    """Verify a record and derive its levels, up to VARIED. What contradicts itself, or is a selection, is refused."""
    try:
        found = verify_contents(contents, today)
    except UsageError as error:
        return Readiness((), str(error))
    certificate = found.certificate
    if found.problems or certificate is None:
        return Readiness((), f"it does not verify: {beginning(found.problems[0], LONGEST)}")
    if not certificate.selection.everything:
        return Readiness((), certificate.selection.objection)
    about = (certificate.backend["sources"], certificate.table["sha256"], certificate.suite["sources"])
    subject = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    signed = tuple(sorted(_signers(contents, certificate, keys)))
    return Readiness(tuple(_operators(contents, certificate)), "", subject, signed)


def _signers(contents: Contents, certificate: Certificate, keys: Iterable[Verifier]) -> Iterator[str]:
    for key in keys:
        if not check_all(contents, certificate, key).problems:
            yield key.keyid


def _operators(contents: Contents, certificate: Certificate) -> Iterator[Ready]:
    results = [read_line(line)[0] for line in contents.text(RESULTS).splitlines()]
    for (row, precision), group in grouped_by(results, lambda one: (one.row, one.precision)).items():
        level, lacks = _level(group, certificate)
        yield Ready(row, precision, level, lacks)


def _level(group: Sequence[CaseResult], certificate: Certificate) -> tuple[int, str]:
    """The level of an operator's cases, and what it lacks for the next."""
    plain = [one for one in group if not is_variation(one.case)]
    varied = [one for one in group if is_variation(one.case)]
    for level in range(TAGGED, RIGHT + 1):
        if lacks := _lacks(plain, level, certificate):
            return level - 1, lacks
    return (RIGHT, lacks) if (lacks := _lacks(varied, VARIED, certificate)) else (VARIED, "")


def _lacks(cases: Sequence[CaseResult], level: int, certificate: Certificate) -> str:
    """What keeps cases that have every lower level from this one; "" if nothing does."""
    judged = LEVELS[min(level, RIGHT) - 1]
    if not reaches(certificate.level, judged):
        return f"the run judged no more than {certificate.level} (--level {judged} does)"
    failing = [one for one in cases if one.status in NOT_PASSED and _keeps_from(one) <= level]
    if failing:
        first = min(failing, key=lambda one: (len(one.case), one.case))
        said = next((str(each) for each in first.failures), first.status)
        return beginning(f"{len(failing)} of {counted(len(cases), 'case')} fail: {first.case}: {said}", LONGEST)
    if not any(_shows(one, level) for one in cases):
        return f"no case shows it: {STEPS[level]}"
    return ""


def _keeps_from(result: CaseResult) -> int:
    """The lowest level that a failing case does not have."""
    return min(map(_of_failure, result.failures), default=RIGHT)


def _of_failure(failure: Failure) -> int:
    if failure.check in STOPPED:
        stage = failure.message.partition(":")[0].removesuffix(" again")
        return OF_STAGE.get(stage, RIGHT)
    return OF_CHECK.get(failure.check, RIGHT)


def _shows(result: CaseResult, level: int) -> bool:
    """Whether a case is evidence for a level: it got so far and passed there, though it may fail at a higher one."""
    if result.status in NOT_PASSED and (result.status != "fail" or _keeps_from(result) <= level):
        return False
    if level == TAGGED:
        return result.status != "unspecified"
    compiled = result.verdict == "accept" and bool(result.blobs)
    return compiled and (level == COMPILED or any(check in result.checks for check in (*FORM, *GATES)))


def reproduced(one: Readiness, others: Iterable[Readiness]) -> Readiness:
    """The levels with REPRODUCED where a record of the same subject, signed with another key, has VARIED, too."""
    elsewhere = [x for x in others if x.subject == one.subject and x.signed and len({*one.signed, *x.signed}) > 1]
    shown = {(each.operator, each.precision) for x in elsewhere for each in x.operators if each.level >= VARIED}

    def raised(each: Ready) -> Ready:
        if each.level < VARIED:
            return each
        if one.signed and (each.operator, each.precision) in shown:
            return replace(each, level=REPRODUCED, lacks="")
        return replace(each, lacks=NOBODY if one.signed else UNSIGNED)

    return replace(one, operators=tuple(map(raised, one.operators)))


NOBODY = "no record of the same files and table that another key signed, and that has this level, is here"
UNSIGNED = "the record is not signed with one of the keys given (--key)"


# ------------------------------------------------------------------------------------ plain data


def as_data(found: Readiness) -> dict[str, Any]:
    """As plain data, which `of_data` reads."""
    return asdict(found)


def of_data(data: Mapping[str, Any]) -> Readiness:
    """Read what `as_data` gave. Raises TypeError or KeyError for anything else."""
    operators = tuple(Ready(**each) for each in data["operators"])
    return Readiness(**{**data, "operators": operators, "signed": tuple(data["signed"])})
