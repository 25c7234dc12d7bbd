"""Homes of operators: whole, bounded rightly, judged rightly: a right device passes their cases, a wrong one fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import any_backend
import pytest
import torch
from onednn import without_onednn
from places import ROOT
from torch import Tensor

from npu_assay.conformance.cases import cases_for, every_operator, homes
from npu_assay.conformance.cases.make import Call
from npu_assay.conformance.judge.float_golden import real_value
from npu_assay.conformance.programs.graph import Ref, substitute
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table
from npu_assay.reference import onnx_golden
from npu_assay.reference.golden import Bounded, run
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.bounded import values
from npu_assay.reference.golden.operators import dtype_rule
from npu_assay.reference.operators import ELSEWHERE, VIEWS, WITH_CASES

TRIALS = 12
JUMPS = {"aten.isinf.default", "aten.isnan.default"}


def _spellings(name: str) -> list[Call]:
    own = WITH_CASES[name]
    plain = [homes.called(own, "fp32"), *(homes.called(own, "fp32", shape) for shape in own.shapes)]
    return [*plain, *(homes.called(own, "fp32", at=at) for _, at in own.spellings)]


def _reals(use: Call) -> dict[Ref, Bounded]:
    return {Ref(value.name): real_value(value) for value in use.values}


def _first(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


def _torch(use: Call, values: dict[Ref, Tensor]) -> Tensor:
    """torch's own, in float64; indices and truths as they are."""
    kinds = {Ref(value.name): value.dtype for value in use.values}
    given = {
        ref: tensor.to(torch.int64)
        if kinds[ref] == "int64"
        else tensor.to(torch.bool)
        if kinds[ref] == "bool"
        else tensor
        for ref, tensor in values.items()
    }
    args = [list(a) if isinstance(a, tuple) else a for a in substitute(use.args, given.__getitem__)]
    return _first(aten(use.op)(*args, **dict(use.kwargs))).to(torch.float64)


@pytest.mark.parametrize("name", sorted(WITH_CASES))
def test_the_golden_is_torchs_operator(name: str) -> None:
    for use in _spellings(name):
        reals = _reals(use)
        found = run(use.op, substitute(use.args, reals.__getitem__), dict(use.kwargs))[0]
        expected = _torch(use, {ref: x.value for ref, x in reals.items()})
        assert found.exact
        torch.testing.assert_close(found.value, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(WITH_CASES) - JUMPS))
@pytest.mark.parametrize("size", [1e-3, 0.3])
def test_operands_within_their_bounds_give_results_within_the_bound(name: str, size: float) -> None:
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    for use in _spellings(name):
        reals = _reals(use)
        moved = [v.name for v in use.values if v.dtype == "float32"]
        off = {
            ref: Bounded(x.value, torch.rand(x.value.shape, generator=generator, dtype=torch.float64) * size)
            if ref.name in moved
            else x
            for ref, x in reals.items()
        }
        (bounded, *_) = run(use.op, substitute(use.args, off.__getitem__), dict(use.kwargs))
        for trial in range(TRIALS):
            values = dict[Ref, Tensor]()
            for ref, x in off.items():
                share = torch.rand(x.value.shape, generator=generator, dtype=torch.float64) * 2 - 1
                values[ref] = x.value + (share.sign() if trial % 2 else share) * x.error
            other = _torch(use, values)
            reach = bounded.error + 1e-12 * (1 + bounded.value.abs())
            wrong = (other - bounded.value).abs() > reach
            assert not (wrong & other.isfinite()).any(), (use, float((other - bounded.value).abs().max()))


@pytest.mark.parametrize("name", sorted(WITH_CASES))
def test_onnx_says_the_same_where_it_has_the_operator(name: str) -> None:
    """On every spelling, or on none with a reason."""
    own = WITH_CASES[name]
    assert bool(own.onnx) != bool(own.without_onnx)
    compared = 0
    for use in _spellings(name):
        reals = _reals(use)
        results = run(use.op, substitute(use.args, reals.__getitem__), dict(use.kwargs))
        given = values(substitute(use.args, reals.__getitem__))
        outputs = [result.value for result in results]
        assert onnx_golden.disagreement(use.op, given, outputs, dict(use.kwargs)) is None
        compared += onnx_golden.run(use.op, given, dict(use.kwargs)) is not None
        if own.onnx:
            wrong = [result.value + 0.01 for result in results]
            second = onnx_golden.run(use.op, given, dict(use.kwargs))
            assert second is None or onnx_golden.disagreement(use.op, given, wrong, dict(use.kwargs)) is not None
    assert compared >= 1 or own.without_onnx


