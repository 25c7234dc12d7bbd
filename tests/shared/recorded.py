"""Recorded results: same input, same bytes, on every machine. `golden/<table>/results.sha256` holds a digest per case.

    python tests/shared/recorded.py assay-neutron             compare the folder of a run with what is recorded
    python tests/shared/recorded.py --record assay-neutron    record it: after a change that is meant to change results

A line is the digest of a case's line in `results.jsonl` and the case's id; the first line is that of the whole file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from places import ROOT

GOLDEN = ROOT / "golden"
NAME = "results.sha256"
WHOLE = "results.jsonl"
SHOWN = 20
UPDATE = (
    "if that is meant, run `assay certify BACKEND`, then `python tests/shared/recorded.py --record DIR` on its folder"
)


def digest(text: str) -> str:
    """The first 64 bits of a text's sha256: enough to tell a change."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests(results: str) -> dict[str, str]:
    """Digest of all lines of a `results.jsonl` about a table's cases, and of each, by case.

    Variations, and operators beside the table, are not recorded.
    """
    lines = {line: json.loads(line) for line in results.splitlines()}
    kept = {line: result["case"] for line, result in lines.items() if not _is_further(result)}
    return {WHOLE: digest("".join(f"{line}\n" for line in kept))} | {case: digest(line) for line, case in kept.items()}


def _is_further(result: Mapping[str, str]) -> bool:
    asked = tuple(map(result.get, ("constraint", "side", "expect")))
    return asked == ("operator", "accept", "unspecified") or result.get("side") == "variation"


@cache
def recorded(table: str) -> dict[str, str] | None:
    """What is recorded for a table ("neutron@1.3"), or None when nothing is."""
    path = GOLDEN / table / NAME
    if not path.is_file():
        return None
    pairs = (line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    return {case: value for value, case in pairs}


def differences(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """The cases whose results are not the recorded ones, and how."""
    return [
        f"{case}: {_how(found.get(case), expected.get(case))}"
        for case in sorted({*found, *expected})
        if found.get(case) != expected.get(case)
    ]


def _how(found: str | None, expected: str | None) -> str:
    if expected is None:
        return f"found {found}, but nothing is recorded"
    return f"expected {expected}, found {found or 'no such case'}"


def table_of(folder: Path) -> str:
    """The table of a certified folder. Raises SystemExit for a run that proves nothing."""
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    if not certificate["certified"]:
        raise SystemExit(f"{folder}: not certified, so its results are no reference")
    return f"{certificate['table']['name']}@{certificate['table']['version']}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the results of a run with the recorded ones.")
    parser.add_argument("folder", type=Path, help="the folder of a certified run")
    parser.add_argument("--record", action="store_true", help="record its results instead")
    options = parser.parse_args()
    table = table_of(options.folder)
    found = digests((options.folder / WHOLE).read_bytes().decode())
    if options.record:
        (GOLDEN / table).mkdir(parents=True, exist_ok=True)
        text = "".join(f"{value}  {case}\n" for case, value in found.items())
        (GOLDEN / table / NAME).write_text(text, encoding="utf-8", newline="\n")
        return
    expected = recorded(table)
    if expected is None:
        sys.exit(f"no results are recorded for {table}")
    changed = differences(found, expected)
    print("\n".join(changed[:SHOWN] or [f"{len(found) - 1} results are the recorded ones"]))
    if changed:
        sys.exit(f"{len(changed)} differences from golden/{table}/{NAME}; {UPDATE}")


if __name__ == "__main__":
    main()
