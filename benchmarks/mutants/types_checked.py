"""A mutant judged by the type checker, in a copy of the project."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.sites import Site, mutation
from benchmarks.mutants.trials import TYPES, Verdict

LEFT_OUT = frozenset({".git", "golden", "docs", "build", ".pytest_cache", ".tox"})
"""At the top of the project; folders of these names within it are needed."""


@dataclass(frozen=True)
class Checked:
    """A copy of the project in which files are changed, one at a time."""

    copy: Path

    @classmethod
    def of(cls, root: Path, copy: Path) -> Checked:
        """A fresh copy. Raises RuntimeError where the type checker finds something in it before anything is changed."""

        def ignored(folder: str, names: list[str]) -> set[str]:
            return set(names) & (LEFT_OUT if Path(folder) == root else {"__pycache__"})

        shutil.copytree(root, copy, symlinks=True, ignore=ignored)
        checked = cls(copy)
        found = checked._errors()
        if found:
            raise RuntimeError(f"mypy on the unchanged project: {found}")
        return checked

    def judged(self, site: Site) -> Verdict:
        """Whether the type checker refuses the change."""
        path = self.copy / site.file
        text = path.read_text()
        path.write_text(spliced(text, site))
        try:
            found = self._errors()
        finally:
            path.write_text(text)
        return Verdict(bool(found), f"{TYPES} {found.partition(chr(10))[0]}", 0)

    def _errors(self) -> str:
        done = subprocess.run([sys.executable, "-m", "mypy"], cwd=self.copy, capture_output=True, text=True)
        return (done.stdout or done.stderr) if done.returncode else ""


def spliced(text: str, site: Site) -> str:
    """The file with the change in its place and all else as it was: comments say what the type checker may ignore."""
    node, changed = mutation(ast.parse(text), site)
    lines = text.encode().splitlines(keepends=True)
    start, end = (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)
    before = b"".join(lines[: start[0] - 1]) + lines[start[0] - 1][: start[1]]
    after = lines[end[0] - 1][end[1] :] + b"".join(lines[end[0] :])
    return (before + _written(node, changed).encode() + after).decode()


def _written(node: ast.expr | ast.stmt, changed: ast.AST | None) -> str:
    if changed is None:
        return "pass"
    if isinstance(node, ast.expr):
        return f"({ast.unparse(changed)})"
    return ast.unparse(changed).replace("\n", "\n" + " " * node.col_offset)