def test_every_operator_of_core_aten_has_a_home_cases_or_a_reason() -> None:
    """Of all that torch tags as core, whether it was asked for before or not."""
    registered = (name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if "aten::" in name)
    packets = [getattr(torch.ops.aten, name) for name in sorted({name.split(".")[0] for name in registered})]
    overloads = [getattr(packet, overload) for packet in packets for overload in packet.overloads()]
    core = {str(each) for each in overloads if torch.Tag.core in each.tags}
    assert len(core) > 150
    assert core <= every_operator() | ELSEWHERE.keys(), sorted(core - every_operator() - ELSEWHERE.keys())
    assert not every_operator() & ELSEWHERE.keys()
    assert ELSEWHERE.keys() <= core | {"aten.sym_is_contiguous.default"}  # which torch makes when it is first asked for


def test_names_of_views_are_those_of_operators_that_have_cases() -> None:
    for name in VIEWS:
        aten(name)
    assert set(VIEWS.values()) <= every_operator()


def table_of(names: list[str], precision: str, folder: Path) -> Table:
    path = folder / f"any{precision}@1.0.toml"
    path.write_text(any_backend.table(names, precision))
    return load_table(str(path))


@pytest.mark.sampled(40)
@pytest.mark.parametrize("precision", ["", "int8", "int16"])
@pytest.mark.parametrize("name", sorted(WITH_CASES))
def test_a_right_device_passes(name: str, precision: str, tmp_path: Path) -> None:
    table = table_of([name], precision, tmp_path)
    for case in cases_for(table):
        result = run_case(case, any_backend.backend, table)
        assert not result.failures, (case.id, result.failures)


FAULTS = {
    "one more": lambda codes: (codes.to(torch.int32) + 1).clamp(-128, 127).to(codes.dtype),
    "backwards": lambda codes: codes.flatten().flip(0).reshape(codes.shape),
    "next": lambda codes: codes.flatten().roll(1).reshape(codes.shape),
    "half": lambda codes: codes // 2,
    "narrow": lambda codes: codes.clamp(-100, 100),
}
ORDER = ("backwards", "next")
# Where all codes are one number there is no order, and none is large where that number is small.
BLIND = {
    "aten.fill.Scalar": (*ORDER, "narrow"),
    "aten.mean.default": ORDER,
    "aten.ones_like.default": ORDER,
    "aten.prod.default": ORDER,
    "aten.sum.default": ORDER,
    "aten.zeros_like.default": (*ORDER, "narrow"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", sorted(n for n in WITH_CASES if WITH_CASES[n].result == "reals"))
def test_a_wrong_device_fails(name: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(any_backend.backend.runtime, "wrong", FAULTS[fault])
    monkeypatch.setattr(any_backend.EveryPartitioner, "only", name)
    table = table_of([name], "int8", tmp_path)
    failed = any(run_case(case, any_backend.backend, table).failures for case in cases_for(table))
    assert failed == (fault not in BLIND.get(name, ()))


@pytest.mark.parametrize("precision", ["", "int8", "int16"])
@pytest.mark.parametrize("name", sorted(name for name in WITH_CASES if WITH_CASES[name].with_indices))
def test_a_device_that_gets_indices_wrong_fails(
    name: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(any_backend.backend.runtime, "shift", 1)
    table = table_of([name], precision, tmp_path)
    failed = {case.id for case in cases_for(table) if run_case(case, any_backend.backend, table).failures}
    assert failed and all(case.endswith("/indices") for case in failed)


SMALL = 'small = { says = "at most 4000 elements", holds = "x.elements <= 4000" }\n'


@pytest.mark.long
@pytest.mark.parametrize("name", ["hardshrink.default", "native_layer_norm.default", "pixel_shuffle.default"])
def test_limits_of_a_table_have_cases_for_them(name: str, tmp_path: Path) -> None:
    """Also where sizes must be multiples, between which a search by halves finds nothing."""
    path = tmp_path / "any@1.0.toml"
    text = any_backend.table([f"aten.{name}"], "int8").replace(
        "constraints = [] }", 'constraints = ["small @document"] }'
    )
    path.write_text(text.replace("[operators]\n", f"{SMALL}[operators]\n"))
    sides = {case.side for case in cases_for(load_table(str(path))) if case.constraint == "small"}
    assert {"at_limit", "outside"} <= sides


def test_the_pages_count_what_there_is() -> None:
    for page in ("docs/operators.md", "CHANGELOG.md"):
        text = (ROOT / page).read_text()
        assert f"{len(every_operator())} operators" in text, page


def test_a_convolution_has_the_type_of_its_input_whatever_its_bias_has() -> None:
    half, real = torch.ones(1, 2, 3, 3, dtype=torch.float16), torch.ones(2)
    with without_onednn():  # whose kernels for some processors refuse such a bias
        made = torch.ops.aten.convolution.default(
            half, half[:, :, :1, :1].expand(2, 2, 1, 1), real, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
        )
    assert made.dtype == torch.float16
    names = ("convolution", "conv1d", "conv2d")
    assert {dtype_rule(f"aten.{name}.default") for name in names} == {"first"}
