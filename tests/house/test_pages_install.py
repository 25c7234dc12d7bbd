"""Each page of a finding installs what its scripts import, in the versions it was found with and no other."""

from __future__ import annotations

import re

import pytest
from page_scripts import REPORTS, installs, needed, scripts, text
from pinned import INSTEAD, PIN
from places import ROOT

from npu_assay.conformance.findings import findings

PAGES = sorted({f"{finding.page}.md" for finding in findings().values()})
APART = "--no-deps "
"""How the line of a vendor begins whose package says less than it needs; it lists much that no script imports."""
PLAIN = [page for page in PAGES if not installs(text(page))[0].startswith(APART)]
VENDORS = re.compile(r"-m pip --isolated install ([^-].*)$", re.MULTILINE)
"""What an environment of a vendor's packages installs."""


def pinned() -> dict[str, set[str]]:
    """The versions that the cross-checks install, by distribution."""
    found: dict[str, set[str]] = {}
    texts = [
        (ROOT / name).read_text(encoding="utf-8") for name in ("constraints.txt", "constraints_tosa.txt", "tox.ini")
    ]
    pins = [pin for each in texts for pattern in (PIN, INSTEAD) for pin in pattern.findall(each)]
    pins += [tuple(part.split("==")) for each in texts for line in VENDORS.findall(each) for part in line.split()]
    for name, version in pins:
        found.setdefault(name, set()).add(version)
    return found


def wrong(content: str, imported: set[str]) -> str:
    """What is wrong with the page's line that installs; nothing where it is right."""
    lines = installs(content)
    if len(lines) != 1:
        return f"{len(lines)} lines install something"
    listed = dict(part.split("==") for part in lines[0].split(" "))
    if missing := imported - set(listed):
        return f"{sorted(missing)} not installed"
    if surplus := set(listed) - imported - {"torch", "torchao"}:
        return f"{sorted(surplus)} not imported"
    other = {name: version for name, version in listed.items() if version not in pinned().get(name, ())}
    return f"versions that no cross-check has: {other}" if other else ""


def imports(page: str) -> set[str]:
    return set().union(*(needed(script) for script in scripts(page)))


def test_the_pages_are_those_of_the_findings() -> None:
    assert {page for page in PAGES if page.startswith("findings/")} == {
        f"findings/{path.name}" for path in (REPORTS / "findings").glob("*.md")
    }


def test_a_vendors_page_lists_what_its_scripts_import() -> None:
    others = [page for page in PAGES if page not in PLAIN]
    assert {page.partition("-")[0] for page in others} == {"findings/rknn"}
    for page in others:
        parts = [part.partition("==") for part in installs(text(page))[0].removeprefix(APART).split(" ")]
        listed = {name: version for name, _, version in parts}
        assert imports(page) <= listed.keys()
        assert f"rknn-toolkit2 {listed['rknn-toolkit2']}" in text(page).split("\n")[2]


@pytest.mark.parametrize("page", PLAIN)
def test_a_page_installs_what_its_scripts_import(page: str) -> None:
    assert wrong(text(page), imports(page)) == ""


@pytest.mark.parametrize("page", [page for page in PLAIN if page.startswith("findings/")])
def test_the_versions_are_those_it_was_found_with(page: str) -> None:
    head = text(page).split("\n")[2].lower()
    assert all(re.sub("==", " ", part) in head for part in installs(text(page))[0].split(" "))


FAULTS = {
    "a package is left out": (" ethos-u-vela==5.1.0", "", "['ethos-u-vela'] not installed"),
    "one that no script imports": ("tosa-tools==", "openvino==2026.4.1 tosa-tools==", "['openvino'] not imported"),
    "another version": ("executorch==1.5.1", "executorch==1.5.0", "versions that no cross-check has"),
    "no such line": ("    pip install", "    install", "0 lines install"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_line_is_found(fault: str) -> None:
    page = "findings/arm-argmax-of-many.md"
    before, after, told = FAULTS[fault]
    assert before in text(page)
    assert wrong(text(page).replace(before, after), imports(page)).startswith(told)
