"""Operators that installed packages bring certify; wrong devices fail, and wrong entries are one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from places import ROOT

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cli import main
from npu_assay.conformance.predicates.outside import _brought
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.reference import outside
from npu_assay.reference.golden import Bounded, run
from npu_assay.reference.operators import Operator
from npu_assay.reference.operators.lookup import outside_operators

EXAMPLES = ROOT / "examples"
TABLE = str(EXAMPLES / "glu_npu" / "glu_npu" / "glu_npu@1.0.toml")
GLU = "aten.glu.default"


def brought(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    """As if packages with these entries were installed."""
    found = [EntryPoint(f"entry_{index}", value, outside.GROUP) for index, value in enumerate(values)]
    monkeypatch.setattr(outside, "points", lambda: iter(found))
    outside_operators.cache_clear()


def limited(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    """As if packages with these features and contexts were installed."""
    found = [EntryPoint(f"entry_{index}", value, outside.CONSTRAINTS) for index, value in enumerate(values)]
    monkeypatch.setattr(outside, "constraint_points", lambda: iter(found))
    _brought.cache_clear()


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES / "glu"))
    monkeypatch.syspath_prepend(str(EXAMPLES / "glu_npu"))
    brought(monkeypatch, "assay_glu:operator")
    limited(monkeypatch, "assay_glu:constraints")
    yield
    outside_operators.cache_clear()
    _brought.cache_clear()


def certify(folder: Path, backend: str = "glu_npu:backend") -> Result:
    return CliRunner().invoke(main, ["certify", backend, "--table", TABLE, "--out", str(folder / "out")])


@pytest.mark.usefixtures("example")
def test_an_operator_from_outside_certifies(tmp_path: Path) -> None:
    result = certify(tmp_path)
    assert result.exit_code == 0, result.output
    assert "CERTIFIED" in result.output
    environment = json.loads((tmp_path / "out" / "certificate.json").read_text())["environment"]
    assert len(environment["operators of assay_glu"]) == 64
    assert len(environment["constraints of assay_glu"]) == 64


def test_without_it_the_table_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "glu_npu"))
    result = certify(tmp_path)
    assert result.exit_code == 2
    assert f"the suite has no cases for {GLU!r} in int8" in result.output


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize("fault", ["halves", "gate", "rounding", "axis"])
def test_a_wrong_device_fails(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, backend = load_table(TABLE), load_backend("glu_npu:backend")
    right: Any = backend.runtime.execute

    def wrong(handle: Any, inputs: list[torch.Tensor]) -> Any:
        header, gates = handle
        if fault == "halves":
            return right(handle, [torch.cat([*reversed(inputs[0].chunk(2, -1))], -1)])
        if fault == "gate":
            return right((header, gates * 127 // 128), inputs)
        if fault == "axis" and inputs[0].dim() == 4:
            return [right(handle, [inputs[0]])[0].flip(1)]
        codes = right(handle, inputs)[0]
        return [codes - (codes % 2)] if fault == "rounding" else [codes]

    monkeypatch.setattr(backend.runtime, "execute", wrong)
    failed = [case.id for case in cases_for(table) if run_case(case, backend, table).failures]
    assert len(failed) > 5


@pytest.mark.usefixtures("example")
def test_the_golden_of_the_example_bounds_what_it_says() -> None:
    """Operands anywhere within their error give results within the bound."""
    generator = torch.Generator().manual_seed(0)
    value = torch.randn((40, 6), generator=generator, dtype=torch.float64) * 4
    error = torch.rand((40, 6), generator=generator, dtype=torch.float64)
    (bounded,) = run(GLU, (Bounded(value, error), -1))
    for _ in range(50):
        share = torch.rand((40, 6), generator=generator, dtype=torch.float64) * 2 - 1
        other = torch.ops.aten.glu(value + share.sign() * error, -1)
        assert ((other - bounded.value).abs() <= bounded.error + 1e-12).all()
    (exact,) = run(GLU, (Bounded(value), -1))
    assert exact.exact
    assert torch.equal(exact.value, torch.ops.aten.glu(value, -1))


@pytest.mark.usefixtures("example")
def test_a_backend_that_brings_its_own_oracle_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    brought(monkeypatch, "glu_npu:backend")
    result = certify(tmp_path)
    assert result.exit_code == 2
    assert "package 'glu_npu' brings operators" in result.output
    assert not (tmp_path / "out" / "certificate.json").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("no_such_module:operator",), "ModuleNotFoundError"),
        (("json:dumps",), "found a function, expected an Operator"),
        (("stranger:raises",), "ZeroDivisionError"),
        (("stranger:operator", "stranger:operator"), f"{GLU} is there already"),
    ],
)
def test_a_wrong_entry_is_one_error(values: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stranger(ModuleType):
        operator = Operator(GLU, abs)

        @property
        def raises(self) -> object:
            raise ZeroDivisionError("here")

    monkeypatch.setitem(sys.modules, "stranger", Stranger("stranger"))
    brought(monkeypatch, *values)
    result = CliRunner().invoke(main, ["table", "lint", TABLE])
    outside_operators.cache_clear()
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("example")
def test_limits_of_a_table_have_cases_for_it() -> None:
    """An operator that nobody here wrote cases for, and a limit that nobody wrote cases for."""
    from npu_assay.conformance.table import read_table

    text = (
        Path(TABLE)
        .read_text()
        .replace(
            "[operators]", 'even = { says = "the halves are even", holds = "x.shape[-1] % 4 == 0" }\n\n[operators]'
        )
    )
    table = read_table(
        text.replace('constraints = ["gates_fit', 'constraints = ["even @document", "gates_fit').encode(), "t"
    )
    sides = [case.side for case in cases_for(table) if case.constraint == "even"]
    assert "at_limit" in sides
    assert "outside" in sides
