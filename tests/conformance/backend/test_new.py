"""`assay new`: what it writes is small and certifies, and docs/certify-your-backend.md goes on from there."""

from __future__ import annotations

import ast
import importlib
import io
import re
import shlex
import shutil
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import call
from click.testing import Result
from environments import Environment
from places import ROOT

from npu_assay.conformance.backend import scaffold
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.blob import BlobError

DOCUMENT = (ROOT / "docs" / "certify-your-backend.md").read_text(encoding="utf-8")
OWN = ("partitioner.py", "backend.py", "runtime.py")
MOST = 50  # lines of code that a newcomer has to read


def new(*arguments: object) -> Result:
    """`assay new` with these arguments."""
    return call("new", *arguments)


def code_lines(text: str) -> int:
    """Lines with code on them: no blank lines, comments, docstrings or imports."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or docstring:
            assert isinstance(node, ast.stmt) and node.end_lineno is not None
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


# ------------------------------------------------------------------------------------ what is written


def test_lines_of_code_are_counted_without_words_and_imports() -> None:
    assert code_lines('"""Words."""\nimport a\nfrom b import (\n    c,\n)\n\n# remark\nx = (\n    1,\n)\n') == 3
    assert code_lines('def f():\n    """Words\n    and words."""\n    return """a\nb"""\n') == 3


def test_a_newcomer_has_few_lines_to_read() -> None:
    files = scaffold.rendered("my_npu")
    assert 0 < sum(code_lines(files[f"my_npu/{name}"]) for name in OWN) <= MOST


def test_what_commands_write_is_ignored_and_no_source_is(tmp_path: Path) -> None:
    folder = tmp_path / "my_npu"
    assert new("my_npu", "--out", folder).exit_code == 0
    made = ["assay-my_npu/report.html", "build/lib/a.py", "my_npu.egg-info/PKG-INFO", "my_npu/__pycache__/a.pyc"]
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    paths = "\n".join([*made, *scaffold.rendered("my_npu")])
    done = subprocess.run(["git", "check-ignore", "--stdin"], cwd=folder, input=paths, capture_output=True, text=True)
    assert done.stdout.split() == made


@pytest.mark.parametrize(("name", "prefix"), [("a", "A"), ("my_npu", "MyNpu"), ("zz_9_long_name", "Zz9LongName")])
def test_what_is_written_fits_its_name(name: str, prefix: str, tmp_path: Path) -> None:
    folder = tmp_path / "some where"
    assert new(name, "--out", folder).exit_code == 0
    written = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert written == sorted(path.format(name=name) for path in scaffold.FILES)
    for path in folder.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"))
    table = load_table(str(folder / name / f"{name}@0.1.toml"))
    assert (table.name, table.backend_id, len(table.rows)) == (name, f"{prefix}Backend", 5)
    settings = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["entry-points"]["npu_assay.backends"] == {name: f"{name}:backend"}
    packed = settings["tool"]["setuptools"]
    assert packed["packages"] == [name] and packed["package-data"] == {name: ["*.toml"]}
    (beside := folder.with_name("beside")).mkdir()
    assert folder.stat().st_mode == beside.stat().st_mode
    assert not any("{{" in path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file())


def test_a_runner_is_written_besides_for_a_device(tmp_path: Path) -> None:
    """`tests/conformance/devices/test_runner.py` builds and certifies it."""
    done = new("some_npu", "--device", "--out", tmp_path / "kit")
    assert done.exit_code == 0 and "--device '" in done.stdout and "cmake -S " in done.stdout
    files = scaffold.rendered("some_npu", device=True)
    assert files.keys() - scaffold.rendered("some_npu").keys() == scaffold.DEVICE.keys()
    assert all((tmp_path / "kit" / path).read_text() == text for path, text in files.items())
    assert "--device 'runner/build/runner {folder}'" in files["README.md"]
    assert not any("{{" in text for text in files.values())


def test_the_templates_are_package_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "backend/templates/new/*" in settings["tool"]["setuptools"]["package-data"]["npu_assay.conformance"]
    templates = ROOT / "conformance/backend/templates/new"
    assert {path.name for path in templates.iterdir()} == {*scaffold.FILES.values(), *scaffold.DEVICE.values()}


# ------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My-NPU", "such as 'my_npu'"),
        ("7x", "expected a Python package's"),
        ("a/b", "such as 'a_b'"),
        ("../up", "such as 'up'"),
        ("", "expected a Python package's"),
        ("ä", "expected a Python package's"),
        ("x" * 41, "of at most 40"),
        ("class", "a word of Python itself"),
        ("match", "a word of Python itself"),
        ("json", "a module of Python's library"),
        ("torch", "an installed distribution (torch "),
        ("npu_assay", "an installed"),
        ("executorch", "an adapter of assay"),
        ("tests", "a folder beside the package"),
    ],
)
def test_a_name_that_no_package_can_have_is_one_error(
    name: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = new(name)
    assert result.exit_code == 2 and expected in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_an_installed_backend_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaffold, "registered", lambda: {"somebodys-npu": None})
    result = new("somebodys_npu", "--out", tmp_path / "x")
    assert result.exit_code == 2 and "an installed backend has it already" in result.stderr


def test_nothing_that_exists_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    for name in ("file", "link", "empty"):
        result = new("my_npu", "--out", tmp_path / name)
        assert result.exit_code == 2 and "it exists already" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "link"]
    assert list((tmp_path / "empty").iterdir()) == [] and (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_half_written(error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Path.write_text

    def write_text(path: Path, text: str, **options: str) -> int:
        if path.name == "runtime.py":
            raise error
        return right(path, text, **options)

    monkeypatch.setattr(Path, "write_text", write_text)
    result = new("my_npu", "--out", tmp_path / "x")
    assert result.exit_code == (2 if isinstance(error, OSError) else 1)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ whether it is judged


FAULTS = {
    "rounds_down": ("runtime.py", "(total + (1 << shift - 1)) >> shift", "total >> shift"),
    "forgets_the_second": ("runtime.py", "[(x, s[0]), (z, s[1])]", "[(x, s[0]), (z, s[0])]"),
    "ignores_alpha": ("partitioner.py", "(alpha,)", "()"),
    "ignores_quantisation": ("partitioner.py", "(same_qparams,)", "()"),
    "shifts_the_table": ("backend.py", "-128 - ", "-127 - "),
    "takes_the_wrong_axis": ("runtime.py", 'a["dims"]', 'a["dims"][::-1]'),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kit_does_not_certify(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, (file, old, broken) = f"new_{fault}", FAULTS[fault]
    assert new(name, "--out", tmp_path / "x").exit_code == 0
    path = tmp_path / "x" / name / file
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, broken))
    monkeypatch.syspath_prepend(str(tmp_path / "x"))
    backend = importlib.import_module(name).backend
    table = load_table(backend.table)
    assert any(run_case(case, backend, table).failures for case in all_cases(table))


@pytest.mark.parametrize("blob", [b"", b"{}", b"NPUBLOB1\x1d\0\0\0" + b'{"arrays": [], "op": "other"}'])
def test_the_device_refuses_other_bytes(blob: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"new_hostile_{len(blob)}"
    assert new(name, "--out", tmp_path / "x").exit_code == 0
    monkeypatch.syspath_prepend(str(tmp_path / "x"))
    runtime = importlib.import_module(name).backend.runtime
    with pytest.raises(BlobError, match="expected"):
        runtime.load(blob, [])


# ------------------------------------------------------------------------------------ the document's walk

WALK = DOCUMENT[DOCUMENT.index("## Five rows") : DOCUMENT.index("## What is asked")]


def steps() -> Iterator[tuple[str, str]]:
    """(kind, text) in order: "command", or the language of a block."""
    for line in re.finditer(r"^    (\S[^\n]*)$|^```(\w+)\n(.*?)^```$", WALK, re.MULTILINE | re.DOTALL):
        command, language, block = line.groups()
        if command is None:
            yield language, block
        elif re.match(r"(\w+=\S+ )?(assay|pip|pytest) ", command):
            yield "command", command


def change(diff: str, folder: Path) -> None:
    """Apply a block that begins with the file's name, as the reader does: the old lines stand there once."""
    first, *lines = diff.splitlines(keepends=True)
    path = folder / first.removeprefix("--- ").strip()
    old = "".join(line[1:] for line in lines if line[0] in " -")
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name}: {text.count(old)} times:\n{old}"
    path.write_text(text.replace(old, "".join(line[1:] for line in lines if line[0] in " +")), encoding="utf-8")


