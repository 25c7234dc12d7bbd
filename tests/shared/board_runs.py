"""Runs for the tests of boards: made up, with results that are chosen, in folders as a run writes them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from npu_assay.conformance.record.certificate import SCHEMA, Certificate, Selection, certificate_text
from npu_assay.conformance.record.folder import results_text, sha256
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS
from npu_assay.conformance.record.results import METRICS, CaseResult, Failure, Reason
from npu_assay.conformance.record.waivers import Waiver, waived_cases

DAY = datetime.date(2026, 3, 1)
ROWS = ("aten.abs.default", "aten.neg.default", "aten.cat.default")
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">\x00\x1b[31m"


def case(row: str, number: int) -> str:
    return f"{row}/operator/accept/made_up_{number}"


def result(name: str, status: str = "pass", verdict: str = "accept", message: str = "out[0] = 1") -> CaseResult:
    """One result. A failing one has wrong numbers, or crashed with a message of its own."""
    check = "gate1" if message.startswith("out") else "crash"
    return CaseResult(
        case=name,
        row=name.partition("/")[0],
        constraint="operator",
        side="accept",
        expect="accept",
        reason=None,
        program="0" * 64,
        verdict=verdict,
        reasons=() if verdict == "accept" else (Reason("mood", "a bad one", "the mood must be good"),),
        status=status,
        failures=(Failure(check, message),) if status == "fail" else (),
        metrics=dict.fromkeys(METRICS),
        partitions=0,
        blobs=(),
        checks={},
    )


def results(count: int = 4, failing: Mapping[str, str] | None = None) -> list[CaseResult]:
    """So many results of every row; `failing` says which ones fail, with what message."""
    bad = failing or {}
    names = [case(row, number) for row in ROWS for number in range(count)]
    return [result(name, "fail", message=bad[name]) if name in bad else result(name) for name in names]


def write(
    folder: Path,
    found: Sequence[CaseResult],
    backend: str = "toy",
    version: str = "1.0",
    made: datetime.date = DAY,
    waivers: tuple[Waiver, ...] = (),
    selection: Selection | None = None,
    level: str = "numbers",
    certified: bool = True,
) -> Path:
    """A run's certificate and results."""
    waived = waived_cases(waivers, found, made)
    failing = sum(one.status == "fail" for one in found) - len(waived)
    counts = {
        "cases": len(found),
        "pass": sum(one.status == "pass" for one in found),
        "unspecified": sum(one.status == "unspecified" for one in found),
        "fail": failing,
        "waived": len(waived),
    }
    text, asked = results_text(found), selection or Selection()
    objections = [] if asked.everything else [asked.objection]
    objections += [f"{failing} of {len(found)} cases fail"] if failing else []
    certificate = Certificate(
        schema=SCHEMA,
        suite={"name": "npu-assay", "version": "0.1.0", "sources": {}},
        backend={"name": backend, "spec": backend, "sources": {}, "tools": []},
        table={"name": "toy", "version": version, "path": None, "sha256": "0" * 64},
        environment={"python": "3.11"},
        made=made.isoformat(),
        selection=asked,
        waivers=waivers,
        results_sha256=sha256(text),
        certified=certified and not failing and asked.everything,
        counts=counts,
        objections=tuple(objections),
        level=level,
    )
    folder.mkdir(parents=True)
    (folder / RESULTS).write_text(text)
    (folder / CERTIFICATE).write_text(certificate_text(certificate))
    return folder


def three(folder: Path) -> list[Path]:
    """A history: two cases fail, one of them is mended while another breaks, all is right."""
    a, b, c = (case(row, 1) for row in ROWS)
    return [
        write(folder / "r1", results(failing={a: "out[0] = 1", b: "compile: ValueError: no"}), version="1.9"),
        write(folder / "r2", results(failing={b: "compile: ValueError: no", c: "out[0] = 2"}), version="1.10"),
        write(folder / "r3", results(5), version="1.11", made=DAY + datetime.timedelta(days=1)),
    ]


def hostile(folder: Path) -> Path:
    """A run whose texts would break careless markup, in every place that a backend, a table or a path can fill."""
    row = f"{HOSTILE}"
    bad = [replace(result(f"{row}/x/y/{n}", "fail", message=HOSTILE), row=row) for n in range(3)]
    waivers = (Waiver(bad[0].case, ("crash",), HOSTILE, HOSTILE, DAY),)
    asked = Selection(HOSTILE)
    return write(folder / "bad<img src=x>", bad, HOSTILE, version=HOSTILE[:20], waivers=waivers, selection=asked)
