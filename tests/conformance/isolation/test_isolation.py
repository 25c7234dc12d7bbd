"""One backend for each kind of misbehaviour: a verdict for the case that shows it, and none for any other."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import fake_backend
import hostile_backends
import pytest
from places import PATH

from npu_assay.conformance.backend.loading import BackendSpecError, load_backend
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.isolation import leaks
from npu_assay.conformance.isolation.forkserver import Subject
from npu_assay.conformance.isolation.leaks import left
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.isolation.pool import ProcessPool
from npu_assay.conformance.programs.seeds import is_thorough
from npu_assay.conformance.record.results import Failure, from_line, to_line
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table

TABLE = load_table(fake_backend.TABLE)
CASES = {case.id: case for case in cases_for(TABLE)}
NEG = "aten.neg.default/operator/accept/baseline"
ABS = [name for name, case in CASES.items() if case.row == "aten.abs.default"]
IDS = (*ABS[:3], NEG, *ABS[3:6])
LIMITS = Limits(seconds=1.5, mebibytes=256)
PATIENT = Limits(seconds=30, mebibytes=256)  # a busy machine takes its time to fill memory

Found = dict[str, list[str]]


def results(spec: str, workers: int = 1, ids: tuple[str, ...] = IDS, limits: Limits = LIMITS) -> dict[str, str]:
    """The lines of all results by case."""
    with ProcessPool(Subject(spec, (), limits)) as processes:
        found = [(result.case, to_line(result)) for result in processes.run([CASES[name] for name in ids], workers)]
    assert sorted(name for name, _ in found) == sorted(ids)
    return dict(found)


@cache
def sound() -> dict[str, str]:
    return results("fake_backend:backend")


def failures(spec: str, workers: int = 1, limits: Limits = LIMITS) -> list[str]:
    """What fails on NEG; every other case has the line that a sound backend gives."""
    found = results(spec, workers, limits=limits)
    line = found.pop(NEG)
    assert found == {name: text for name, text in sound().items() if name != NEG}
    return [f"{failure.check}: {failure.message}" for failure in from_line(line).failures]


RUNS = hostile_backends.RUNS
STATE = "state: {} changed"
COPIED = "leak: forked this process, and the copy went on running cases"
MALFORMED = (
    "crash: partition: TypeError: rejection of aten_neg_default: its {}, expected a str (in _rejected, partitioning.py)"
)
WRONG = (
    "crash: run: BackendError: executorch_call_delegate: runtime of FakeBackend returned a wrong output 0 "
    "(quantized_decomposed_quantize_per_tensor_default_1): found {}, expected int8[1, 8, 8, 8] "
    "(in _check_outputs, run.py)"
)
ELSEWHERE = "determinism: the blob"
VERDICTS = {
    "segfaults": "crash: run: the process died (SIGSEGV)",
    "aborts": "crash: run: the process died (SIGABRT)",
    "complains": "crash: run: the process died (SIGABRT), after writing 'double free at 0x...'",
    "terminates": "crash: partition: the process died (exit code 0)",
    "exits": "crash: partition: SystemExit: enough (in <lambda>, hostile_backends.py)",
    "interrupts": "crash: partition: the process died (SIGTERM)",
    "presses": "crash: KeyboardInterrupt: (in <genexpr>, hostile_backends.py)",
    "recurses": "crash: partition: RecursionError: maximum recursion depth exceeded (in _recurse, hostile_backends.py)",
    "hangs": "hang: run: no answer in 1.5 s",
    "hangs_in_c": "hang: partition: no answer in 1.5 s",
    "deaf": "hang: run: no answer in 1.5 s",
    "allocates": "memory: run: needs more than 256 MiB",
    "grows": "memory: run: needs more than 256 MiB",
    "evades": "memory: run: needs more than 256 MiB",
    "fells": "crash: the process from which all cases start died",
    "fells_quietly": "crash: the process from which all cases start died",
    "stops": "crash: the process from which all cases start was stopped",
    "stops_and_hangs": "crash: the process from which all cases start was stopped",
    "babbles": "crash: the process wrote to the connection of the suite",
    "leaves_child": f"leak: left child processes running: {RUNS}, expected 0",
    "leaves_daemons": "leak: left child processes running: 6, expected 0",
    "leaves_daemons_and_fells": "crash: the process from which all cases start died",
    "leaves_daemons_and_dies": "crash: run: the process died (SIGABRT)",
    "leaves_grandchild": "leak: left child processes running: 2, expected 0",
    "leaves_thread": f"leak: left threads running: {RUNS}, expected 0",
    "forks": COPIED,
    "forks_in_c": COPIED,
    "forks_and_waits": COPIED,
    "forks_and_exits": COPIED,
    "inference": STATE.format("torch's inference mode") + " to True, was False",
    "forward_mode": STATE.format("torch's forward-mode gradients") + " to False, was True",
    "traces": STATE.format("the trace function (sys.settrace)"),
    "profiles": STATE.format("the profile function (sys.setprofile)"),
    "redirects": STATE.format("the open files of stdout and stderr"),
    "closes_file": STATE.format("the open files of stdout and stderr"),
    "closes_stream": STATE.format("sys.stdout or sys.stderr"),
    "default_dtype": STATE.format("torch's default dtype") + " to torch.float64, was torch.float32",
    "grad_mode": STATE.format("torch's grad mode") + " to False, was True",
    "deterministic": STATE.format("torch's deterministic algorithms") + " to (True, False), was (False, False)",
    "thread_count": STATE.format("torch's number of threads") + " to 3, was 1",
    "torch_random": STATE.format("the state of torch's random numbers"),
    "torch_seed": STATE.format("the state of torch's random numbers"),
    "numpy_random": STATE.format("the state of numpy's random numbers"),
    "python_random": STATE.format("the state of Python's random numbers"),
    "flushing": STATE.format("flushing of subnormal numbers to zero") + " to True, was False",
    "filters": STATE.format("the warning filters"),
    "environment": STATE.format("environment variables"),
    "folder": STATE.format("the working directory"),
    "printing": STATE.format("torch's print options") + " to (1, 1000, 3, 80, None), was (4, 1000, 3, 80, None)",
    "prints": "noise: wrote to stdout: 'hello from <object object at 0x...>'",
    "prints_in_c": "noise: wrote to stdout: 'hello from C'",
    "logs": "noise: wrote to stderr: 'W0000 a warning'",
    "no_sentence": MALFORMED.format("sentence is a NoneType"),
    "no_code": MALFORMED.format("code is a int"),
    "half_said": "crash: partition: ValueError: a\\udc80b (in _raise, hostile_backends.py)",
    "half_named": "crash: partition: HalfNamed: odd (in _raise, hostile_backends.py)",
    "unnamed": "crash: partition: Unnamed: odd (in _raise, hostile_backends.py)",
    "speechless": "crash: partition: Speechless: (in _raise, hostile_backends.py)",
    "half_character": r"tag: reject, expected accept; mood: found a\udc80b, but the mood must be good",
    "wrong_shape": WRONG.format("int8[1]"),
    "wrong_dtype": WRONG.format("int16[1, 8, 8, 8]"),
    "no_tensor": WRONG.format("NoneType"),
    "moody": "determinism: the same blob gave other outputs the second time",
    "remembers": f"{ELSEWHERE} does not run in a process that did not compile it: KeyError: b'' (in <lambda>, "
    "hostile_backends.py)",
    "guesses": f"{ELSEWHERE} gives other outputs in a process that did not compile it",
    "dies_elsewhere": f"{ELSEWHERE} does not run in a process that did not compile it: which died",
    "scribbles": "mutation: the runtime changed the tensors that it was given",
    "reuses": "mutation: the runtime changed outputs that it had returned before",
}


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", VERDICTS)
def test_misbehaviour_is_a_verdict_of_its_case_alone(name: str) -> None:
    limits = LIMITS if VERDICTS[name].startswith("hang") else PATIENT
    assert failures(f"hostile_backends:{name}", limits=limits) == [VERDICTS[name]]


@pytest.mark.parametrize("name", ["keeps_child", "logging_backend"])
def test_what_is_allowed_is_no_failure(name: str) -> None:
    assert failures(f"hostile_backends:{name}") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["segfaults", "hangs", "fells", "fells_quietly", "stops", "leaves_thread"])
def test_two_runners_give_the_same_results(name: str) -> None:
    spec = f"hostile_backends:{name}"
    assert results(spec, 2) == results(spec, 1)


def test_a_blob_that_kills_where_nothing_was_compiled_does_so_for_its_case_alone() -> None:
    baseline = "aten.abs.default/operator/accept/baseline"
    found = results("hostile_backends:dies_elsewhere", ids=(NEG, baseline))
    assert found[baseline] == sound()[baseline]


def test_too_few_open_files_are_one_clear_error() -> None:
    """In time for the run to go on otherwise, and with what to do."""
    used = len(list(Path("/dev/fd").iterdir()))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ProcessPool(Subject("fake_backend:backend", (), LIMITS)) as processes:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 36, before[1]))
        try:
            with pytest.raises(
                UsageError, match=r"^cannot start process [2-9] for cases: too few open files"
            ) as raised:
                list(processes.run(list(CASES.values()), 16))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    message = str(raised.value)
    assert f"the limit is {used + 36} in all (ulimit -n): raise it, or take at most " in message and "\n" not in message


IMPORTS = {
    "torch.set_default_dtype(torch.float64)": "torch's default dtype changed to torch.float64, was torch.float32",
    "torch.set_grad_enabled(False)": "torch's grad mode changed to False, was True",
    "torch.set_num_threads(3)": "torch's number of threads changed to 3, was 1",
    "torch.set_flush_denormal(True)": "flushing of subnormal numbers to zero changed to True, was False",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("statement", IMPORTS)
def test_a_backend_that_changes_settings_when_it_is_imported_is_refused(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every golden would be computed under them."""
    (tmp_path / "meddler.py").write_text(f"import torch\n{statement}\nfrom fake_backend import backend\n")
    monkeypatch.syspath_prepend(tmp_path)
    rule = "importing it must not change settings that affect numbers"
    with pytest.raises(BackendSpecError) as raised:
        ProcessPool(Subject("meddler:backend", (), LIMITS))
    assert str(raised.value) == f"backend 'meddler:backend': {rule}: {IMPORTS[statement]}"


