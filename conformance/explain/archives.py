"""Reading `.pt2` files that nobody vouches for: what torch would unpickle or evaluate is refused, or left out."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.named import check_file

SIZES = frozenset(
    (
        *("Symbol", "Integer", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "floor", "ceiling"),
        *("FloorDiv", "CleanDiv", "CeilDiv", "IntTrueDiv", "ModularIndexing", "PythonMod", "Equality"),
        *("GreaterThan", "LessThan", "StrictGreaterThan", "StrictLessThan"),
    )
)
"""What torch may call in the size of a program with dynamic sizes: Mul(Integer(16), Symbol('s77', integer=True))."""
SAMPLES = "data/sample_inputs/"
NESTINGS = ("in_spec", "out_spec")
KNOWN = ("models/", "data/weights/", "data/constants/", SAMPLES, "extra/", ".data/")
COLLECTIONS = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
"""What inputs and results are nested in; other classes are those of libraries, which torch would ask for, or import."""
ENUM = "__enum__"
"""In the keys of a dict: what torch imports a module for."""
ALONE = ("archive_format", "archive_version", "byteorder", "version")


def read_program(path: Path) -> ExportedProgram:
    """The program in a file of `torch.export.save`. Raises UsageError for another or an unsafe file."""
    try:
        check_file(path)
        return torch.export.load(_harmless(path))
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # torch raises anything for a file that is damaged
        text = " ".join(str(error).split())[:200]
        raise UsageError(f"{path}: not a program that torch can read: {type(error).__name__}: {text}") from error


def _harmless(path: Path) -> io.BytesIO:
    """The archive without its sample inputs, which are pickled. Raises UsageError."""
    if not zipfile.is_zipfile(path):
        hint = "what torch.export.save writes, or module:factory of Python code"
        raise UsageError(f"{path}: not a .pt2 file: found no zip archive, expected {hint}")
    made = io.BytesIO()
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as taken:
        for name in given.namelist():
            record = name.partition("/")[2]
            if not record.startswith(KNOWN) and record not in ALONE:
                raise UsageError(
                    f"{path}: found {name!r}{_writer(record)}, expected the records of one exported program"
                )
            data = given.read(name)
            if record.endswith(".json"):
                _check(path, name, parsed := json.loads(data))
                data = json.dumps(_plain(path, parsed)).encode()
            taken.writestr(name, b"" if record.startswith(SAMPLES) else data)
    made.seek(0)
    return made


def _writer(record: str) -> str:
    """The function of torch that writes such a record, and the one that is needed; "" where neither is known."""
    if record != "data.pkl":
        return ""
    return " of torch.save or torch.jit.save; torch.export.save(torch.export.export(model, inputs), path) is needed"


def _plain(path: Path, data: Any) -> Any:
    """The same with all inputs and results nested in Python's own collections."""
    if isinstance(data, dict):
        return {key: _nesting(path, each) if key in NESTINGS else _plain(path, each) for key, each in data.items()}
    return [_plain(path, each) for each in data] if isinstance(data, list) else data


def _nesting(path: Path, text: Any) -> Any:
    """How something is nested, as torch writes that: tuples stand for the classes of libraries."""
    if not isinstance(text, str) or not text:
        return text
    version, tree = json.loads(text)
    for each in filter(None, [tree, *(kid for kids in _lists(tree) for kid in kids)]):
        if each["type"] not in (None, *COLLECTIONS):
            each.update(type=COLLECTIONS[0], context="null")
        elif ENUM in str(each["context"]):
            raise UsageError(f"{path}: found an enumeration among the names of inputs or results, expected texts")
    return json.dumps([version, tree])


def _lists(tree: Any) -> Iterator[list[Any]]:
    return (value for key, value in _items(tree) if key == "children_spec")


def _check(path: Path, name: str, data: Any) -> None:
    for key, value in _items(data):
        if key == "use_pickle" and value is not False:
            raise UsageError(f"{path}: {name} has a pickled tensor or object, which is not read: export it as a buffer")
        if key in ("expr_str", "as_expr") and isinstance(value, str) and not _arithmetic(value):
            raise UsageError(f"{path}: {name} has the size {value[:60]!r}, expected arithmetic on symbols")


def _arithmetic(text: str) -> bool:
    """Whether a size is arithmetic on symbols: torch hands it to sympy, which evaluates it with Python's built-ins."""
    try:
        return _harmless_size(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _harmless_size(node: ast.AST) -> bool:
    """Whether an expression is made of operators, names, numbers, and calls of the known classes."""
    match node:
        case ast.Constant(value=int() | float()) | ast.Name():
            return True
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))], keywords=keywords):
            return name.isidentifier() and all(map(_is_truth, keywords))
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in SIZES:
            return all(map(_harmless_size, node.args))
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare():
            parts = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
            return all(map(_harmless_size, parts))
    return False


def _is_truth(keyword: ast.keyword) -> bool:
    return isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool)


def _items(data: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth."""
    waiting = [data]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield from each.items()
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
