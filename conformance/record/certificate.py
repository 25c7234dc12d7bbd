"""The verdict over all cases, and the certificate that states it."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.shapes import OF_ANY_KEY, check_shape
from npu_assay.conformance.fuzz.names import is_program
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.seeds import reseeded
from npu_assay.conformance.programs.variation_names import CHOSEN, HOW, NONE, is_variation
from npu_assay.conformance.record.levels import LEVELS, NUMBERS, named
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.record.shard import Shard
from npu_assay.conformance.record.waivers import Waiver, WaiverError, waived_cases, waiver_of, waiver_problems
from npu_assay.conformance.run.selection import (
    named_variation,
    of_findings,
    random_program,
    select,
    smoke,
    with_variations,
)
from npu_assay.conformance.table import Table

SCHEMA = 4
PATH = "PYTHONPATH"  # in `environment`: the one without which the backend is not found, if there is one
AT_FAULT = "the suite is at fault in"
NOTHING_PROMISED = "the table promises nothing of these operators"
TRUST = "self-declared"  # the most that a certificate can say of itself, see docs/reading-a-certificate.md
SEAL = "sha256"  # the key of the certificate's own digest
COUNTS = ("cases", "pass", "unspecified", "fail", "waived")
UNDECIDED = "undecided"  # a count that is there only when it is not 0
DIGESTS = {OF_ANY_KEY: str}
SHAPE_OF_SELECTION = {"expression": (str, None), "smoke": bool, "seed": int}
SHAPE = {
    "schema": int,
    "suite": {"name": str, "version": str, "sources": DIGESTS},
    "backend": {"name": str, "spec": str, "sources": DIGESTS, "tools": [str]},
    "table": {"name": str, "version": str, "path": (str, None), "sha256": str},
    "environment": {OF_ANY_KEY: str},
    "made": str,
    "selection": SHAPE_OF_SELECTION,
    "waivers": [
        {"case": str, "checks": [str], "reason": str, "owner": str, "expires": str, "max_lsb": (int, None)},
    ],
    "results_sha256": str,
    "reports": DIGESTS,
    SEAL: str,
    "trust": str,
    "level": str,
    "certified": bool,
    "counts": dict.fromkeys(COUNTS, int),
    "objections": [str],
}
SHAPE_OF_SHARD = {"number": int, "of": int}
OF_PARTS = {"shard": SHAPE_OF_SHARD, "variations": str}
"""Keys of a selection that are there only when they are given."""
SHAPE_OF_FUZZ = {"programs": int, "seed": int, "fail": int, "sha256": str}
SHAPE_OF_KEPT = {"cases": int, "again": int, "why": str, "record": str, "made": str}


class CertificateError(UsageError):
    """A certificate that is not what a run writes."""


@dataclass(frozen=True)
class Selection:
    """Which of a table's cases were asked for: `-k` expression and `--smoke`, or all of them.

    seed: of their random numbers, see `reseeded`. It selects nothing: with any seed all cases are run.
    shard: the part of these that ran here; None for all.
    variations: how many of them are asked, one of `HOW`; None for none, in records that know none.
    """

    expression: str | None = None
    smoke: bool = False
    seed: int = 0
    shard: Shard | None = None
    variations: str | None = None

    def of(self, table: Table, cases: Sequence[Case]) -> tuple[Case, ...]:
        """The selected ones of a table's cases, sorted by id, or the random program of that name.

        Raises SelectionError for an unreadable expression.
        """
        if self.is_program:
            return (random_program(cases, str(self.expression)),)
        if self.expression is not None and is_variation(self.expression):
            return tuple(reseeded(case, self.seed) for case in named_variation(table, self.expression, cases))
        cases = with_variations(table, cases, NONE if self.smoke else self.varied, self.expression)
        cases = (*cases, *of_findings(table, self.expression, cases))
        chosen = tuple(cases) if self.expression is None else select(cases, self.expression)
        chosen = smoke(chosen) if self.smoke else chosen
        ordered = tuple(sorted((reseeded(case, self.seed) for case in chosen), key=lambda case: case.id))
        return ordered if self.shard is None else self.shard.part(ordered)

    @property
    def is_program(self) -> bool:
        """Whether one random program was asked for, which need not hold anything that the table promises."""
        return self.expression is not None and is_program(self.expression)

    @property
    def varied(self) -> str:
        """How much of all variations is asked."""
        return NONE if self.variations is None else self.variations

    @property
    def everything(self) -> bool:
        return self.expression is None and not self.smoke and self.shard is None and self.variations != NONE

    @property
    def stride(self) -> tuple[int, int]:
        """The number of the selection's first random program, and the distance from each to the next."""
        return (0, 1) if self.shard is None else (self.shard.number - 1, self.shard.of)

    @property
    def whole(self) -> Selection:
        """The selection without its shard."""
        return replace(self, shard=None)

    @property
    def objection(self) -> str:
        """Why a run of this selection does not certify; "" for a whole run."""
        if self.shard is not None:
            asked = str(self.whole) or "all cases"
            return f"only a whole run certifies, and this is shard {self.shard} of it ({asked}): see 'assay merge'"
        return f"only a selection of the table's cases was run ({self})"

    def __str__(self) -> str:
        parts = ["--smoke"] if self.smoke else []
        parts += [] if self.expression is None else [f"-k {self.expression!r}"]
        parts += [] if self.variations in (None, CHOSEN) else [f"--variations {self.variations}"]
        return " ".join(parts + ([] if self.shard is None else [f"--shard {self.shard}"]))


