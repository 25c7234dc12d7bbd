"""Who may import whom, and what must stay out of the sources."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp
import pytest
from environments import copy_checkout
from places import ROOT

PACKAGES = ("conformance", "reference", "partitioners", "faults")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
BESIDE = ("backends", "benchmarks", "browser", "crosscheck", "house", "pages", "site")
"""Folders of tests that are about no package."""
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def contracts() -> list[dict[str, object]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[dict[str, object]] = settings["tool"]["importlinter"]["contracts"]
    return found


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the linter turns off the loggers that it finds."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_tests_are_where_what_they_test_is() -> None:
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    mirrored = {folder for folder in folders if folder.parts[:1] not in {(name,) for name in BESIDE}}
    assert mirrored and [folder for folder in mirrored if not (ROOT / folder / "__init__.py").is_file()] == []


def test_imports_go_one_way() -> None:
    run = linted(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("reference/arithmetic/tflite/rounding.py", "from npu_assay.partitioners.common.int8 import output"),
        ("reference/integer/operand.py", "from npu_assay.partitioners.common import rescale"),
        ("reference/golden/bounded.py", "from npu_assay.partitioners.xnnpack.kernels import dynamic"),
        ("conformance/judge/float_golden.py", "from npu_assay.partitioners.common.int8 import conv"),
        ("conformance/judge/integer_golden.py", "from npu_assay.partitioners.neutron import device"),
        ("partitioners/neutron/device/elementwise.py", "from npu_assay.reference.arithmetic import tflite"),
        ("partitioners/xnnpack/kernels/fma.py", "from npu_assay.reference.arithmetic.xnnpack import fused"),
        ("partitioners/common/rescale.py", "from npu_assay.partitioners.neutron import device"),
    ],
)
def test_an_import_of_the_wrong_way_is_found(module: str, line: str, tmp_path: Path) -> None:
    copy_checkout(tmp_path / "copy")
    with (tmp_path / "copy" / module).open("a") as file:
        file.write(f"{line}\n")
    run = linted(tmp_path / "copy")
    assert run.returncode == 1 and "BROKEN" in run.stdout, run.stdout + run.stderr


def circles(imports: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """The groups of modules that import each other, also inside of functions."""
    reached: dict[str, set[str]] = {}
    for module in imports:
        found, waiting = set[str](), [module]
        while waiting:
            new = imports.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        reached[module] = found
    return sorted({tuple(sorted(m for m in reached[a] if a in reached.get(m, ()))) for a in reached if a in reached[a]})


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("npu_assay", cache_dir=None)
    assert circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [("b", "c")]


def forbidden(name: str) -> set[str]:
    """What the contract of a name forbids."""
    modules = next(contract for contract in contracts() if contract["name"] == name)["forbidden_modules"]
    assert isinstance(modules, list)
    return set(modules)


def test_every_vendor_is_in_the_contracts() -> None:
    vendors = {f"npu_assay.partitioners.{p.parent.name}" for p in (ROOT / "partitioners").glob("*/__init__.py")}
    vendors -= {"npu_assay.partitioners.exir"}
    assert vendors <= forbidden("conformance never imports a vendor, nor what vendors compute with")
    assert vendors <= forbidden("the export API knows neither vendors nor the reference")


def test_what_devices_may_import_of_the_reference_are_quantisations_alone() -> None:
    parts = {f"npu_assay.reference.{path.stem}" for path in (ROOT / "reference").glob("[!_]*")}
    assert parts - forbidden("devices never import what judges them") == {"npu_assay.reference.affine"}


def called(tree: ast.AST) -> Iterator[str]:
    """Names that are called directly, and torch.load and its like as `module.name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level names of imported modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_evaluates_text_or_loads_objects(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not FORBIDDEN_CALLS & set(called(tree)) and "torch.load" not in set(called(tree))
    assert not FORBIDDEN_MODULES & set(imported(tree))


def test_the_check_sees_what_it_forbids() -> None:
    tree = ast.parse("import pickle\nfrom dill import x\ntorch.load(a)\neval('1')")
    assert {"pickle", "dill"} <= set(imported(tree)) and {"torch.load", "eval"} <= set(called(tree))


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_draws_from_the_global_generator(package: str) -> None:
    drawing = {"torch.manual_seed", "random.seed", "np.random.seed", "numpy.random.seed", "random.random"}
    for path in (ROOT / package).rglob("*.py"):
        assert not drawing & set(called(ast.parse(path.read_text()))), path


def test_an_operator_stands_in_few_modules() -> None:
    """relu, which everything fuses: its home, a row of each vendor, what vendors and cases share, two catalogues."""
    holding = [path.relative_to(ROOT).as_posix() for path in SOURCES if "aten.relu.default" in path.read_text()]
    assert len(holding) <= 8, holding


CHANGING = ("conformance/cases/",)
"""Where imports inside of functions have no reason yet."""


def unexplained(source: str) -> list[str]:
    """Imports inside of functions (of several side by side the first) without a comment beside or above them."""
    lines, found = source.splitlines(), list[str]()
    for function in ast.walk(ast.parse(source)):
        inside = ast.walk(function) if isinstance(function, ast.FunctionDef) else ()
        imports = {node.lineno: node for node in inside if isinstance(node, (ast.Import, ast.ImportFrom))}
        ends = {node.end_lineno for node in imports.values()}
        first = [line for line in imports if line - 1 not in ends and not (line - 2 in ends and not lines[line - 2])]
        found += [lines[at - 1].strip() for at in first if "#" not in "".join(lines[at - 2 : at])]
    return found


def test_imports_inside_of_functions_have_a_reason() -> None:
    """Commands start without torch, extras may be missing, some processes must not have what judges."""
    paths = [path for path in SOURCES if not path.relative_to(ROOT).as_posix().startswith(CHANGING)]
    assert {path.relative_to(ROOT).as_posix(): bare for path in paths if (bare := unexplained(path.read_text()))} == {}


def test_an_import_without_a_reason_is_seen() -> None:
    bare, block, above = "import b", "import c  # why\n    import d\n\n    import e", "# why\n    import f"
    source = f"import a\ndef g():\n    x = 1\n    {bare}\n    x = 2\n    {block}\n    x = 3\n    {above}\n"
    assert unexplained(source) == [bare]


KEEPER = "conformance/common/memory.py"
"""The one module of `conformance` that caches."""


def unkept(source: str) -> list[str]:
    """Caches of functools, and functions with arguments that are called once: these keep results without a bound."""
    nodes = list(ast.walk(ast.parse(source)))
    asked = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "functools"]
    found = [alias.name for node in asked for alias in node.names if alias.name in ("cache", "lru_cache")]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and ast.unparse(node.args)]
    return found + [each.name for each in functions if "once" in map(ast.unparse, each.decorator_list)]


def test_one_module_caches() -> None:
    """Whatever is kept has a bound, which stands beside the function. Device programs have nothing of the suite."""
    names = [path.relative_to(ROOT).as_posix() for path in SOURCES]
    asked = [name for name in names if name.startswith("conformance/") and name != KEEPER]
    others = tuple(f"conformance/{part}/" for part in ("cases", "covering", "predicates"))
    read = {name: (ROOT / name).read_text() for name in asked if not name.startswith(others)}
    own = {name: source for name, source in read.items() if "from npu_assay" in source}
    assert {name: bare for name, source in own.items() if (bare := unkept(source))} == {}


def test_a_cache_without_a_bound_is_seen() -> None:
    source = (
        "from functools import lru_cache, wraps\n@once\ndef a(): ...\n@once\ndef b(c): ...\n@keep(8)\ndef d(e): ...\n"
    )
    assert unkept(source) == ["lru_cache", "b"]
