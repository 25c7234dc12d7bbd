"""`assay explain` as a command: backends that fail, what cannot be asked, files of strangers."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")
import numpy as np
import torch
from click.testing import CliRunner, Result
from explain_models import Small, small
from places import ROOT
from quantizing import QUANTIZES
from torch import Tensor, nn

import npu_assay
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cli import main
from npu_assay.conformance.explain.record import Explanation
from npu_assay.partitioners.exir import Backend, Partitioner, PartitionResult

pytestmark = QUANTIZES
HERE = Path(__file__).relative_to(ROOT)


def broken() -> object:
    """A factory that fails."""
    raise RuntimeError("no weights here")


class Wrong(nn.Module):
    """A product whose sizes do not fit; with `asks`, a branch on data."""

    def __init__(self, asks: bool) -> None:
        super().__init__()
        self.asks, self.layer = asks, nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        if self.asks and x.sum() > 0:  # the branch
            return x
        return self.layer(x)  # type: ignore[no-any-return]  # the product


def misfit() -> object:
    """A factory of a model that raises in torch, on a line of its own."""
    return Wrong(asks=False), torch.ones(2, 4)


def branches() -> object:
    """A factory of a model that export refuses."""
    return Wrong(asks=True), torch.ones(2, 4)


def sized() -> object:
    """A factory of the size of example inputs."""
    return Small(), 12


def nothing() -> object:
    """A factory of something else."""
    return 7


# ------------------------------------------------------------------------------------ backends that fail


class Raises(Partitioner):
    """A partitioner that raises."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """Nothing."""
        raise RuntimeError("not today")


class Dies(Partitioner):
    """A partitioner that ends the process."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """Nothing."""
        os._exit(3)


class Silent(Partitioner):
    """A partitioner that takes nothing and says nothing."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """No tags."""
        return PartitionResult(exported_program, {})


def _neutron(partitioner: type[Partitioner]) -> Backend:
    return replace(load_backend("neutron"), partitioner=partitioner)


class Waits(Partitioner):
    """A partitioner that does not answer."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """Nothing, for long."""
        time.sleep(600)
        raise AssertionError


raises, dies, silent, waits = _neutron(Raises), _neutron(Dies), _neutron(Silent), _neutron(Waits)


def test_what_a_backend_raises_is_its_answer() -> None:
    module, inputs = small()
    program = torch.export.export(module.eval(), inputs)
    found = npu_assay.explain(program, [raises, "xnnpack"])
    assert found.backends[0].error == "RuntimeError: not today" and found.backends[1].error == ""


def test_a_partitioner_without_reasons() -> None:
    module, inputs = small()
    (one,) = npu_assay.explain(torch.export.export(module.eval(), inputs), [silent], [inputs]).backends
    assert one.taken == () and {cause.code for cause in one.causes} == {"no_reason"}
    assert sum(len(cause.operators) for cause in one.causes) == len(one.operators)


# ------------------------------------------------------------------------------------ the command


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["explain", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_a_line_number_is_not_an_emoji(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ["import torch", "class Net(torch.nn.Module):", "    def forward(self, x):", *["        #"] * 96]
    source += ["        return x.sin()", "def make():", "    return Net(), (torch.ones(1, 8),)"]
    (tmp_path / "hundred_lines.py").write_text("\n".join(source))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shown = run("hundred_lines:make", "--backend", "neutron", "-v").output
    assert "hundred_lines.py:100: return x.sin()" in shown


SMALL = "explain_models:small"


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(SMALL, "--backend", "neutron", "--calibrate", "random", "--out", out, "--pte", "-n", "1")
    assert "1. GELU (act): unsupported: the operator is not in the support table" in result.output
    assert "act (GELU)  aten.gelu.default" not in result.output
    verbose = run(SMALL, "--backend", "neutron", "--calibrate", "random", "-v").output
    assert "at act (GELU)  aten.gelu.default" in verbose and "  (model)  3 of 5 delegated" in verbose
    wanted = [f"written: {out / name}" for name in ("explain.json", "explain.html", "neutron.pte")]
    assert result.stdout.splitlines()[-3:] == wanted  # as long as their paths
    assert max(len(line) for line in result.output.splitlines() if line not in wanted) <= 100
    record = Explanation.from_json(json.loads((out / "explain.json").read_text()))
    assert record.backends[0].program == len((out / "neutron.pte").read_bytes())
    ran = CliRunner().invoke(main, ["run", str(out / "neutron.pte"), "--random", "0"])
    assert ran.exit_code == 0, ran.output
    assert {path.name for path in out.iterdir()} == {"explain.html", "explain.json", "neutron.pte"}


def test_a_file_and_arrays(tmp_path: Path) -> None:
    path, samples = tmp_path / "model.pt2", tmp_path / "samples.npz"
    module, inputs = small()
    torch.export.save(torch.export.export(module.eval(), inputs), path)
    np.savez(samples, x=np.random.default_rng(0).normal(size=(3, 1, 3, 12, 12)).astype("float32"))
    result = run(path, "--backend", "xnnpack", "--calibrate", samples, "--json", "-n", "1", "--out", tmp_path)
    (one,) = Explanation.from_json(json.loads(result.stdout)).backends
    assert f"written: {tmp_path / 'explain.json'}\n" in result.stderr
    assert one.quantized and len(one.operators) == 4


@pytest.mark.parametrize(("count", "warned"), [(5, ("numbers: 4 of 5 samples",)), (4, ())])
def test_samples_that_nothing_ran_on_are_told(count: int, warned: tuple[str, ...], tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", x=np.random.default_rng(0).normal(size=(count, 1, 3, 12, 12)).astype("float32"))
    chosen = (SMALL, "--backend", "neutron", "--calibrate", "random", "--inputs", tmp_path / "samples.npz", "-n", "1")
    shown = run(*chosen, "--out", tmp_path).output
    (one,) = Explanation.from_json(json.loads((tmp_path / "explain.json").read_text())).backends
    assert one.warnings == warned and (bool(warned) or "warning: " not in shown)
    assert all(f"warning: {each}" in shown and each in (tmp_path / "explain.html").read_text() for each in warned)


@pytest.mark.parametrize(("share", "code"), [("0.5", 0), ("1", 1)])
def test_fail_under(share: str, code: int) -> None:
    chosen = ("explain_models:small_share", "--backend", "neutron", "--calibrate", "random")
    run(*chosen, "--fail-under", share, "-n", "1", code=code)


@pytest.mark.long
@pytest.mark.parametrize(("demand", "code"), [((), 0), (("--fail-under", "0.1"), 1), (("--fail-under", "0"), 1)])
def test_no_answer_is_no_share(demand: tuple[str, ...], code: int, tmp_path: Path) -> None:
    waiting = f"{__name__}:waits"
    backends = [each for name in (waiting, f"{__name__}:raises") for each in ("--backend", name)]
    result = run(SMALL, *backends, "--timeout", "5", "--out", tmp_path, *demand, code=code)
    late = f"{waiting}: no answer in 5 s: give a larger --timeout"
    plain = " ".join(result.stdout.split())
    assert plain.count(late.replace("waits: no", "waits: no answer: no")) == 1 and "all 0" not in plain
    assert "neutron: no answer: RuntimeError: not today" in plain
    record = Explanation.from_json(json.loads((tmp_path / "explain.json").read_text()))
    assert record.backends[0].error == late in (tmp_path / "explain.html").read_text()
    assert "0 %" not in result.stderr
    assert (f"{waiting}: no share is known: no answer in 5 s: give a larger --timeout\n" in result.stderr) == bool(code)


def test_a_backend_that_ends_its_process_is_told(tmp_path: Path) -> None:
    result = run(SMALL, "--backend", f"{__name__}:dies", "--backend", "xnnpack", "--calibrate", "random", "-n", "1")
    assert "exit code 3" in result.output and "xnnpack (quantized here)" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.pt2", "--backend", "neutron"], "nothing.pt2: found no such file"),
        ([f"{__name__}:broken", "--backend", "neutron"], "RuntimeError: no weights here"),
        ([f"{__name__}:nothing", "--backend", "neutron"], "found int, expected a pair"),
        (
            [f"{__name__}:sized", "--backend", "neutron"],
            "example inputs: found int, expected a tensor, a tuple, a dict",
        ),
        ([f"{__name__}:absent", "--backend", "neutron"], "has no 'absent'"),
        ([SMALL, "--backend", "neutrons"], "no backend 'neutrons', did you mean 'neutron'?"),
        ([SMALL, "--backend", "neutron", "--calibrate", "no.npz"], "no.npz: cannot be read"),
        ([SMALL, "--backend", "neutron", "--dynamic"], "--dynamic: expected --calibrate beside it"),
        ([SMALL, "--backend", "neutron", "--pte"], "--pte: expected --out DIR beside it"),
    ],
)
def test_what_cannot_be_asked(arguments: list[str], message: str) -> None:
    result = run(*arguments, "-n", "1", code=2)
    assert message in result.output and "Traceback" not in result.output
    assert result.output.startswith("assay: ") and result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("model", "line", "ends"),
    [
        ("broken", 'raise RuntimeError("no weights here")', "RuntimeError: no weights here"),
        ("misfit", "# the product", "must have same reduction dim, but got [2, 4] X [3, 4]."),
        ("branches", "# the branch", "such as guard_or_false, guard_or_true and statically_known_true."),
    ],
)
def test_a_model_that_raises_is_told_with_its_own_line(model: str, line: str, ends: str) -> None:
    result = run(f"{__name__}:{model}", "--backend", "neutron", "-n", "1", code=2)
    number = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith(line))
    assert f"{ends} ({HERE}:{number})" in result.output and result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("One. " + "two " * 90 + ".", "One."),
        ("word " * 90, " ..."),
        ("No period. And more", "And more"),
    ],
)
def test_what_a_model_raises_is_told_in_whole_sentences(said: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> object:
        raise RuntimeError(said)

    monkeypatch.setattr(sys.modules[__name__], "broken", fails)
    shown = run(f"{__name__}:broken", "--backend", "neutron", "-n", "1", code=2).output
    assert f"{told} ({HERE}:" in shown and len(shown) < 460


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_module_that_exits(processes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks gets one line, in one process or several."""
    (tmp_path / "model_that_exits.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    backends = ("--backend", "neutron", "--backend", "xnnpack")
    result = run("model_that_exits:make", *backends, "-n", processes, code=2)
    assert "model_that_exits" in result.output and result.output.count("\n") == 1


def _spoiled(number: float) -> Any:
    """Four samples, with one number in the third."""
    samples = np.random.default_rng(0).normal(size=(4, 1, 3, 12, 12))
    samples[2, 0, 1, 5, 5] = number
    return samples


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            {"x": np.zeros((2, 1, 3, 12, 11))},
            "found sizes [2, 1, 3, 12, 11], expected [samples, 1, 3, 12, 12]",
        ),
        (
            {"x": np.zeros((8, 3, 12, 12))},
            "found sizes [8, 3, 12, 12], expected [samples, 1, 3, 12, 12]: array[:, None] has an axis for them",
        ),
        ({"x": np.zeros((0, 1, 3, 12, 12))}, "array 0: found sizes [0, 1, 3, 12, 12]"),
        ({"x": np.zeros((1, 1, 3, 12, 12)), "y": np.zeros(1)}, "found 2 arrays, expected 1"),
        ({"x": np.zeros((1,), dtype=object)}, "Python objects"),
        ({"x": _spoiled(np.nan)}, "array 0, sample 2, counted from 0: found nan, expected finite numbers"),
        ({"x": _spoiled(-np.inf)}, "array 0, sample 2, counted from 0: found -inf, expected finite numbers"),
        ({"x": _spoiled(1e300)}, "array 0, sample 2, counted from 0: found inf, expected finite numbers"),
    ],
)
def test_samples_that_do_not_fit(array: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", **array)
    result = run(SMALL, "--backend", "neutron", "--calibrate", tmp_path / "samples.npz", "-n", "1", code=2)
    assert message in result.output


def embedded() -> object:
    """A factory of a model that takes whole numbers below 8."""
    return nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 4)), torch.zeros(1, 5, dtype=torch.int64)