@dataclass(frozen=True)
class Verdict:
    """certified or not; `objections` are the reasons against, in sentences."""

    certified: bool
    counts: Mapping[str, int]
    objections: tuple[str, ...]


@dataclass(frozen=True)
class Fuzz:
    """The random programs of a run: how many, of which seed, how many fail, and the digest of the file with them.

    undecided: in how many the suite is at fault. A shard counts only its own programs, every `of`-th of the run's.
    """

    programs: int
    seed: int
    fail: int
    sha256: str
    undecided: int = 0

    @property
    def objections(self) -> tuple[str, ...]:
        """Why these random programs speak against certification."""
        failing = (f"{self.fail} of {self.programs} random programs fail",) if self.fail else ()
        return failing + disagreeing(self.undecided, f"{self.programs} random programs")


@dataclass(frozen=True)
class Kept:
    """Answers that a run took from an earlier record.

    cases: how many were taken. again: how many more were asked again, to compare. why: the reason, where none was
    taken, else "". record: the sha256 of the earlier results; made: the date of their run. The record is a file that
    others may have written.
    """

    cases: int
    again: int
    why: str
    record: str
    made: str

    def __str__(self) -> str:
        of = f"of the record of {self.made} (results sha256 {self.record[:12]})"
        if self.why and not self.cases:
            return f"no answer {of} is kept: {self.why}"
        but = f" (of a shard none is kept: {self.why})" if self.why else ""
        return f"{self.cases} answers are those {of}; {self.again} more of it were asked again and are alike{but}"