@pytest.mark.slow
def test_the_walk_ends_with_a_certificate(tmp_path: Path) -> None:
    """Every command and change in the document, in order, in one folder, with the real pip."""
    environment, folder, last = Environment(tmp_path / "environment"), tmp_path / "work", ""
    folder.mkdir()
    for kind, text in steps():
        if kind == "diff":
            change(text, folder)
        elif kind == "toml":
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif text.startswith("pip install "):
            environment.install(*text.split()[2:], cwd=folder)
        else:
            last = walked(text, environment, folder)
    assert "CERTIFIED: my_npu against my_npu@0.1" in last


def walked(text: str, environment: Environment, folder: Path) -> str:
    """What a command of the document prints; it ends as the document says."""
    command, _, remark = text.partition("   ")
    words = shlex.split(command)
    variables = {"PYTHONPATH": words.pop(0).removeprefix("PYTHONPATH=")} if "=" in words[0] else {}
    result = environment.run(*words, cwd=folder, variables=variables)
    printed = " ".join(result.stdout.split())
    fails = re.search(r"\b([1-9]\d* fail|0 pass)$", remark) is not None
    assert result.returncode == (1 if fails else 0), f"{text}\n{result.stdout}{result.stderr}"
    assert remark.strip() in printed, f"{text}\n{result.stdout}"
    return printed


def test_a_change_that_does_not_fit_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    with pytest.raises(AssertionError, match="0 times"):
        change("--- a.py\n-x = 3\n+x = 4\n", tmp_path)
    change("--- a.py\n x = 1\n-y = 2\n+y = 3\n", tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 3\n"


# ------------------------------------------------------------------------------------ the example

HERON = ROOT / "examples" / "heron"


def test_the_example_began_with_the_templates() -> None:
    """The files that it had no reason to change are the templates', but for names of versions."""
    files = scaffold.rendered("heron")
    assert (HERON / "heron/__init__.py").read_text() == files["heron/__init__.py"].replace("@0.1", "@1.0")
    written, mine = (tomllib.loads(text) for text in (files["pyproject.toml"], (HERON / "pyproject.toml").read_text()))
    for settings in (written, mine):
        del settings["project"]["version"], settings["project"]["description"]
    assert written == mine


@pytest.mark.slow
def test_the_example_certifies(tmp_path: Path) -> None:
    """Installed by pip, not editable, and started elsewhere."""
    environment = Environment(tmp_path / "environment")
    project = shutil.copytree(HERON, tmp_path / "heron", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    environment.install(project, cwd=tmp_path)
    assert environment.names() == {"heron"}
    result = environment.run("assay", "certify", "heron", "--out", "certified", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "CERTIFIED: heron against heron@1.0" in " ".join(result.stdout.split())
