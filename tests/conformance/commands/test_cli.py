"""The command line: exit codes, one-line errors, no torch where none is needed, interruption."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fake_backend
import pytest
from calling import assay
from places import PATH, ROOT, SHARED

from npu_assay.conformance.record.journal import Journal
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL, RESULTS
from npu_assay.conformance.record.results import from_line

DEEP = "deep.toml"
STRANGE = str(SHARED / "data" / "strange@1.0.toml")
NEG = "aten.neg.default/operator/accept/baseline"


# What the command does, with Ctrl-C heard: a shell starts what runs in its background with SIGINT ignored.
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from npu_assay.conformance.cli import main
main()
"""


def child(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command in a process (and process group) of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PATH, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


EAGER = """
from npu_assay.conformance.verify import verification
without = verification.verify_contents
verification.verify_contents = lambda *given: (__import__("torch"), without(*given))[1]
"""


def loaded(arguments: tuple[str, ...], fault: str = "") -> set[str]:
    """The packages that a command loads, Python's own left out, with a fault that is injected before."""
    code = f"""{fault}
import sys
from npu_assay.conformance.cli import main
try:
    main({list(arguments)!r})
except SystemExit:
    pass
print(*({{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names))
"""
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in output.splitlines()[-1].split() if not name.startswith("_")}


def loads_torch(arguments: tuple[str, ...], fault: str = "") -> bool:
    """Whether a command loads torch, with a fault that is injected before."""
    return "torch" in loaded(arguments, fault)


@pytest.mark.parametrize("command", ["--help", "list"])
def test_starting_loads_what_reads_arguments_alone(command: str) -> None:
    assert loaded((command,)) == {"click", "npu_assay"}
    assert "jinja2" in loaded((command,), "import jinja2")


@pytest.mark.parametrize("arguments", [("--help",), ("list",), ("verify", "nowhere"), ("show", "neutron", "abs")])
def test_torch_is_not_imported_where_no_case_runs(arguments: tuple[str, ...]) -> None:
    assert not loads_torch(arguments)


