"""The command: `python -m benchmarks.mutants VENDOR`."""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import math
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.mutants.answers import program_of
from benchmarks.mutants.headlines import Headlines, counted
from benchmarks.mutants.lines import Executed, Lines, executed
from benchmarks.mutants.pins import RECORDED, SNAPSHOT, Pins
from benchmarks.mutants.sites import Site, changed, sites
from benchmarks.mutants.trials import PACKAGE, TYPES, UNIT_TESTS, Judges, Tried, Verdict
from benchmarks.mutants.types_checked import Checked
from benchmarks.mutants.unit_tests import Tests, judged, traced
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, load_table

ROOT = Path(__file__).resolve().parents[2]
VENDORS = {
    "neutron": ("neutron@1.3", ("neutron", "common")),
    "xnnpack": ("xnnpack@1.5", ("xnnpack", "common")),
    "ethos-u55": ("ethos_u55@1.5", ("ethosu", "common")),
    "ethos-u85": ("ethos_u85@1.5", ("ethosu", "common")),
}
RULES = frozenset({"support", "operators", "configs", "tosa_rules", "rules.py", "partitioner.py", "patterns.py"})
"""Folders and modules of rules: what a row of an operator says is one, too."""
SPREAD = 1.959964
"""Standard deviations on either side of the middle between which 95 % of a normal distribution lie."""
MOST = 2500
"""Cases that a mutant is tried on."""


def files(vendor: str) -> list[Path]:
    """The modules that may be changed."""
    folders = (ROOT / "partitioners" / folder for folder in VENDORS[vendor][1])
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def part(file: str) -> str:
    """Rules, or compilers and devices."""
    return "compilers and devices" if RULES.isdisjoint(Path(file).parts) else "rules"


def drawn(lines: Lines, vendor: str, count: int, seed: int, only: tuple[str, ...] = ("",)) -> list[Site]:
    """Changes of lines that cases execute, in an order that the seed gives; those whose ids begin as one of `only`."""
    known = [site for file in files(vendor) for site in sites(ROOT, file) if lines.get(site.file, {}).get(site.line)]
    random.Random(seed).shuffle(known)
    return [site for site in known if f"{site.id}:".startswith(only)][:count]


def ordered(numbers: Sequence[int], cases: Sequence[Tried]) -> list[Tried]:
    """Some of the cases: in turn the next row, constraint and side, and the next variant of a precision."""
    by_row = _turns(numbers, lambda number: _row(cases[number].case))
    by_variant = _turns(numbers, lambda number: _variant(cases[number].case))
    both = (case for pair in zip(by_row, by_variant, strict=True) for case in pair)
    return [cases[number] for number in list(dict.fromkeys(both))[:MOST]]


def _row(case: Case) -> Hashable:
    return case.row, case.constraint, case.side


def _variant(case: Case) -> Hashable:
    return case.precision, *case.id.split("/")[-3:]


