"""The table that a backend's source names, without loading the backend, and so without torch.

Only what the module says in plain words counts: `backend = Backend(..., table="name@1.0", ...)`, once, or `replace` of
another backend with such a table. Else the backend has to be loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from npu_assay.conformance.adapters import adapted
from npu_assay.conformance.backend.loading import load_backend, target
from npu_assay.conformance.common.errors import UsageError


def table_of(spec: str) -> str:
    """The name or path of a backend's own table. Raises BackendSpecError for a backend that there is not."""
    return stated_table(spec) or load_backend(spec).table


def stated_table(spec: str) -> str | None:
    """The table in plain words, None where there are none that can be relied on."""
    try:
        if ":" in spec and adapted(spec):
            return None
        module, _, attribute = target(spec).partition(":")
        path = _source(module)
        tree = None if path is None else ast.parse(path.read_bytes())
    except (UsageError, ImportError, OSError, SyntaxError, ValueError):
        return None  # which loading it says better
    found = [] if tree is None else list(_assigned(tree, attribute))
    tables = [_table(value) for value in found]
    return tables[0] if len(tables) == 1 else None


def _source(module: str) -> Path | None:
    """The file of a module below npu_assay, whose packages are light; others may do anything when they are found."""
    if not module.startswith("npu_assay.partitioners."):
        return None
    import npu_assay.partitioners

    spec = PathFinder.find_spec(module, npu_assay.partitioners.__path__)
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _assigned(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    """Whatever is assigned to a name anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
            yield node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and ast.unparse(node.target) == name:
            yield node.value if node.value is not None else ast.Constant(None)


def _table(value: ast.expr) -> str | None:
    """The `table` of a call of Backend or of `replace`, if it is a text."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("Backend", "replace")):
        return None
    stated = next((keyword.value for keyword in value.keywords if keyword.arg == "table"), None)
    return stated.value if isinstance(stated, ast.Constant) and isinstance(stated.value, str) else None
