"""The table that a backend's source names, without loading the backend, and so without torch.

Only what the module says in plain words counts: `backend = Backend("name", "name@1.0", ...)`, once, or `replace` of
another backend with such a table. The table may stand in a name of its own, and be a file in the module's folder, as
`assay new` writes it. Else the backend has to be loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

import npu_assay
from npu_assay.conformance.adapters import adapted
from npu_assay.conformance.backend.importing import spec_with_code
from npu_assay.conformance.backend.installed import found_as_loading_finds
from npu_assay.conformance.backend.loading import load_backend, target
from npu_assay.conformance.backend.static_imports import LARGEST
from npu_assay.conformance.common.errors import UsageError
from npu_assay.files import read_regular

PLACE = 1  # of the table among Backend's arguments
HOMES = {"Backend": "npu_assay.partitioners.exir", "replace": "dataclasses"}
"""The modules that these calls have to come from, or modules in them."""


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
        tree = None if path is None else ast.parse(read_regular(path, LARGEST))
    except (UsageError, ImportError, OSError, SyntaxError, ValueError):
        return None  # which loading it says better
    if path is None or tree is None or _is_of_this_package(path, module):
        return None
    value = _only(tree, attribute)
    table = None if value is None else _table(value, _imported(tree))
    if isinstance(table, ast.Name):
        table = _only(tree, table.id)
    return None if table is None else _text(table, path)


def _source(module: str) -> Path | None:
    """The file of a module, found as loading finds it, but without running the packages that it is in."""
    top, *below = module.split(".")
    with found_as_loading_finds(top):
        spec, name = spec_with_code(top) if top else None, top
        for part in below:
            name = f"{name}.{part}"
            inside = None if spec is None else spec.submodule_search_locations
            spec = None if inside is None else PathFinder.find_spec(name, inside)
    return None if spec is None or not (spec.origin or "").endswith(".py") else Path(str(spec.origin))


def _is_of_this_package(path: Path, module: str) -> bool:
    """Whether it is a module of npu_assay by another name, as a folder of its sources has it, which loading refuses."""
    folder = Path(npu_assay.__file__).parent / module.partition(".")[0]
    return folder.is_dir() and path.resolve().is_relative_to(folder.resolve())


def _imported(tree: ast.Module) -> set[str]:
    """Which of the calls are what their names say."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return {
        each.name
        for node in found
        for each in node.names
        if each.asname is None and f"{node.module}.".startswith(f"{HOMES.get(each.name)}.")
    }


def _only(tree: ast.Module, name: str) -> ast.expr | None:
    """What is assigned to a name; None if nothing is, or more than one thing, anywhere in the module."""
    found = list(_assigned(tree, name))
    return found[0] if len(found) == 1 else None


def _assigned(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    """Whatever is assigned to a name anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
            yield node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and ast.unparse(node.target) == name:
            yield node.value if node.value is not None else ast.Constant(None)


def _table(value: ast.expr, known: set[str]) -> ast.expr | None:
    """The `table` of a call of Backend or of `replace`, if there is one."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in known):
        return None
    if any(isinstance(each, ast.Starred) for each in value.args):
        return None
    by_name = [keyword.value for keyword in value.keywords if keyword.arg == "table"]
    in_place = value.args[PLACE : PLACE + 1] if ast.unparse(value.func) == "Backend" else []
    return next(iter(by_name + in_place), None)


def _text(value: ast.expr, path: Path) -> str | None:
    """A text, or the path of a file beside the module, or below its folder."""
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else None
    names = [str(each.value) for each in ast.walk(value) if isinstance(each, ast.Constant)][::-1]  # the last one first
    beside = {f"str(Path(__file__).with_name({name!r}))" for name in names}
    below = f"str(Path(__file__).parent / {' / '.join(map(repr, names))})"
    return str(path.parent.joinpath(*names)) if ast.unparse(value) in beside | {below} else None