@pytest.mark.parametrize(
    ("option", "number", "message"),
    [
        ("--calibrate", 8, ": sample 1, counted from 0: IndexError: index out of range"),
        ("--calibrate", -1, ": sample 1, counted from 0: IndexError: index out of range"),
        ("--calibrate", 0.5, ": array 0, sample 1, counted from 0: found 0.5, expected numbers of int64"),
        ("--inputs", 8, ": sample 1, counted from 0: IndexError: index out of range"),
    ],
)
def test_a_sample_that_the_model_does_not_take_is_named(
    option: str, number: float, message: str, tmp_path: Path
) -> None:
    """With its file, once, whatever number of backends is asked."""
    samples = np.ones((3, 1, 5))
    samples[1, 0, 2] = number
    np.savez(path := tmp_path / "samples.npz", samples if number == 0.5 else samples.astype("int64"))
    others = () if option == "--calibrate" else ("--calibrate", "random")
    backends = ("--backend", "xnnpack", "--backend", "neutron")
    result = run(f"{__name__}:embedded", *backends, option, path, *others, code=2)
    assert f"assay: {path}{message}" in result.output and result.output.count("\n") == 1


# ------------------------------------------------------------------------------------ files of strangers


def _edited(path: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> None:
    """Every record of an archive changed, and more of them."""
    with zipfile.ZipFile(path) as given:
        records = {name: given.read(name) for name in given.namelist()}
    with zipfile.ZipFile(path, "w") as made:
        for name, data in records.items():
            made.writestr(name, change(name, data))
        for name, data in (more or {}).items():
            made.writestr(name, data)


MARKER = "a_pickle_was_read"

PICKLE = b"cos\nsystem\n(S'touch " + MARKER.encode() + b"'\ntR."


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (lambda name, data: data.replace(b'"use_pickle": false', b'"use_pickle": true'), None, "a pickled tensor"),
        (lambda name, data: data, {"model/data/aotinductor/x.so": b""}, "expected the records of one exported program"),
        (lambda name, data: data[:-40] if name.endswith("model.json") else data, None, "not a program"),
    ],
)
def test_archives_that_are_refused(
    change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(small()[0].eval(), small()[1]), path)
    _edited(path, change, more)
    assert message in run(path, "--backend", "neutron", "-n", "1", code=2).output


