"""JUnit for a build server: the record's junit.xml with what differs from run to run, in a file of its own.

A record has the same bytes for the same results, so it holds neither times nor the host. This file, which `assay
certify --junit` writes beside it, does.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from npu_assay.conformance.common.escaped import plain
from npu_assay.conformance.record.certificate import Certificate
from npu_assay.conformance.record.folder import writing
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.report.junit import junit
from npu_assay.files import write_whole

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def write_junit(path: Path, report: Report, seconds: Mapping[str, float], started: datetime.datetime) -> None:
    """Write the file. Raises PackageError when it cannot be written."""
    text = timed_junit(junit(report), report.certificate, seconds, started, platform.node())
    with writing(path):
        write_whole(path, text.encode())


def timed_junit(
    text: str, certificate: Certificate, seconds: Mapping[str, float], started: datetime.datetime, host: str
) -> str:
    """A record's JUnit with the time of each case, host and start of the run, and properties of every suite.

    seconds: of each case that was measured; the others, of an earlier part of the run or of a cluster's workers, get no
    time.
    """
    root = ElementTree.fromstring(text)  # our own text
    stated = list(properties(certificate))
    for suite in root.iter("testsuite"):
        suite.set("hostname", plain(host))
        suite.set("timestamp", started.isoformat(timespec="seconds"))
        known = suite.find("properties")
        held = ElementTree.SubElement(suite, "properties") if known is None else known
        there = {each.get("name") for each in held}
        for name, value in stated:
            if name not in there:
                ElementTree.SubElement(held, "property", name=name, value=value)
        _time(suite, [_timed(case, seconds) for case in suite.iter("testcase")])
    _time(root, [float(suite.get("time", "nan")) for suite in root.iter("testsuite")])
    ElementTree.indent(root)
    return HEAD + ElementTree.tostring(root, encoding="unicode") + "\n"


def _timed(case: ElementTree.Element, seconds: Mapping[str, float]) -> float:
    """Note how long a case took; NaN when nobody knows."""
    found = seconds.get(f"{case.get('classname')}/{case.get('name')}")
    if found is None:
        return float("nan")
    case.set("time", f"{found:.3f}")
    return found


def _time(element: ElementTree.Element, parts: list[float]) -> None:
    """The sum of the known times; nothing when none is known."""
    known = [part for part in parts if part == part]
    if known:
        element.set("time", f"{sum(known):.3f}")


def properties(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """What a reader of one file must know of the run: backend, table, suite, selection, versions."""
    yield "backend", plain(certificate.backend["spec"])
    yield "table", f"{certificate.table['name']}@{certificate.table['version']}"
    yield "suite", f"{certificate.suite['name']} {certificate.suite['version']}"
    yield "selection", plain(str(certificate.selection)) or "all cases"
    yield "seed", str(certificate.selection.seed)
    yield "certified", str(certificate.certified).lower()
    for name, value in certificate.environment.items():
        yield plain(name), plain(value)