def _turns(numbers: Sequence[int], kind: Callable[[int], Hashable]) -> list[int]:
    """The first of every kind, then the second of every kind, and so on."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number in numbers:
        groups[kind(number)].append(number)
    rounds = max(map(len, groups.values()))
    return [group[index] for index in range(rounds) for group in groups.values() if index < len(group)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vendor", choices=sorted(VENDORS))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[""], help="the beginnings of ids: FILE, FILE:LINE, or an id")
    parser.add_argument("--seconds", type=float, default=120.0, help="of processor time that a mutant may take")
    parser.add_argument("--out", type=Path, default=None, help="records, a line each; read again where they stand")
    parser.add_argument("--headlines", action="store_true", help="record what a report says first of each mutant")
    parser.add_argument("-n", type=int, default=2, help="processes")
    options = parser.parse_args()
    out = options.out or Path(f"mutants-{options.vendor}.jsonl")
    torch.set_num_threads(1)
    table = load_table(VENDORS[options.vendor][0])
    cases = all_cases(table)
    found = _executed(options.vendor, table, cases, out.with_name(f"{options.vendor}.lines.pickle"))
    tests = partial(
        traced,
        VENDORS[options.vendor][1],
        ROOT,
        files(options.vendor),
        out.with_name(f"{options.vendor}.tests.json"),
    )
    _loaded(found.modules, options.vendor)
    judges = Judges(options.vendor, table, Pins.of(table, ROOT), ROOT, options.seconds)
    tried = [Tried(case, program_of(case, table), of) for case, of in zip(cases, found.answers, strict=True)]
    if options.headlines:
        work: Work | Asking = Asking(Headlines(judges, tried, found.lines, found.stages, options.seed), out)
    else:
        work = Work(judges, tried, found, tests(), out)
    known = _known(out)
    gc.freeze()
    sites_of = drawn(found.lines, options.vendor, options.count, options.seed, tuple(options.only))
    asked = [site for site in sites_of if site.id not in known]
    children = []
    for index in range(options.n):
        child = os.fork()
        if child == 0:
            work.on(asked[index :: options.n])
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    known = _known(out)
    print("\n".join(counted(list(known.values()))) if options.headlines else summary(known))


def _executed(vendor: str, table: Table, cases: Sequence[Case], cache: Path) -> Executed:
    """In a process of its own: this one never loads the vendor.

    Raises RuntimeError where that process does not end well.
    """
    arguments = (vendor, table, cases, ROOT, files(vendor), cache)
    process = get_context("fork").Process(target=executed, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{vendor}: the lines that cases execute are not known")
    return executed(*arguments)


def _loaded(modules: Sequence[str], vendor: str) -> None:
    """Import what the vendor needs of others, once for all mutants."""
    own = tuple(f"{PACKAGE}.partitioners.{folder}" for folder in VENDORS[vendor][1])
    for name in modules:
        if not f"{name}.".startswith(tuple(f"{each}." for each in own)) and name not in sys.modules:
            with suppress(Exception):  # a name that is put there by hand, and is no module that can be imported
                importlib.import_module(name)


@dataclass(frozen=True)
class Work:
    """What mutants are judged by, and the file that their records go to."""

    judges: Judges
    cases: Sequence[Tried]
    found: Executed
    tests: Tests
    out: Path

    def on(self, asked: Sequence[Site]) -> None:
        """Judge mutants one after the other."""
        with TemporaryDirectory() as folder:
            checked = Checked.of(ROOT, Path(folder) / "project")
            for site in asked:
                verdict = self._verdict(site, checked)
                record = {"id": site.id, "part": part(site.file), "text": site.text, "guards": site.guards}
                told = {"killed": verdict.killed, "how": verdict.how, "cases": verdict.cases}
                with self.out.open("a") as file:
                    file.write(json.dumps({**record, **told}) + "\n")

    def _verdict(self, site: Site, checked: Checked) -> Verdict:
        tree = changed(ROOT, site)
        by_cases, by_tests = partial(self._by_cases, site, tree), partial(self._by_tests, site, tree)
        verdicts = []
        for judge in (by_tests, by_cases) if site.guards else (by_cases, by_tests):
            verdicts.append(judge())
            if verdicts[-1].killed:
                return verdicts[-1]
        return replace(checked.judged(site), cases=max(verdict.cases for verdict in verdicts))

    def _by_cases(self, site: Site, tree: ast.Module) -> Verdict:
        cases = ordered(self.found.lines[site.file][site.line], self.cases)
        return self.judges.trial(cases, self.found.stages[site.file][site.line], site.file, tree)

    def _by_tests(self, site: Site, tree: ast.Module) -> Verdict:
        tests = self.tests.get(site.file, {}).get(site.line, [])
        return judged(tests, ROOT, site.file, tree, 2 * self.judges.seconds) if tests else Verdict(False, "-", 0)


@dataclass(frozen=True)
class Asking:
    """What asks for headlines, and the file that records go to."""

    headlines: Headlines
    out: Path

    def on(self, asked: Sequence[Site]) -> None:
        """Ask for the headlines of mutants one after the other; guards have no cases that show them."""
        for site in (each for each in asked if not each.guards):
            record = {"id": site.id, "part": part(site.file), "text": site.text}
            with self.out.open("a") as file:
                file.write(json.dumps({**record, **self.headlines.of(site, changed(ROOT, site))}) + "\n")


def _known(out: Path) -> dict[str, dict[str, object]]:
    if not out.exists():
        return {}
    return {record["id"]: record for record in map(json.loads, out.read_text().splitlines())}


def summary(records: dict[str, dict[str, object]]) -> str:
    """Kill rates by part, and the survivors."""
    return "\n".join([*_rates(records), *_survivors(records)])


def _rates(records: dict[str, dict[str, object]]) -> Iterator[str]:
    for name in sorted({str(record["part"]) for record in records.values()}):
        mine = [record for record in records.values() if record["part"] == name]
        how = Counter(_judge(str(record["how"])) for record in mine if record["killed"])
        told = ", ".join(f"{count} by {judge}" for judge, count in how.most_common())
        yield f"{name}: {how.total()} of {len(mine)} killed, {rate(how.total(), len(mine))}: {told}"
        alone = sum(_by_cases(record) for record in mine)
        yield f"{name}: {alone} by cases, or by unit tests where it guards, {rate(alone, len(mine))}"


def rate(part: int, whole: int) -> str:
    """A share with its interval."""
    low, high = interval(part, whole)
    return f"{100 * part / whole:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def interval(part: int, whole: int) -> tuple[float, float]:
    """Where the share of all lies with 95 %, when so many of a sample have it. Source: E. B. Wilson, 1927."""
    share, spread = part / whole, SPREAD**2 / whole
    middle, width = share + spread / 2, math.sqrt(spread * share * (1 - share) + spread**2 / 4)
    return max(0.0, (middle - width) / (1 + spread)), min(1.0, (middle + width) / (1 + spread))


def _by_cases(record: dict[str, object]) -> bool:
    """Whether certify, or where the line guards against bad files and arguments a unit test, kills the mutant."""
    judge = _judge(str(record["how"]))
    return bool(record["killed"]) and (judge == "cases" or (judge == UNIT_TESTS and bool(record["guards"])))


def _judge(how: str) -> str:
    return next((name for name in (UNIT_TESTS, SNAPSHOT, RECORDED, TYPES) if how.startswith(name)), "cases")


def _survivors(records: dict[str, dict[str, object]]) -> Iterator[str]:
    for record in sorted(records.values(), key=lambda record: str(record["id"])):
        if not record["killed"]:
            yield f"survives {record['cases']} cases: {record['id']}  {record['text']}"


if __name__ == "__main__":
    main()
