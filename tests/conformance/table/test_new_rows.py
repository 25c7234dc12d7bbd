"""A new operator is one line of the table and one row of the vendor: the suite knows all the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from calling import call

KERNELS = {
    "aten.hardshrink.default": 'lambda s, a, x: [(torch.where(x.abs() * s[0] > a["lambd"], x, 0), s[0])]',
    "aten.maximum.default": "lambda s, a, x, z: [(torch.where(x * s[0] > z * s[1], x, 0), s[0]), "
    "(torch.where(x * s[0] > z * s[1], 0, z), s[1])]",
    "aten.amax.default": 'lambda s, a, x: [(x.amax(a["dim"], a["keepdim"]), s[0])]',
    "aten.sum.default": "lambda s, a, x: [(x.sum(), s[0])]",
    "aten.transpose_copy.int": 'lambda s, a, x: [(x.transpose(a["dim0"], a["dim1"]), s[0])]',
    "aten.reflection_pad1d.default": "lambda s, a, x: [(torch.nn.functional.pad(x.double(), "
    'a["padding"], "reflect").long(), s[0])]',
}


def with_row(folder: Path, name: str, kernel: str) -> None:
    """One line in the table, one rule and one kernel."""
    changes = {
        "my_npu@0.1.toml": ("[operators]\n", f'[operators]\n"{name}" = {{ document = "", constraints = [] }}\n'),
        "partitioner.py": ("    rules: ClassVar = {\n", f'    rules: ClassVar = {{\n        "{name}": (),\n'),
        "runtime.py": ("KERNELS: dict[str, Any] = {\n", f'KERNELS: dict[str, Any] = {{\n    "{name}": {kernel},\n'),
    }
    for file, (old, new) in changes.items():
        path = folder / "my_npu" / "my_npu" / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))


def assay(*arguments: str) -> tuple[int, str]:
    result = call(*arguments)
    return result.exit_code, result.output


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "my_npu"))
    code, output = assay("new", "my_npu")
    assert code == 0, output
    return tmp_path


@pytest.mark.long
def test_rows_that_nobody_prepared_certify(package: Path) -> None:
    for name, kernel in KERNELS.items():
        with_row(package, name, kernel)
    code, output = assay("certify", "my_npu:backend", "--out", "out")
    assert code == 0, output
    assert "11 operators" in output and "CERTIFIED" in output


def test_a_wrong_one_does_not(package: Path) -> None:
    with_row(package, "aten.hardshrink.default", KERNELS["aten.hardshrink.default"].replace('a["lambd"]', "0.5"))
    code, output = assay("certify", "my_npu:backend", "--out", "out", "-k", "hardshrink")
    assert code == 1, output
    assert "lambd_" in output