@pytest.mark.long
def test_a_stored_run_is_verified_without_torch(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert assay("certify", "fake_backend:backend", "-k", NEG, "--out", str(folder))[0] == 0
    assert not loads_torch(("verify", str(folder)))
    assert loads_torch(("verify", str(folder)), EAGER), "what loads torch is not seen"


@pytest.mark.parametrize("fault", ["", "gc.freeze = print"])
def test_the_end_of_a_command_collects_no_garbage(fault: str) -> None:
    """What is frozen then is not looked through: a fifth of the time of a command that has loaded torch."""
    code = f"""
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 1000))  # called last
{fault}
from npu_assay.conformance.cli import main
main(["list"])
"""
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == str(not fault)


@pytest.mark.long
def test_torch_is_loaded_once_for_the_run_and_the_process_of_the_backend(tmp_path: Path) -> None:
    """The process that backends come from is a copy of the run, made before the run has loaded what judges."""
    code = f"""
from npu_assay.conformance import cli
from npu_assay.conformance.isolation import base_process
base_process._anew = None  # what would start Python, and torch, a second time
cli.main(["certify", "fake_backend:backend", "-k", {NEG!r}, "-n", "1", "--out", {str(tmp_path / "out")!r}])
"""
    environment = {**os.environ, "PYTHONPATH": PATH}
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_list_names_tables_and_backends() -> None:
    code, text = assay("list")
    assert code == 0 and "neutron@1.3" in text and "40 operators" in text


def test_show_explains_an_operator() -> None:
    code, text = assay("show", "fake_backend:backend", "aten.neg.default")
    assert code == 0
    assert "quantized: the operator must stand between" in text and NEG in text


def test_certify_and_verify_a_sound_backend(tmp_path: Path) -> None:
    code, text = assay("certify", "fake_backend:backend", "-n", "1", "--out", str(tmp_path))
    assert code == 0 and "CERTIFIED: fake_backend:backend against fake@1.0" in text
    code, text = assay("verify", str(tmp_path))
    assert code == 0 and text.splitlines()[-1].endswith(": certified, self-declared")


@pytest.mark.parametrize(("name", "code"), [("backend", 0), ("drifts", 1)])
def test_a_part_of_the_cases_passes_or_fails_and_never_certifies(name: str, code: int, tmp_path: Path) -> None:
    for option in (("-k", NEG), ("--smoke",)):
        found, text = assay("certify", f"fake_backend:{name}", *option, "-n", "1", "--out", str(tmp_path / option[0]))
        assert found == code and "CERTIFIED" not in text, text
        assert f"\n{'NOT PASSED' if code else 'PASSED'}: fake_backend:{name} against fake@1.0\n" in text
        assert text.splitlines()[-1].startswith("  no certificate: only a selection of the table's cases was run (")
        assert assay("verify", str(tmp_path / option[0]))[0] == 1


@pytest.mark.long
def test_what_is_waived_is_said_in_the_last_line(tmp_path: Path) -> None:
    """A backend that fails most of its cases, all of them waived."""
    arguments = ("certify", "fake_backend:drifts", "-n", "2", "--out", str(tmp_path / "out"))
    code, _ = assay(*arguments)
    results = [from_line(line) for line in (tmp_path / "out" / RESULTS).read_text().splitlines()]
    failing = {r.case: sorted({f.check for f in r.failures}) for r in results if r.failures}
    entry = '[[waiver]]\ncase = "{}"\nchecks = {}\nreason = "r"\nowner = "o"\nexpires = 2999-12-31\n'
    (tmp_path / "waivers.toml").write_text("".join(entry.format(*item) for item in failing.items()))
    waived = f"{len(failing)} of {len(results)} cases failing and waived"
    again, text = assay(*arguments, "--waivers", str(tmp_path / "waivers.toml"))
    assert (code, again) == (1, 0) and len(failing) > len(results) / 2
    last = f"CERTIFIED WITH {waived}: fake_backend:drifts against fake@1.0"
    assert text.splitlines()[-1].lower() == last.lower()
    code, text = assay("verify", str(tmp_path / "out"))
    assert code == 0 and text.splitlines()[-1] == f"{tmp_path / 'out'}: certified with {waived}, self-declared"


@pytest.mark.long
def test_two_processes_write_the_same_bytes_as_one(tmp_path: Path) -> None:
    for workers in ("1", "2"):
        code, _ = assay("certify", "fake_backend:refuses", "-n", workers, "--out", str(tmp_path / workers))
        assert code == 1
    assert (tmp_path / "1" / RESULTS).read_bytes() == (tmp_path / "2" / RESULTS).read_bytes()


@pytest.mark.slow
def test_workers_run_the_suite_that_the_command_runs(tmp_path: Path) -> None:
    """An `npu_assay` in the current folder is another copy of the suite, not the one that was started."""
    (tmp_path / "npu_assay").mkdir()
    (tmp_path / "npu_assay" / "__init__.py").write_text("open('imported', 'w').close()\n")
    path = [str(ROOT), str(SHARED)]
    arguments = ["certify", "fake_backend:backend", "-k", "aten.neg", "-n", "2", "--out", "out"]
    code = f"import sys; sys.path[:1] = {path}; from npu_assay.conformance.cli import main; main({arguments})"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "PASSED: fake_backend:backend against fake@1.0" in run.stdout, run.stderr
    assert not (tmp_path / "imported").exists()


def test_a_failure_says_what_is_wrong_and_how_to_see_it_again(tmp_path: Path) -> None:
    code, text = assay("certify", "fake_backend:drifts", "-k", NEG, "-n", "1", "--out", str(tmp_path))
    assert code == 1
    assert "= -32, expected -33 (exact)" in text
    assert f"assay certify fake_backend:drifts -k {NEG} -n 1" in text
    assert "NOT PASSED" in text and "because 1 of 1 cases fail" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("certify", "neutrn"), "no backend 'neutrn', did you mean 'neutron'? (install its package, or give module:"),
        (("certify", "ethos-u65"), "no backend 'ethos-u65'; known: ethos-u55, ethos-u85, "),
        (("certify", "nowhere:backend"), "cannot import nowhere"),
        (("certify", "fake_backend:backnd"), "did you mean 'backend'?"),
        (("certify", "fake_backend:"), "expected module:attribute"),
        (("certify", "fake_backend:FakeBackend"), "expected a Backend"),
        (("certify", "fake_backend:backend", "--table", "fake@9"), "no table 'fake@9'"),
        (("certify", "fake_backend:backend", "--table", "missing.toml"), "cannot read the table"),
        (("certify", "fake_backend:backend", "-k", "a and ("), "found the end, expected"),
        (("certify", "fake_backend:backend", "-k", "or"), "found 'or', expected"),
        (("certify", "fake_backend:backend", "-k", "(" * 3000), "found more than 100 'not' and '(' inside others"),
        (("certify", "fake_backend:backend", "-k", "not " * 3000 + "a"), "found more than 100 'not' and '('"),
        (("certify", "fake_backend:backend", "--waivers", DEEP), "cannot read the waivers: values are nested too"),
        (("certify", "fake_backend:backend", "--table", DEEP), "deep.toml: values are nested too deeply to be read"),
        (("certify", "fake_backend:backend", "-k", "nothing"), "-k 'nothing': matches none of 110 case ids"),
        (("certify", "broken_module:backend"), "cannot import broken_module: ValueError: no luck (broken_module.py"),
        (("certify", "unreadable_module:backend"), "expected ':' (unreadable_module.py, line 1)"),
        (("certify", "fake_backend:backend", "--waivers", "missing.toml"), "cannot read the waivers"),
        (("show", "fake_backend:backend", "aten.neg.defalt"), "'aten.neg.defalt'; nearest: aten.neg.default"),
        (
            ("show", "neutron", "gelu"),
            "has no operator 'gelu'; the suite knows aten.gelu.default, which the table does not",
        ),
        (("certify", "fake_backend:backend", "--table", STRANGE), "no cases for 'aten.frobnicate.default'"),
        (("verify", "nowhere"), "no such folder"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEEP).write_text(f"x = {'[' * 5000}{']' * 5000}")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "broken_module.py").write_text("raise ValueError('no luck')\n")
    (tmp_path / "unreadable_module.py").write_text("def backend()\n")
    code, text = assay(*arguments)
    assert code == 2 and message in text
    assert len(text.splitlines()) == 1
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--timeout", "nan"),
        ("--timeout", "inf"),
        ("--timeout", "1e300"),
        ("--memory", "9007199254740993"),
        ("--memory", "99999999999999999999"),
    ],
)
def test_a_limit_that_the_system_cannot_keep_is_a_usage_error(option: str, value: str) -> None:
    code, output = assay("certify", "fake_backend:backend", option, value)
    assert code == 2 and f"Invalid value for '{option}'" in output