def test_other_files_are_told_what_they_are(tmp_path: Path) -> None:
    torch.save(Small().state_dict(), state := tmp_path / "sd.pt2")
    assert "of torch.save or torch.jit.save; torch.export.save(" in run(state, "--backend", "neutron", code=2).output
    (lowered := tmp_path / "model.pte").write_bytes(b"")
    shown = run(lowered, "--backend", "neutron", code=2).output
    assert "'assay inspect'" in shown and "'assay run'" in shown and shown.count("\n") == 1


def test_pickled_samples_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(small()[0].eval(), small()[1]), path)
    _edited(path, lambda name, data: PICKLE if "sample_inputs" in name else data)
    run(path, "--backend", "neutron", "-n", "1")
    assert not (tmp_path / MARKER).exists()


def test_sizes_are_never_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open size is an expression in the file, which torch evaluates."""
    monkeypatch.chdir(tmp_path)
    path, batch = tmp_path / "model.pt2", torch.export.Dim("batch", max=8)
    program = torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    evil = f"__import__('os').system('touch {MARKER}')"
    found = list[bytes]()

    def change(name: str, data: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return data
        found.append(re.sub(rb'"expr_str": ?"[^"]*"', f'"expr_str": "{evil}"'.encode(), data))
        assert found[-1] != data
        return found[-1]

    _edited(path, change)
    assert "expected arithmetic on symbols" in run(path, "--backend", "neutron", "-n", "1", code=2).output
    assert not (tmp_path / MARKER).exists()
