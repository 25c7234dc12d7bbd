"""Size of report.html, and its first paint, when very many cases fail.

Run from the repository, with the extra `browser`, Chromium and its driver:

    python benchmarks/report.py

Every case of a table gets a record that fails: that of a real case of a faulty backend, with numbers of its own in
messages, elements and metrics, so that nothing is saved by what is alike. Programs and ids are the table's. The browser
opens the page from a file a few times and says when it first painted something, and when list and search were there.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import which

from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import SCHEMA, Certificate, Selection
from npu_assay.conformance.record.results import CaseResult, program_sha256
from npu_assay.conformance.report.data import make_report
from npu_assay.conformance.report.render import html
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, load_table
from npu_assay.faults.neutron import bias_dropped

FAULTY = "aten.convolution.default/operator/accept/"
ROUNDS = 5
NUMBER = re.compile(r"\d+(\.\d+)?")


def real_record() -> CaseResult:
    """What a device without biases shows on a convolution that has the most to tell."""
    table = load_table("neutron@1.3")
    cases = [case for case in all_cases(table) if case.id.startswith(FAULTY)]
    found = [run_case(case, bias_dropped, table) for case in cases[:8]]
    return max((result for result in found if result.status == "fail"), key=lambda result: len(result.elements))


def failing(record: CaseResult, cases: Sequence[Case]) -> Iterator[CaseResult]:
    """A failing result of each case, each with numbers of its own."""
    numbers = random.Random(0)

    def other(match: re.Match[str]) -> str:
        return f"{numbers.random() * 100:.{len(match[0].partition('.')[2])}f}"

    for case in cases:
        elements = tuple(
            replace(
                element,
                found=numbers.randint(-128, 127),
                expected=numbers.randint(-128, 127),
                real=round(numbers.uniform(-9, 9), 5),
                golden=round(numbers.uniform(-9, 9), 5),
                bound=round(numbers.random(), 7),
            )
            for element in record.elements
        )
        yield replace(
            record,
            case=case.id,
            row=case.row,
            constraint=case.constraint,
            side=case.side,
            expect=case.expect,
            reason=case.reason,
            program=program_sha256(case.graph),
            failures=tuple(replace(f, message=NUMBER.sub(other, f.message)) for f in record.failures),
            metrics={key: value and round(numbers.random() * 50, 4) for key, value in record.metrics.items()},
            blobs=tuple(f"{numbers.getrandbits(256):064x}" for _ in record.blobs),
            elements=elements,
        )


def certificate(table: Table, count: int) -> Certificate:
    """One over so many failing cases."""
    return Certificate(
        schema=SCHEMA,
        suite={"name": "npu-assay", "version": "0", "sources": {}},
        backend={"name": table.name, "spec": table.name, "sources": {}, "tools": []},
        table={"name": table.name, "version": table.version, "path": None, "sha256": table.sha256},
        environment={},
        made="2026-01-01",
        selection=Selection(),
        waivers=(),
        results_sha256="0" * 64,
        certified=False,
        counts={"cases": count, "pass": 0, "unspecified": 0, "fail": count, "waived": 0},
        objections=(f"{count} of {count} cases fail",),
    )


def page(name: str, count: int) -> str:
    """The page of so many failing cases of a table."""
    table = load_table(name)
    cases = all_cases(table)[:count]
    results = list(failing(real_record(), cases))
    start = time.perf_counter()
    text = html(make_report(certificate(table, len(cases)), table, results, cases))
    made = time.perf_counter() - start
    print(f"{len(cases)} failing cases of {name}: {len(text.encode()) / 1e6:.2f} MB, made in {made:.1f} s")
    return text


def paints(path: Path, rounds: int) -> list[tuple[float, float]]:
    """Milliseconds from the start of navigation to the first paint, and to the list of cases, each time."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = ChromeOptions()
    for argument in ("--headless", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    paint = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
    ready = "return performance.getEntriesByName('ready')[0]?.startTime ?? 0"
    found = []
    with Chrome(options=options, service=Service(which("chromedriver"))) as browser:
        for _ in range(rounds + 1):
            browser.get("about:blank")
            browser.get(path.as_uri())
            WebDriverWait(browser, 60).until(lambda opened: opened.execute_script(ready))
            found.append((float(browser.execute_script(paint)), float(browser.execute_script(ready))))
    return found[1:]  # the first one also starts the browser's processes


def main() -> None:
    parser = argparse.ArgumentParser(description="Size and first paint of a page of very many failing cases.")
    parser.add_argument("--table", default="ethos_u85@1.5", help="name or file of the table")
    parser.add_argument("--cases", type=int, default=10_000, help="how many cases of it fail")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often it is opened; 0: no browser is needed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(page(options.table, options.cases))
        if options.rounds:
            first, ready = (statistics.median(each) for each in zip(*paints(path, options.rounds), strict=True))
            print(
                f"first paint after {first:.0f} ms, list and search after {ready:.0f} ms (median of {options.rounds})"
            )


if __name__ == "__main__":
    main()
