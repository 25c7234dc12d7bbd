"""No folder has more lines (`git ls-files FOLDER | xargs cat | wc -l`) than `[tool.assay.budget]` lets it have."""

from __future__ import annotations

import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from places import ROOT

BUDGET: dict[str, dict[str, int]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["assay"]["budget"]


def owner(path: str, folders: Iterable[str]) -> str:
    """The deepest of the folders that holds a path; "." holds all."""
    return max((folder for folder in folders if f"{path}/".startswith(f"{folder}/")), key=len, default=".")


def sizes(root: Path, paths: Iterable[str], budget: Mapping[str, Mapping[str, int]]) -> dict[str, Counter[str]]:
    """The size of every budgeted folder; links count for where they lead to."""
    found = {kind: Counter[str]() for kind in budget}
    for path in paths:
        if (root / path).is_file() and not (root / path).is_symlink():
            data, kind = (root / path).read_bytes(), "python" if path.endswith(".py") else "other"
            found[kind][owner(path, budget[kind])] += data.count(b"\n")
            found["bytes"][owner(path, budget["bytes"])] += len(data)
    return found


def beyond(found: Mapping[str, Mapping[str, int]], budget: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What is over a budget, with what was found and the most that may be there."""
    return [
        f"{kind} of {folder}: found {found[kind][folder]}, most {most}"
        for kind, folders in budget.items()
        for folder, most in folders.items()
        if found[kind][folder] > most
    ]


def test_no_part_is_larger_than_its_budget() -> None:
    """A budget is lowered with what goes, and raised only in a commit of its own that says what a user gets for it."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout: only git tells which files are the project's")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    over = beyond(sizes(ROOT, listed.split("\0")[:-1], BUDGET), BUDGET)
    assert not over, "\n".join(over)


def test_a_part_that_is_too_large_is_named(tmp_path: Path) -> None:
    """Each line counts once, for the deepest folder; what is in no folder counts, too."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path, text in {"a/x.py": "1\n2\n", "a/b/y.py": "1\n2\n3\n", "a/b/z.json": "{}\n", "ab.py": "1\n"}.items():
        (tmp_path / path).write_text(text)
    (tmp_path / "link.py").symlink_to("a/x.py")
    budget = {"python": {".": 0, "a": 2, "a/b": 2}, "other": {".": 0, "a": 1}, "bytes": {"a/b": 8}}
    paths = ["a/x.py", "a/b/y.py", "a/b/z.json", "ab.py", "link.py", "gone.py"]
    assert beyond(sizes(tmp_path, paths, budget), budget) == [
        "python of .: found 1, most 0",
        "python of a/b: found 3, most 2",
        "bytes of a/b: found 9, most 8",
    ]
