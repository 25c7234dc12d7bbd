"""The command: `python -m benchmarks.mutants VENDOR`."""

from __future__ import annotations

import argparse
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.mutants.lines import Lines, executed
from benchmarks.mutants.sites import Site, changed, sites
from benchmarks.mutants.trials import Verdict, trial
from npu_assay.conformance.graph import Case
from npu_assay.conformance.selection import all_cases
from npu_assay.conformance.table import Table, load_table

ROOT = Path(__file__).resolve().parents[2]
VENDORS = {
    "neutron": ("neutron@1.3", ("neutron", "common")),
    "xnnpack": ("xnnpack@1.5", ("xnnpack",)),
    "ethos-u55": ("ethos_u55@1.5", ("ethosu", "common")),
    "ethos-u85": ("ethos_u85@1.5", ("ethosu", "common")),
}
PARTS = {"support": "rules", "configs": "rules", "partitioner.py": "rules", "patterns.py": "rules"}
MOST = 300
"""Cases that a mutant is tried on."""


def files(vendor: str) -> list[Path]:
    """The modules that may be changed: all but the faults that are kept as catalogues."""
    folders = (ROOT / "partitioners" / folder for folder in VENDORS[vendor][1])
    found = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return [path for path in found if "faults" not in path.parts]


def part(file: str) -> str:
    """Rules, or compilers and devices."""
    return next((kind for name, kind in PARTS.items() if name in Path(file).parts), "compilers and devices")


def drawn(lines: Lines, vendor: str, count: int, seed: int) -> list[Site]:
    """Changes of lines that cases execute, in an order that the seed gives."""
    known = [site for file in files(vendor) for site in sites(ROOT, file) if lines.get(site.file, {}).get(site.line)]
    random.Random(seed).shuffle(known)
    return known[:count]


def ordered(numbers: Sequence[int], cases: Sequence[Case]) -> list[Case]:
    """Some of the cases, of every row, constraint and side first one."""
    groups: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for number in numbers:
        case = cases[number]
        groups[case.row, case.constraint, case.side].append(case)
    rounds = max(map(len, groups.values()))
    turns = (group[index] for index in range(rounds) for group in groups.values() if index < len(group))
    return list(turns)[:MOST]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vendor", choices=sorted(VENDORS))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="that a mutant may take")
    parser.add_argument("--out", type=Path, default=None, help="records, a line each; read again where they stand")
    parser.add_argument("-n", type=int, default=2, help="processes")
    options = parser.parse_args()
    out = options.out or Path(f"mutants-{options.vendor}.jsonl")
    torch.set_num_threads(1)
    table = load_table(VENDORS[options.vendor][0])
    cases = all_cases(table)
    lines = _lines(options.vendor, table, cases, out.with_suffix(".lines.json"))
    known = _known(out)
    asked = [site for site in drawn(lines, options.vendor, options.count, options.seed) if site.id not in known]
    parts = [asked[index :: options.n] for index in range(options.n)]
    children = []
    for index, mine in enumerate(parts):
        child = os.fork()
        if child == 0:
            _try(options.vendor, table, cases, lines, mine, out, options.seconds)
            os._exit(0)
        children.append((index, child))
    for _, child in children:
        os.waitpid(child, 0)
    print(summary(_known(out)))


def _lines(vendor: str, table: Table, cases: Sequence[Case], cache: Path) -> Lines:
    """In a process of its own: this one never loads the vendor."""
    if not cache.exists():
        process = get_context("fork").Process(target=executed, args=(vendor, table, cases, ROOT, files(vendor), cache))
        process.start()
        process.join()
    return executed(vendor, table, cases, ROOT, files(vendor), cache)


def _known(out: Path) -> dict[str, dict[str, object]]:
    if not out.exists():
        return {}
    return {record["id"]: record for record in map(json.loads, out.read_text().splitlines())}


def _try(
    vendor: str, table: Table, cases: Sequence[Case], lines: Lines, asked: Sequence[Site], out: Path, seconds: float
) -> None:
    for site in asked:
        mine = ordered(lines[site.file][site.line], cases)
        verdict = trial(vendor, table, mine, ROOT, site.file, changed(ROOT, site), seconds)
        record = {"id": site.id, "part": part(site.file), "text": site.text, **_written(verdict)}
        with out.open("a") as file:
            file.write(json.dumps(record) + "\n")


def _written(verdict: Verdict) -> dict[str, object]:
    return {"killed": verdict.killed, "how": verdict.how, "cases": verdict.cases}


def summary(records: dict[str, dict[str, object]]) -> str:
    """Kill rates by part, and the survivors."""
    return "\n".join([*_rates(records), *_survivors(records)])


def _rates(records: dict[str, dict[str, object]]) -> Iterator[str]:
    killed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for record in records.values():
        total[str(record["part"])] += 1
        killed[str(record["part"])] += bool(record["killed"])
    for name in sorted(total):
        yield f"{name}: {killed[name]} of {total[name]} killed, {killed[name] / total[name]:.1%}"


def _survivors(records: dict[str, dict[str, object]]) -> Iterator[str]:
    for record in sorted(records.values(), key=lambda record: str(record["id"])):
        if not record["killed"]:
            yield f"survives {record['cases']} cases: {record['id']}  {record['text']}"


if __name__ == "__main__":
    main()
