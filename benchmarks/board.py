"""How long `assay board` takes for many runs: first, again, and again with one new run.

    python -m benchmarks.board --runs 200 --cases 10000

Runs are made up: one backend out of four in 50 releases, a few cases failing in each, others from release to release.
Prints seconds, and seconds in all to seconds of one run, which a site of twice as many runs must not more than double.
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from npu_assay.conformance.board.building import build
from npu_assay.conformance.board.ready_runs import Asking
from npu_assay.conformance.commands.shared import cores
from npu_assay.conformance.record.certificate import SCHEMA, Certificate, Selection, certificate_text
from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS
from npu_assay.conformance.record.results import METRICS, CaseResult, Failure, to_line

BACKENDS = ("alpha", "beta", "gamma", "delta")
ROWS = 60
FAILING = 40  # cases in each run
FIRST = datetime.date(2025, 1, 1)


def result(number: int) -> CaseResult:
    """A passing case, of the size that a real one has."""
    row = f"aten.operator_{number % ROWS:02}.default"
    return CaseResult(
        case=f"{row}/operator/accept/made_up_{number:06}",
        row=row,
        constraint="operator",
        side="accept",
        expect="accept",
        reason=None,
        program=f"{number:064x}",
        verdict="accept",
        reasons=(),
        status="pass",
        failures=(),
        metrics=dict.fromkeys(METRICS, 0.125),
        partitions=1,
        blobs=(f"{number:064x}",),
        checks=dict.fromkeys(("delegates", "determinism", "dtype", "empty", "finite", "gate1", "gate2", "shape"), 0),
    )


def failed(one: CaseResult) -> CaseResult:
    """The same case with numbers that are wrong."""
    return replace(one, status="fail", failures=(Failure("gate1", "out[0] = 67, expected 80 (exact)"),))


def certificate(backend: str, release: int, digest: str, cases: int) -> Certificate:
    """What such a run states."""
    counts = {"cases": cases, "pass": cases - FAILING, "unspecified": 0, "fail": FAILING, "waived": 0}
    return Certificate(
        schema=SCHEMA,
        suite={"name": "npu-assay", "version": "0.1.0", "sources": {}},
        backend={"name": backend, "spec": backend, "sources": {}, "tools": []},
        table={"name": backend, "version": f"1.{release}", "path": None, "sha256": "0" * 64},
        environment={"python": "3.11"},
        made=(FIRST + datetime.timedelta(days=release)).isoformat(),
        selection=Selection(),
        waivers=(),
        results_sha256=digest,
        certified=False,
        counts=counts,
        objections=(f"{FAILING} of {cases} cases fail",),
    )


def made(folder: Path, runs: int, cases: int) -> Iterator[Path]:
    """The folders of so many runs, each written as it is asked for."""
    results = sorted(map(result, range(cases)), key=lambda one: one.case)
    right, wrong = [to_line(one) + "\n" for one in results], [to_line(failed(one)) + "\n" for one in results]
    for number in range(runs):
        backend, release = BACKENDS[number % len(BACKENDS)], number // len(BACKENDS)
        lines = list(right)
        for place in range(FAILING):
            at = (release * 7 + place * (cases // FAILING)) % cases
            lines[at] = wrong[at]
        text = "".join(lines)
        path = folder / f"{backend}-{release:03}"
        path.mkdir()
        (path / RESULTS).write_text(text)
        (path / CERTIFICATE).write_text(certificate_text(certificate(backend, release, sha256(text), cases)))
        yield path


def seconds(paths: Sequence[Path], site: Path, workers: int) -> tuple[float, int]:
    """How long a build takes, and how many runs it read."""
    start = time.perf_counter()
    built = build([str(path) for path in paths], site, Asking(workers=workers))
    return time.perf_counter() - start, built.runs.fresh


def main() -> None:
    parser = argparse.ArgumentParser(description="Time 'assay board' on made-up runs.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("-n", type=int, default=cores(), help="processes")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, site = Path(name, "runs"), Path(name, "site")
        folder.mkdir()
        paths = list(made(folder, asked.runs, asked.cases))
        one, _ = seconds(paths[:1], Path(name, "one"), 1)
        print(f"one run of {asked.cases} cases: {one:.2f} s")
        for what, chosen in (("all but one", paths[:-1]), ("again", paths[:-1]), ("one more", paths)):
            taken, fresh = seconds(chosen, site, asked.n)
            print(
                f"{what}: {len(chosen)} runs, {fresh} read: {taken:.2f} s, {taken / one:.1f} times as long as one run"
            )
        size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
        largest = max(path.stat().st_size for path in site.rglob("*.html"))
        print(f"the site has {size / 2**20:.1f} MiB, its largest page {largest / 2**10:.0f} KiB")


if __name__ == "__main__":
    main()