def test_a_copy_that_an_import_makes_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twins.py").write_text("import ctypes\nctypes.CDLL(None).fork()\nfrom fake_backend import backend\n")
    monkeypatch.syspath_prepend(tmp_path)
    with ProcessPool(Subject("twins:backend", (), LIMITS)) as processes:
        twins = left(
            lambda: frozenset(pid for pid, parent in leaks.running() if parent == processes._forkserver), frozenset()
        )
    assert twins == frozenset()


LEAVING = ("leaves_child", "leaves_grandchild", "leaves_daemons", "leaves_daemons_and_fells", "leaves_daemons_and_dies")


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [*LEAVING, "hangs", "stops_and_hangs"])
def test_nothing_is_left_running(name: str) -> None:
    """Not here, and of daemons nowhere."""
    mark = f"ASSAY_TEST={os.getpid()}_{time.monotonic_ns()}"
    spec = f"hostile_backends:{name}"
    code = f"import {__name__} as t; t.results({spec!r}, limits=t.LIMITS)"
    name, _, value = mark.partition("=")
    environment = {**os.environ, name: value, "PYTHONPATH": PATH}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
    assert marked(mark) == []


def marked(mark: str) -> list[str]:
    """The processes that were started with this in their environment, and what they and their copies are called."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(f"{entry.name} {(entry / 'cmdline').read_text()}")
    return found


@pytest.mark.slow
def test_nothing_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    """The daemons of a case that goes on when the run itself is killed."""
    mark = f"ASSAY_TEST={os.getpid()}_{time.monotonic_ns()}"
    name, _, value = mark.partition("=")
    environment = {**os.environ, name: value, "PYTHONPATH": PATH}
    code = f"import {__name__} as t; t.results('hostile_backends:leaves_daemons_and_waits', limits=t.PATIENT)"
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as run:
        deadline = time.monotonic() + 60
        while (
            len(marked(mark)) < 10 and time.monotonic() < deadline
        ):  # run, keeper, forkserver, two of a runner, daemons
            time.sleep(0.05)
        assert len(marked(mark)) >= 10
        run.kill()
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(mark) == []


def test_a_death_that_another_case_caused_is_said_to_be_one() -> None:
    """The case itself is sound in a new process, and fails all the same: nobody knows what it would have shown."""
    neg = [name for name, case in CASES.items() if case.row == "aten.neg.default" and case.expect == "accept"]
    neg = [name for name in neg if not is_thorough(name, CASES[name].side)][:2]
    found = results("hostile_backends:dies_second", ids=(neg[0], neg[1]))
    assert [f.message for f in from_line(found[neg[0]]).failures] == []
    assert [f"{f.check}: {f.message}" for f in from_line(found[neg[1]]).failures] == [
        "crash: run: the process died (SIGSEGV); only after other cases, not in a process of its own"
    ]


def test_constants_that_a_backend_writes_are_put_back() -> None:
    """A program's constants are the golden's and other cases' as well."""
    table = load_table("neutron@1.3")
    backend = load_backend("npu_assay.partitioners.neutron:backend")
    case = next(c for c in cases_for(table) if c.row == "aten.convolution.default" and c.expect == "accept")
    before = run_case(case, backend, table)
    result = run_case(case, replace(backend, details=hostile_backends.scrawling(backend.details)), table)
    assert Failure("mutation", "the backend changed the constants of the program that it was given") in result.failures
    assert run_case(case, backend, table) == before and before.status == "pass"
