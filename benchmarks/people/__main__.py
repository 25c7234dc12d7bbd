"""Which of the faults that people make `assay certify` notices, and which survive.

Run from the repository:

    python -m benchmarks.people                    the cases of the rows that each fault concerns
    python -m benchmarks.people --whole            all cases of the table
    python -m benchmarks.people -k ethosu --json   some of them, as JSON lines

Each backend is certified in processes of its own, by its name and nothing else: the programs in `witnesses` are not
asked. Printed are the first finding of each that is noticed, and the share by stage with its 95 % interval (Wilson).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.mutants.__main__ import rate
from benchmarks.people import Mistake, mistakes

ROOT = Path(__file__).parent.parent.parent
FAILED = 1
"""What `assay certify` ends with when a case fails."""


def finding(mistake: Mistake, options: Sequence[str], whole: bool) -> str:
    """The first case that fails, and how; "" when all pass. Raises RuntimeError where it is not certified at all."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record"
        rows = () if whole else ("-k", mistake.rows)
        command = [sys.executable, "-m", "npu_assay", "certify", mistake.spec, *rows, "--out", str(record), *options]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if run.returncode not in (0, FAILED):
            raise RuntimeError(f"{mistake.spec}: certify ended with {run.returncode}: {run.stderr[-500:]}")
        found = next(_failures(record / "results.jsonl"), "")
        if bool(found) != (run.returncode == FAILED):
            raise RuntimeError(f"{mistake.spec}: certify ended with {run.returncode}, but the record says {found!r}")
        return found


def _failures(results: Path) -> Iterator[str]:
    for line in results.read_text().splitlines():
        result = json.loads(line)
        for failure in result.get("failures", ()):
            yield f"{result['case']} [{failure['check']}] {failure['message']}"


def told(mistake: Mistake, found: str) -> str:
    """A line about one fault."""
    where = f"{mistake.backend.name:12} {mistake.stage:9} {mistake.spec.partition(':')[2]:32}"
    return f"{'noticed ' if found else 'survives'} {where} {found[:160] or f'{mistake.wrong} As {mistake.source}.'}"


def shares(found: dict[str, list[bool]]) -> Iterator[str]:
    """The share of each stage and of all that is noticed."""
    for stage, noticed in {**found, "all": [one for several in found.values() for one in several]}.items():
        if noticed:
            yield f"{stage}: {sum(noticed)} of {len(noticed)} noticed, {rate(sum(noticed), len(noticed))}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Which faults that people make `assay certify` notices.")
    parser.add_argument("-k", dest="part", default="", help="only those with this in module:name, stage or backend")
    parser.add_argument("--whole", action="store_true", help="all cases of the table, not those of the rows concerned")
    parser.add_argument("--variations", help="passed on to certify: none, chosen or all")
    parser.add_argument("-n", type=int, default=2, help="processes of each run")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each fault")
    asked = parser.parse_args()
    options = ["-n", str(asked.n), *(() if asked.variations is None else ("--variations", asked.variations))]
    found: dict[str, list[bool]] = {"rule": [], "compiler": [], "device": []}
    for one in mistakes():
        if asked.part not in f"{one.spec} {one.stage} {one.backend.name}":
            continue
        first = finding(one, options, asked.whole)
        found[one.stage].append(bool(first))
        record = {"fault": one.spec, "backend": one.backend.name, "stage": one.stage, "source": one.source}
        print(json.dumps({**record, "found": first}) if asked.json else told(one, first), flush=True)
    print(*shares(found), sep="\n", file=sys.stderr if asked.json else sys.stdout)


if __name__ == "__main__":
    main()