def test_no_worker_is_a_usage_error() -> None:
    code, _ = assay("certify", "fake_backend:backend", "-n", "0")
    assert code == 2


@pytest.mark.parametrize("name", ["notes.txt", "results.jsonl"])
def test_a_folder_of_someone_else_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    code, text = assay("certify", "fake_backend:backend", "-k", NEG, "-n", "1", "--out", str(tmp_path))
    assert code == 2 and f"holds other files ({name})" in text and len(text.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "mine"


@pytest.mark.long
def test_a_look_at_some_cases_leaves_the_certificate_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that repeats a failure runs where the report of that failure stands."""
    monkeypatch.chdir(tmp_path)
    for more in ((), ("-k", NEG), ("--smoke",)):
        assay("certify", "fake_backend:drifts", "-n", "1", *more)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "assay-fake_backend.drifts",
        "assay-fake_backend.drifts-part",
    ]
    certificate = json.loads((tmp_path / "assay-fake_backend.drifts" / CERTIFICATE).read_text())
    assert certificate["selection"] == {"expression": None, "smoke": False, "seed": 0, "variations": "chosen"}


@pytest.mark.slow
def test_the_command_of_a_failure_repeats_it(tmp_path: Path) -> None:
    """As printed, in a shell, for a backend that only PYTHONPATH finds."""
    arguments = ["certify", "fake_backend:drifts", "-n", "1", "-k", NEG]
    first = child(*arguments, "--out", str(tmp_path / "first")).communicate(timeout=120)[0]
    command = next(line for line in first.splitlines() if line.lstrip().startswith("again")).split(maxsplit=1)[1]
    assert command.startswith("PYTHONPATH=")
    shell = f'assay() {{ {sys.executable} -m npu_assay.conformance.cli "$@"; }}\ncd {tmp_path}\n{command}'
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    again = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True, text=True, timeout=120)
    assert again.returncode == 1, again.stderr
    assert "= -32, expected -33 (exact)" in again.stdout


def test_a_full_disk_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Journal, line: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), line)

    monkeypatch.setattr(Journal, "_write", full)
    code, text = assay("certify", "fake_backend:backend", "-k", NEG, "-n", "1", "--out", str(tmp_path))
    assert code == 2 and "cannot be written: No space left on device" in text
    assert not (tmp_path / CERTIFICATE).exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs this device")
def test_a_journal_that_is_a_device_is_one_error(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).symlink_to("/dev/full")
    code, text = assay("certify", "fake_backend:backend", "-k", NEG, "-n", "1", "--out", str(tmp_path))
    assert code == 2 and "found a device, expected a regular file" in text
    assert not (tmp_path / CERTIFICATE).exists()


@pytest.mark.slow
def test_a_script_needs_no_guard() -> None:
    """Workers do not import the main module again."""
    script = (
        "from npu_assay.conformance.cli import main\nmain(['certify', 'fake_backend:backend', '-n', '2', '--smoke'])\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "unguarded.py").write_text(script)
        run = subprocess.run(
            [sys.executable, "unguarded.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": PATH},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert run.returncode == 0 and "no certificate: only a selection" in run.stdout, run.stderr


@pytest.mark.parametrize(
    ("deed", "end"), [("ctypes.string_at(0)", "SIGSEGV"), ("os._exit(4)", "exit code 4"), ("os.abort()", "SIGABRT")]
)
def test_a_backend_that_cannot_even_be_loaded_is_one_error(
    deed: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "deadly.py").write_text(f"import ctypes, os\n{deed}\n")
    code, text = assay("certify", "deadly:backend")
    assert code == 2 and text == f"assay: backend 'deadly:backend': loading it ends its process ({end})\n"


def wait_for_results(process: subprocess.Popen[str], path: Path) -> None:
    """Until some cases are in the journal, behind its first line."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if path.is_file() and path.read_bytes().count(b"\n") > 1:
            return
        time.sleep(0.05)
    raise AssertionError(f"no results appeared: {process.communicate()[0]}")


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, "2"), (signal.SIGINT, "1"), (signal.SIGKILL, "2")])
def test_an_interrupted_run_is_never_certified(number: signal.Signals, workers: str, tmp_path: Path) -> None:
    process = child("certify", "fake_backend:slow", "-n", workers, "--out", str(tmp_path))
    wait_for_results(process, tmp_path / JOURNAL)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == (1 if number == signal.SIGINT else -signal.SIGKILL), output
    assert "Traceback" not in output
    assert not (tmp_path / CERTIFICATE).exists() and not (tmp_path / RESULTS).exists()
    code, text = assay("verify", str(tmp_path))
    assert code == 1 and "incomplete: the run was interrupted" in text
    assert all(json.loads(line)["case"] for line in (tmp_path / JOURNAL).read_text().splitlines()[1:])


def test_the_fake_backends_table_is_not_shipped() -> None:
    assert "fake" not in assay("list")[1] and Path(fake_backend.TABLE).is_file()


def test_a_further_compiler_is_part_of_the_certificate(tmp_path: Path) -> None:
    run = ("-k", NEG, "-n", "1", "--out", str(tmp_path), "--with-vela")
    code, text = assay("certify", "fake_backend:checked", *run)
    assert code == 1
    assert "Refused by a further compiler" in text and "vela: found neg, expected abs" in text
    assert "--with-vela" in text.partition("again")[2]
    certificate = json.loads((tmp_path / CERTIFICATE).read_text())
    assert certificate["backend"]["tools"] == ["vela"] and "pytest" in certificate["environment"]


@pytest.mark.parametrize(
    ("backend", "problem"), [("backend", "it has no such check"), ("uncheckable", "no-such-compiler is not installed")]
)
def test_a_further_compiler_that_is_not_there_is_a_usage_error(tmp_path: Path, backend: str, problem: str) -> None:
    code, text = assay("certify", f"fake_backend:{backend}", "--with-vela", "--out", str(tmp_path / "out"))
    assert code == 2 and problem in text
    assert not (tmp_path / "out").exists()