@dataclass(frozen=True)
class Certificate:
    """What a finished run states. Digests are sha256 in hexadecimal.

    suite, backend: name, version or spec, and `sources`, the digest of each source file by path.
    The backend's `tools` are those of its blob checks that took part; their versions are in `environment`.
    table: name, version, path (None: the backend's own), sha256.
    made: date of the run (UTC), with which the waivers' expiry is compared.
    reports: the digest of each report, by file. trust: always that it is self-declared; whether it is signed,
    or was reproduced, is for others to check. fuzz: of the run's random programs, if there were any.
    level: how far the run looked (`record.levels`), and so what is certified. kept: of a run since an earlier one.
    """

    schema: int
    suite: Mapping[str, Any]
    backend: Mapping[str, Any]
    table: Mapping[str, Any]
    environment: Mapping[str, str]
    made: str
    selection: Selection
    waivers: tuple[Waiver, ...]
    results_sha256: str
    certified: bool
    counts: Mapping[str, int]
    objections: tuple[str, ...]
    reports: Mapping[str, str] = field(default_factory=dict)
    trust: str = TRUST
    fuzz: Fuzz | None = None
    level: str = NUMBERS
    kept: Kept | None = None

    @property
    def undecided(self) -> bool:
        """Whether nothing speaks against the backend, but the suite is at fault in some cases."""
        return bool(self.reservations) and all(text.startswith(AT_FAULT) for text in self.reservations)

    @property
    def reservations(self) -> tuple[str, ...]:
        """Why the run did not pass: the objections but for the one that not all cases were asked for."""
        return tuple(text for text in self.objections if text != self.selection.objection)

    @property
    def passed(self) -> bool:
        """Whether all that was asked for is right. A selection can pass; only a whole run certifies."""
        return self.certified or self.objections == (self.selection.objection,)


def disagreeing(undecided: int, known: str) -> tuple[str, ...]:
    """The objection that the suite is at fault in some of the cases; `known` counts these in words."""
    if not undecided:
        return ()
    return (f"{AT_FAULT} {undecided} of {known}: its goldens disagree, or its own code fails; not the backend",)


def verdict_text(certified: bool, counts: Mapping[str, int], level: str) -> str:
    """The verdict in words, which say its level, if that is not the highest, and how many cases fail and are waived."""
    if not certified:
        return named("not certified", level)
    return named("certified", level) + (
        f" with {counts['waived']} of {counts['cases']} cases failing and waived" if counts["waived"] else ""
    )


def outcome_text(certificate: Certificate, selection: bool = True) -> str:
    """What came of a run in words: the verdict on a whole one; of a part, which it is, and whether it passed.

    A part certifies nothing, whatever it shows; "not certified" would blame the backend. selection: name its -k.
    """
    if certificate.selection.everything:
        return verdict_text(certificate.certified, certificate.counts, certificate.level)
    passed = named("passed" if certificate.passed else "not passed", certificate.level)
    shard, whole = certificate.selection.shard, certificate.selection.whole
    cases = "the cases" if whole.everything else "a selection of the cases"
    part = cases if shard is None else f"shard {shard} of {cases}"
    return f"{passed}, {part}" + f" ({whole})" * (selection and not whole.everything)


def conclude(
    results: Sequence[CaseResult],
    expected: Sequence[Case],
    selection: Selection,
    waivers: Sequence[Waiver],
    today: datetime.date,
    fuzz: Fuzz | None = None,
    known: Collection[str] = (),
) -> Verdict:
    """The verdict on results, given the selected cases. A case that did not run counts as neither passed nor failed.

    known: every case of the table, if only some were selected.
    """
    by_name = {result.case: result for result in results}
    waived = waived_cases(waivers, results, today)
    failing = [r.case for r in results if r.status == "fail"]
    open_failures = [name for name in failing if name not in waived]
    counts = {
        "cases": len(results),
        **{status: sum(r.status == status for r in results) for status in ("pass", "unspecified")},
        "fail": len(open_failures),
        "waived": len(failing) - len(open_failures),
    }
    if undecided := sum(r.status == UNDECIDED for r in results):
        counts[UNDECIDED] = undecided
    silent = bool(results) and all(case.expect == "unspecified" for case in expected)
    objections = [
        *([] if results else ["no case was run"]),
        *([NOTHING_PROMISED] if silent and not (selection.is_program or selection.shard) else []),
        *([] if selection.everything else [selection.objection]),
        *([] if {c.id for c in expected} == set(by_name) else ["the results are not those of the selected cases"]),
        *([f"{len(open_failures)} of {len(results)} cases fail"] if open_failures else []),
        *disagreeing(undecided, f"{len(results)} cases"),
        *(fuzz.objections if fuzz else ()),
        *waiver_problems(waivers, by_name, {*known, *by_name}, today),
    ]
    return Verdict(not objections, counts, tuple(objections))


