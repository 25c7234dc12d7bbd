"""All cases of a run as the page's data: plain lists of numbers and numbers of texts, each text once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from markupsafe import Markup

from npu_assay.conformance.record.results import CHECKS, METRICS, CaseResult, Element
from npu_assay.conformance.report.data import SIDES, Report, command, promised
from npu_assay.conformance.report.page.programs import Numbered, Programs

CASE = "CASE"
"""Stands for the id in a command: a word that a shell leaves alone."""
DIGITS = 12
"""Digits of a digest: enough to compare two by eye."""
UNKNOWN = -1
NUMBER, HOLE, FEW = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)"), "#", 3
ORDER = ("fail", "undecided", "waived", "unspecified", "pass")
"""The order in which statuses are listed."""


def page_data(report: Report, since: Mapping[str, str]) -> dict[str, Any]:
    """Everything that the page's script shows of cases. since: by case, what is new about it (`changes.marks`)."""
    texts = Numbered()
    programs = Programs(texts)
    waived = {failure.result.case for failure in report.failures if failure.waived}
    findings = {case: number for number, found in enumerate(report.findings, 1) for case in found.cases}
    cases = []
    for result in sorted(report.results, key=lambda result: (ORDER.index(_status(result, waived)), result.case)):
        case = report.cases.get(result.case)
        program = UNKNOWN if case is None else programs.of(case.graph)
        marks = [
            texts.text(_status(result, waived)),
            findings.get(result.case, 0),
            texts.text(since.get(result.case, "")),
        ]
        subject = texts.text("" if case is None else case.subject)
        cases.append(_trimmed([*_asked(result, texts), *marks, program, subject, *_answered(result, texts)]))
    rules = [
        [texts.text(row), texts.text(code), texts.text(words)]
        for row, code in sorted({(result.row, result.constraint) for result in report.results})
        if (words := report.table.sentence_of(row, code))
    ]
    again = command(report.certificate, CASE, report.path)
    return {
        "again": again.split(f" -k {CASE} "),
        "sides": SIDES,
        "checks": {check: CHECKS.get(check, "") for check, _ in report.failed_checks},
        "metrics": METRICS,
        "rules": rules,
        "cases": cases,
        "values": programs.values.all,
        "steps": programs.steps.all,
        "programs": programs.programs.all,
        "texts": list(_packed(texts.all)),
    }


def _packed(texts: Sequence[str]) -> Iterator[str | list[Any]]:
    """Texts with many numbers as the number of the text that they are alike in, and their numbers.

    Ten thousand messages of gates are few sentences. "#" stands for each number, so it may not be in the text itself.
    """
    known: dict[str, int] = {}
    for place, text in enumerate(texts):
        found = NUMBER.findall(text)
        if len(found) < FEW or HOLE in text:
            yield text
            continue
        alike = NUMBER.sub(HOLE, text)
        yield [known[alike], " ".join(found)] if alike in known else [alike, " ".join(found)]
        known.setdefault(alike, place)


def as_script(data: Any) -> Markup:
    """Data as JSON inside of a script element: no text of it ends the element or begins another."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def _status(result: CaseResult, waived: set[str]) -> str:
    return "waived" if result.case in waived else result.status


def _trimmed(items: list[Any]) -> list[Any]:
    """Without the empty lists at the end."""
    while items and items[-1] == []:
        items.pop()
    return items


def _asked(result: CaseResult, texts: Numbered) -> list[Any]:
    """What is asked: the end of the id, and its parts; a whole id where it is not made of them."""
    parts = (result.row, result.precision, result.constraint, result.side)
    head = "/".join(filter(None, parts)) + "/"
    whole = not result.case.startswith(head)
    numbers = map(texts.text, (*parts, promised(result)))
    return [texts.text(result.case if whole else result.case.removeprefix(head)), int(whole), *numbers]


def _answered(result: CaseResult, texts: Numbered) -> list[Any]:
    """What was seen, and the evidence of a failure at the end."""
    metrics = [result.metrics.get(name) for name in METRICS]
    while metrics and metrics[-1] is None:
        metrics.pop()
    given = chain.from_iterable((r.code, r.found, r.sentence) for r in result.reasons or ())
    shapes = [[name, [list(shape) for shape in found]] for name, found in sorted(result.shapes.items())]
    return [
        texts.text(result.verdict),
        int(result.reasons is None),
        result.partitions,
        texts.text(" ".join([result.program[:DIGITS], *(blob[:DIGITS] for blob in result.blobs)])),
        texts.text(", ".join(sorted(result.checks))),
        metrics,
        [texts.text(text) for text in given],
        [[texts.text(f.check), texts.text(f.message), *map(texts.text, f.trace)] for f in result.failures],
        [_element(element, texts) for element in result.elements],
        [[texts.text(str(name)), texts.text(_shapes(found))] for name, found in shapes],
    ]


def _shapes(found: Any) -> str:
    return ", ".join(" x ".join(map(str, shape)) or "scalar" for shape in found)


def _element(element: Element, texts: Numbered) -> list[Any]:
    """Output and index, six numbers, then the inputs: names in turn with numbers; of a slice the text, in a list."""
    place = f"{element.output}[{', '.join(map(str, element.index))}]"
    numbers = [element.found, element.expected, element.allowed, element.real, element.golden, element.bound]
    given = ((name, [texts.text(n)] if isinstance(n, str) else _short(n)) for name, n in element.inputs.items())
    return [texts.text(place), *map(_short, numbers), *chain.from_iterable((texts.text(name), n) for name, n in given)]


def _short(number: Any) -> Any:
    """A whole number without its point."""
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 1e15 else number
