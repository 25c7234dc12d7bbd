"""The unit tests that execute a line, and a mutant judged by them."""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.mutants.lines import Watch, by_number, fingerprint, read
from benchmarks.mutants.trials import UNIT_TESTS, Mutated, Verdict, in_a_process

MOST = 400
"""Tests that a mutant is tried on: of those that execute its line, those that execute the fewest lines first."""

Tests = dict[str, dict[int, list[str]]]
"""File -> line -> tests that execute it, those first that execute little else."""

OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Pytest warns of plugins that are loaded already: here they are."""


def named(folders: Sequence[str], root: Path) -> list[str]:
    """The files of tests of some vendors' folders."""
    places = [root / "tests" / "partitioners" / folder for folder in folders]
    return [path.relative_to(root).as_posix() for place in places for path in sorted(place.rglob("test_*.py"))]


def traced(folders: Sequence[str], root: Path, files: Sequence[Path], cache: Path) -> Tests:
    """The tests that execute each line; read from `cache` where it was written of files and tests as they are."""
    asked = named(folders, root)
    known = fingerprint([*files, *(root / test for test in asked)])
    stored = read(cache, known)
    if stored is None:
        in_a_process(lambda: _traced(asked, root, files, cache, known), seconds=3600.0)
        stored = read(cache, known)
    if stored is None:
        raise RuntimeError(f"pytest {' '.join(asked)}: ended without a result")
    return by_number(stored["lines"])


def _traced(asked: Sequence[str], root: Path, files: Sequence[Path], cache: Path, known: str) -> str:
    os.chdir(root)
    watching = _Watching(Watch(root, files))
    pytest.main([*OPTIONS, *asked], plugins=[watching])
    found: dict[str, dict[int, list[str]]] = {}
    for test, seen in sorted(watching.passed(), key=lambda each: len(each[1])):
        for file, line in sorted(seen):
            found.setdefault(file, {}).setdefault(line, []).append(test)
    cache.write_text(json.dumps({"of": known, "lines": found}))
    return "0 0 done"


class _Watching:
    """A plugin of pytest that notes what each test executes, and which tests fail with nothing changed."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.seen: dict[str, set[tuple[str, int]]] = {}
        self.failed = set[str]()

    def passed(self) -> list[tuple[str, set[tuple[str, int]]]]:
        """Tests that may judge, with what they execute."""
        return [(test, seen) for test, seen in self.seen.items() if test not in self.failed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.watch.start()
        try:
            yield
        finally:
            sys.settrace(None)
            self.seen[item.nodeid] = self.watch.seen


def judged(tests: Sequence[str], root: Path, file: str, tree: ast.Module, seconds: float) -> Verdict:
    """Run tests on the vendor with one module changed, until one fails or half of `seconds` are over."""

    def work() -> str:
        os.chdir(root)
        sys.meta_path.insert(0, Mutated(root, file, tree))
        judging = _Judging(seconds / 2)
        code = pytest.main(["-x", *OPTIONS, *tests[:MOST]], plugins=[judging])
        return f"{int(code != pytest.ExitCode.OK)} {judging.count} {UNIT_TESTS} {judging.last}"

    return in_a_process(work, seconds)


class _Judging:
    """A plugin of pytest that stops in time, and knows the last test."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.count, self.last = seconds, 0, "-"

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if time.process_time() > self.seconds:
            pytest.exit("no time is left", returncode=0)
        self.count, self.last = self.count + 1, item.nodeid
