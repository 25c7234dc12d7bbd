"""The pinned versions are complete: an installation by them brings no other version on another day."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pinned import PIN
from places import ROOT

FILES = ("constraints.txt", "constraints_tosa.txt")
OF_TORCH = re.compile(r"nvidia-.*|cuda-.*|triton")  # which torch itself pins, by platform


def pinned(texts: list[str]) -> set[str]:
    return {canonicalize_name(name) for text in texts for name, _ in PIN.findall(text)}


def brought(project: str, extras: set[str]) -> set[str]:
    """The installed distributions that a project with extras needs, itself left out."""
    found, todo = set[str](), [(canonicalize_name(project), frozenset(extras))]
    seen = set(todo)
    while todo:
        name, asked = todo.pop()
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        for each in map(Requirement, requires):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *asked)):
                key = canonicalize_name(each.name), frozenset(each.extras)
                todo += [] if key in seen else [key]
                seen.add(key)
    return {name for name in found - {canonicalize_name(project)} if not OF_TORCH.fullmatch(name)}


def unpinned(texts: list[str]) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return brought(project["name"], set(project["optional-dependencies"])) - pinned(texts)


def test_everything_that_an_installation_brings_is_pinned() -> None:
    assert not unpinned([(ROOT / name).read_text(encoding="utf-8") for name in FILES])


@pytest.mark.parametrize("name", ["pluggy", "torch", "click"])
def test_a_missing_pin_is_noticed(name: str) -> None:
    texts = [
        re.sub(rf"^{name}==.*$", "", (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE) for file in FILES
    ]
    assert unpinned(texts) == {name}
