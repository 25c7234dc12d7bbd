"""The environments of tox.ini: which tests each runs, and on which releases."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser, SectionProxy
from dataclasses import dataclass
from pathlib import Path

from places import ROOT

PIN = re.compile(r"^([\w.-]+)==([\w.]+)$", re.MULTILINE)
CONSTRAINTS = re.compile(r"PIP_CONSTRAINT = \{tox_root\}\{/\}(\S+)")
BEYOND = re.compile(r"pip install --no-deps -c \{tox_root\}\{/\}(\S+) (.+)$", re.MULTILINE)
"""Packages that an environment installs by constraints of another one."""
INSTEAD = re.compile(r"pip --isolated install --no-deps (\S+)==(\S+)$", re.MULTILINE)
"""A release that takes the place of the one in the constraints."""


@dataclass(frozen=True)
class Environment:
    """One environment. tests: the paths that pytest is given. pins: version by package, of what constraints pin.

    installed: the packages that it asks for by name; what these need is pinned, too, and not among them. instead: those
    of another release than the constraints have.
    """

    name: str
    tests: tuple[str, ...]
    pins: Mapping[str, str]
    installed: frozenset[str]
    instead: frozenset[str] = frozenset()

    def is_about(self, package: str, version: str) -> bool:
        """Whether it installs the package; if it is there for another release of it, whether for this one."""
        return package in self.installed and (package not in self.instead or self.pins[package] == version)

    def runs(self, module: str) -> bool:
        """Whether a test module, by its path from the root, is among its tests."""
        return any(module == path or module.startswith(f"{path}/") for path in self.tests)


def environments(root: Path = ROOT) -> list[Environment]:
    """Those of tox.ini that run pytest."""
    tox = ConfigParser(interpolation=None)
    tox.read(root / "tox.ini", encoding="utf-8")
    base = tox["testenv"]
    names = [name for name in tox.sections() if name.startswith("testenv:")]
    found = [_environment(name.removeprefix("testenv:"), tox[name], base, root) for name in names]
    return [one for one in found if one.tests]


def _environment(name: str, section: SectionProxy, base: SectionProxy, root: Path) -> Environment:
    before = section.get("commands_pre", "")
    pins: dict[str, str] = {}
    for file in CONSTRAINTS.findall(section.get("set_env", base["set_env"])):
        pins |= _pins(root / file)
    installed = set(_packages(re.findall(r"[\w-]+", section.get("extras", "")), root))
    for file, packages in BEYOND.findall(before):
        pins |= {package: version for package, version in _pins(root / file).items() if package in packages.split()}
        installed |= set(packages.split())
    instead = dict(INSTEAD.findall(before))
    pins |= instead
    commands = [line.split() for line in section.get("commands", "").splitlines() if line.startswith("pytest ")]
    tests = tuple(word for words in commands for word in words if word.startswith("tests/") and "--ignore" not in words)
    return Environment(name, tests, pins, frozenset(installed), frozenset(instead))


def _pins(file: Path) -> dict[str, str]:
    return dict(PIN.findall(file.read_text(encoding="utf-8")))


def _packages(extras: Sequence[str], root: Path) -> Iterator[str]:
    """What the project and some of its extras ask for, by name; extras of its own are followed."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    for requirement in asked:
        found = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement)
        assert found is not None, requirement
        if found[1] == project["name"]:
            yield from _packages(found[2].split(","), root)
        else:
            yield found[1]