# ------------------------------------------------------------------------------------ JSON


def certificate_text(certificate: Certificate) -> str:
    """The certificate as JSON, keys sorted, with its own digest and a final newline."""
    data = asdict(certificate)
    if certificate.kept is None:
        del data["kept"]
    if certificate.fuzz is None:
        del data["fuzz"]
    elif not certificate.fuzz.undecided:
        del data["fuzz"][UNDECIDED]
    for key in OF_PARTS:
        if data["selection"][key] is None:
            del data["selection"][key]
    for waiver in data["waivers"]:
        waiver["expires"] = waiver["expires"].isoformat()
    return _json(data | {SEAL: hashlib.sha256(_json(data).encode()).hexdigest()})


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, sort_keys=True) + "\n"


def read_certificate(text: str) -> Certificate:
    """Read what `certificate_text` wrote; its digest is not compared. Raises CertificateError."""
    try:
        return _certificate(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"certificate.json is not a certificate: {error}") from error


def _certificate(data: Any) -> Certificate:
    check_shape(data, _shape(data))
    if data["schema"] != SCHEMA:
        raise ValueError(f"schema {data['schema']!r}, expected {SCHEMA}")
    if data["trust"] != TRUST:
        raise ValueError(f"trust {data['trust']!r:.40}, expected {TRUST!r}: no certificate says more of itself")
    if data["level"] not in LEVELS:
        raise ValueError(f"level {data['level']!r:.40}, expected one of {', '.join(LEVELS)}")
    changed = {
        "selection": _selection(data["selection"]),
        "waivers": tuple(_waiver(waiver, number) for number, waiver in enumerate(data["waivers"], 1)),
        "objections": tuple(data["objections"]),
        "fuzz": Fuzz(**data["fuzz"]) if "fuzz" in data else None,
        "kept": Kept(**data["kept"]) if "kept" in data else None,
    }
    return Certificate(**{key: value for key, value in (data | changed).items() if key != SEAL})


def _selection(data: Mapping[str, Any]) -> Selection:
    """The selection that a certificate states. Raises ValueError for an invalid shard."""
    shard = Shard(**data["shard"]) if "shard" in data else None
    if shard is not None and not 1 <= shard.number <= shard.of:
        raise ValueError(f"found shard {shard}, expected one of 1/{shard.of} to {shard.of}/{shard.of}")
    if data.get("variations", NONE) not in HOW:
        raise ValueError(f"variations: found {data['variations']!r:.40}, expected one of {', '.join(HOW)}")
    return Selection(**{**data, "shard": shard})


def _shape(data: Any) -> Mapping[str, Any]:
    """The expected keys and types, with the optional keys that this certificate has."""
    optional = dict[str, Any]()
    if isinstance(data, dict) and "fuzz" in data:
        optional |= {"fuzz": SHAPE_OF_FUZZ | _counted(data["fuzz"])}
    if isinstance(data, dict) and "kept" in data:
        optional |= {"kept": SHAPE_OF_KEPT}
    if isinstance(data, dict) and _counted(data.get("counts")):
        optional |= {"counts": dict.fromkeys((*COUNTS, UNDECIDED), int)}
    if isinstance(data, dict) and isinstance(data.get("selection"), dict):
        given = {key: shape for key, shape in OF_PARTS.items() if key in data["selection"]}
        optional |= {"selection": SHAPE_OF_SELECTION | given}
    return SHAPE | optional


def _counted(data: Any) -> dict[str, type[int]]:
    return {UNDECIDED: int} if isinstance(data, dict) and UNDECIDED in data else {}


def _waiver(data: Mapping[str, Any], number: int) -> Waiver:
    try:
        return waiver_of({**data, "expires": datetime.date.fromisoformat(data["expires"])}, f"waiver {number}")
    except WaiverError as error:
        raise ValueError(str(error)) from error
