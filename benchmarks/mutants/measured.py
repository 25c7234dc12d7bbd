"""The tables of docs/faults.md, from records that are kept: `python -m benchmarks.mutants.measured` prints them.

A file of records is called VENDOR-SEED.jsonl.xz, one of headlines VENDOR-SEED-headlines.jsonl.xz.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.__main__ import ROOT, rate, summary
from benchmarks.mutants.headlines import DELEGATION, right_kind, right_place, told

FOLDER = ROOT / "docs" / "reports" / "raw" / "mutants"
HEADLINES = "-headlines"
Record = Mapping[str, Any]


def records(path: Path) -> list[Record]:
    """The records of a file, each mutant once."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return list({record["id"]: record for record in map(json.loads, lines)}.values())


def kept(headlines: bool, folder: Path = FOLDER) -> dict[str, list[Record]]:
    """By vendor and seed, the records of what killed mutants, or of headlines."""
    found = {path.name.removesuffix(".jsonl.xz"): path for path in sorted(folder.glob("*.jsonl.xz"))}
    return {
        "`{}`, {}".format(*name.removesuffix(HEADLINES).rsplit("-", 1)): records(path)
        for name, path in found.items()
        if name.endswith(HEADLINES) is headlines
    }


def rates(found: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """A row for each vendor, seed and part."""
    for name, mine in found.items():
        for part in ("rules", "compilers and devices"):
            of = [record for record in mine if record["part"] == part]
            killed = sum(record["killed"] for record in of)
            yield f"| {name} | {part} | {killed} of {len(of)} | {rate(killed, len(of))} |"


def headlines(found: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """A row for each vendor and seed."""
    for name, mine in found.items():
        shown = told(mine)
        kinds = [right_kind(record) for record in shown]
        places = [right_place(record) for record in shown]
        errors = sum(record["headline"].startswith("An error") for record in shown)
        delegation = sum(record["headline"].startswith(DELEGATION) for record in shown)
        what = f"{errors} | {delegation} | {len(shown) - errors - delegation}"
        right = sum(map(all, zip(kinds, places, strict=True)))
        wrong = f"{kinds.count(False)} | {places.count(False)}"
        yield f"| {name} | {len(mine)} | {len(shown)} | {what} | {right} | {wrong} |"


def main() -> None:
    print("\n".join([*rates(kept(False)), "", *headlines(kept(True))]))
    for name, mine in kept(False).items():
        print("", name, summary({str(record["id"]): dict(record) for record in mine}), sep="\n")


if __name__ == "__main__":
    main()
