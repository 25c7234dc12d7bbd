"""The tables of docs/lab/mutants.md, from records that are kept: `python -m benchmarks.mutants.measured` prints them.

A file of records is called VENDOR-SEED.jsonl.xz, one of headlines VENDOR-SEED-headlines.jsonl.xz, and one of survivors
that were judged again, after what they showed was mended, VENDOR-SEED-again.jsonl.xz. none.toml says of mutants why
nothing can tell them from what they were made of, or that the code went in which they stood.
"""

from __future__ import annotations

import json
import lzma
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.__main__ import ROOT, rate, summary
from benchmarks.mutants.headlines import DELEGATION, right_kind, right_place, told

FOLDER = ROOT / "docs" / "reports" / "raw" / "mutants"
HEADLINES, AGAIN = "-headlines", "-again"
Record = Mapping[str, Any]


def records(path: Path) -> list[Record]:
    """The records of a file, each mutant once."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return list({record["id"]: record for record in map(json.loads, lines)}.values())


def kept(kind: str, folder: Path = FOLDER) -> dict[str, list[Record]]:
    """By vendor and seed, the records of one kind: "" for what killed mutants, HEADLINES, or AGAIN."""
    found = {path.name.removesuffix(".jsonl.xz"): path for path in sorted(folder.glob("*.jsonl.xz"))}
    return {
        "`{}`, {}".format(*name.removesuffix(kind).rsplit("-", 1)): records(path)
        for name, path in found.items()
        if name.endswith(kind) and (kind or not name.endswith((HEADLINES, AGAIN)))
    }


def none(folder: Path = FOLDER) -> dict[str, str]:
    """Why mutants cannot be killed, by id."""
    path = folder / "none.toml"
    return dict(tomllib.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def rates(folder: Path = FOLDER) -> Iterator[str]:
    """A row for each vendor, seed and part: as it was drawn, and now, without those that cannot be killed."""
    again, left_out = kept(AGAIN, folder), none(folder)
    for name, mine in kept("", folder).items():
        now = {record["id"] for record in again.get(name, ()) if record["killed"]}
        for part in ("rules", "compilers and devices"):
            of = [record for record in mine if record["part"] == part]
            killed = sum(record["killed"] for record in of)
            row = f"| {name} | {part} | {killed} of {len(of)} | {rate(killed, len(of))} |"
            can = [record for record in of if record["killed"] or record["id"] not in left_out]
            alive = sum(not record["killed"] and record["id"] not in now for record in can)
            ends = f"{len(can) - alive} of {len(can)}, {100 * (1 - alive / len(can)):.1f} %"
            yield f"{row} {ends if name in again else 'not judged again'} |"


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
    print("\n".join([*rates(), "", *headlines(kept(HEADLINES))]))
    for name, mine in kept("").items():
        print("", name, summary({str(record["id"]): dict(record) for record in mine}), sep="\n")


if __name__ == "__main__":
    main()
