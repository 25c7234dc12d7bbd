"""`assay inspect` and `assay run`: tables, JSON, arrays in and out, one-line errors."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from pte_programs import TwiceRuntime, added, choosing, counting, delegated, floats, plan, with_constants

from npu_assay.conformance.backend.loading import by_delegate
from npu_assay.conformance.cli import main
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.pte import Allocation, Program, Tensor, write


class TwiceBackend:
    """Only its name counts: it is the delegates' id."""


def _operators(blob: bytes) -> list[str]:
    if blob == b"\0":
        raise ValueError("not one of ours")
    return ["DOUBLE"] * blob[0] + ["COPY"]


def _partitioner() -> Any:
    raise AssertionError("nothing is partitioned here")


twice = Backend("twice", "none@1", _partitioner, TwiceBackend, TwiceRuntime(), blob_operators=_operators)  # type: ignore[arg-type]


def assay(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and everything printed."""
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Installed backends are loaded once here, and not in every process that is forked."""
    by_delegate()


@pytest.fixture
def model(tmp_path: Path) -> Callable[[Program], Path]:
    def saved(program: Program) -> Path:
        path = tmp_path / "model.pte"
        path.write_bytes(write(program))
        return path

    return saved


ONES = np.ones((2, 3), np.float32)
Model = Callable[[Program], Path]


def test_everything_is_in_the_json(model: Model) -> None:
    path = model(delegated(b"\2abc"))
    code, text = assay("inspect", path, "--json", "--backend", f"{__name__}:twice")
    assert code == 0
    found = json.loads(text)
    (method,) = found["methods"]
    assert (method["name"], method["inputs"], method["outputs"]) == ("forward", ["float32[2, 3]"], ["float32[2, 3]"])
    delegate = {
        "backend": "TwiceBackend",
        "bytes": 4,
        "calls": 1,
        "compile_specs": ["mode", ""],
        "operators": [{"operator": "COPY", "calls": 1}, {"operator": "DOUBLE", "calls": 2}],
    }
    assert method["delegates"] == [delegate, delegate]
    assert method["memory"] == {
        "arenas": [{"id": 1, "bytes": 256}],
        "arena_bytes": 256,
        "planned_tensors": 3,
        "bytes_without_reuse": 72,
        "reuse_ratio": 0.281,
    }
    assert found["bytes"] == path.stat().st_size
    assert [each["content"] for each in found["segments"]][:2] == ["constants", "delegate TwiceBackend"]
    assert [each["bytes"] for each in found["segments"]] == [0, 4, 90, 0]


def test_tables_have_80_columns(model: Model) -> None:
    code, text = assay("inspect", model(delegated(b"\2abc" * 40)), "--backend", f"{__name__}:twice")
    assert code == 0 and max(map(len, text.splitlines())) <= 80
    assert "DOUBLE x2" in text and "256 bytes in 1 arena for 3 tensors of 72 bytes (reuse 0.281)" in text


@pytest.mark.parametrize(("blob", "arguments"), [(b"\2", ()), (b"\0", ("--backend", f"{__name__}:twice"))])
def test_a_blob_that_nobody_reads_is_said_to_be_so(model: Model, blob: bytes, arguments: tuple[str, ...]) -> None:
    code, text = assay("inspect", model(delegated(blob)), *arguments)
    assert code == 0 and "(no backend here reads" in " ".join(text.split())


def test_operators_values_and_bounds_are_listed(model: Model) -> None:
    text = assay("inspect", model(with_constants()))[1]
    assert "aten::add.out" in text and "method answers" in text and "str 'text'" in text
    assert "float32[<=8]" in assay("inspect", model(choosing()))[1]


def test_a_method_runs_on_arrays_and_leaves_arrays(model: Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", ONES, 2 * ONES)
    code, text = assay("run", model(added()), "--inputs", tmp_path / "in.npz", "--out", tmp_path / "out.npz")
    assert code == 0 and "3 to 3: 3, 3, 3, 3, ..." in text
    assert np.array_equal(np.load(tmp_path / "out.npz")["output_0"], 3 * ONES)


def test_outputs_are_written_over_a_file_if_asked_for(model: Model, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    out.write_text("mine")
    run = ("run", model(added()), "--random", "0", "--out", out)
    code, text = assay(*run)
    assert code == 2 and "out.npz: it exists already" in text and out.read_text() == "mine"
    assert assay(*run, "--force")[0] == 0 and np.load(out).files == ["output_0"]


def test_inputs_can_come_from_several_files(model: Model, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ONES)
    np.save(tmp_path / "flag.npy", np.array(True))
    program = added()
    code, text = assay("run", model(program), "--inputs", tmp_path / "x.npy", "--inputs", tmp_path / "x.npy")
    assert code == 0 and "2 to 2" in text


def test_inputs_of_other_byte_orders_are_converted(model: Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", ONES.astype(">f4"), ONES)
    code, text = assay("run", model(added()), "--inputs", tmp_path / "in.npz")
    assert code == 0 and "2 to 2" in text


def test_outputs_that_are_none_are_printed_and_not_saved(model: Model, tmp_path: Path) -> None:
    program, out = model(with_constants()), tmp_path / "out.npz"
    code, text = assay("run", program, "--method", "answers", "--out", out)
    assert code == 0 and "None" in text
    with np.load(out) as found:
        assert found.files == ["output_0", "output_1", "output_2", "output_3"] and found["output_2"] == "text"


def test_random_inputs_are_the_same_for_a_seed(model: Model) -> None:
    texts = [assay("run", model(counting()), "--random", seed)[1] for seed in ("1", "1", "2")]
    assert texts[0] == texts[1] != texts[2]


def test_random_inputs_have_every_type(model: Model) -> None:
    dtypes = (torch.int8, torch.uint8, torch.int64, torch.bool, torch.bfloat16)
    values = [Tensor(dtype, (4,), (0,), allocation=Allocation(1, 32 * n)) for n, dtype in enumerate(dtypes)]
    code, text = assay("run", model(Program((plan(values, [], [], range(5), range(5)),))), "--random", "0")
    assert code == 0 and all(str(dtype).removeprefix("torch.") in text for dtype in dtypes)


def test_a_constant_method_needs_no_inputs(model: Model) -> None:
    code, text = assay("run", model(with_constants()), "--method", "answers")
    assert code == 0 and "42" in text and "'text'" in text


def test_delegates_run_on_the_runtime_of_their_backend(model: Model) -> None:
    code, text = assay("run", model(delegated(b"\2")), "--random", "0", "--backend", f"{__name__}:twice")
    assert code == 0 and "float32[2, 3]" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "missing.pte"), "missing.pte: cannot be read: No such file"),
        (("inspect", "."), "cannot be read: Is a directory"),
        (("inspect", "text.pte"), "not a valid .pte file: byte 4: file identifier is b'xt a'"),
        (("inspect", "add.pte", "--backend", "nothing"), "no backend 'nothing'"),
        (("run", "text.pte"), "not a valid .pte file"),
        (("run", "add.pte"), "found 0 inputs, expected 2 (float32[2, 3], float32[2, 3]); give --inputs FILE or"),
        (("run", "add.pte", "--method", "backward"), "no such method: found 'backward', expected one of ['forward']"),
        (("run", "add.pte", "--inputs", "missing.npy"), "missing.npy: not an .npy or .npz file"),
        (("run", "add.pte", "--inputs", "text.pte"), "text.pte: not an .npy or .npz file"),
        (("run", "add.pte", "--inputs", "objects.npy"), "objects.npy: not an .npy or .npz file of plain arrays"),
        (("run", "add.pte", "--inputs", "x.npy"), "found 1 inputs, expected 2"),
        (("run", "add.pte", "--inputs", "x.npy", "--random", "0"), "--random and --inputs: expected one of them"),
        (("run", "add.pte", "--inputs", "x.npy", "--inputs", "text.npy"), "an input has type <U1, expected float32[2"),
        (("run", "add.pte", "--inputs", "x.npy", "--inputs", "short.npy"), "input 1: wrong input: found float32[3]"),
        (("run", "add.pte", "--random", "0", "--out", "add.pte/o.npz"), "add.pte/o.npz: cannot be written: Not a dir"),
        (
            ("run", "add.pte", "--inputs", "text.npz"),
            "text.npz: not an .npy or .npz file of plain arrays: holds 'a.txt'",
        ),
        (("run", "add.pte", "--inputs", "deep.npy"), "deep.npy: not an .npy or .npz file of plain arrays: not an .npy"),
        (("run", "add.pte", "--inputs", "vast.npy"), "0 bytes, but sizes [100000000000000] of float32"),
        (("run", "add.pte", "--random", "99999999999999999999"), "--random: the seed is 99999999999999999999, expect"),
        (("run", "npu.pte", "--random", "0"), "no runtime for its backend: found 'Npu', expected one of ["),
        (("run", "huge.pte", "--random", "0"), "--random: an input has 4398046511104 bytes"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.pte").write_text("textxt and more")
    Path("add.pte").write_bytes(write(added()))
    Path("npu.pte").write_bytes(write(delegated(backend="Npu")))
    Path("huge.pte").write_bytes(write(Program((plan([floats(2**20, 2**20)], [], [], [0], [0]),))))
    for name, array in {"x": ONES, "text": np.array(["a"]), "short": ONES[0]}.items():
        np.save(name, array)
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    Path("deep.npy").write_bytes(b"\x93NUMPY\x01\x00\x05\x00(((((")
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000000,)}\n"
    Path("vast.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with zipfile.ZipFile("text.npz", "w") as archive:
        archive.writestr("a.txt", "hello")
    code, text = assay(*arguments)
    assert code == 2 and message in text, text
    assert len(text.splitlines()) == 1
