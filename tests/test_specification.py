"""The specification and the kernels of a device share no arithmetic: a line changed in a kernel fails gate 1.

Each fault is a line of a kernel's source, changed wherever the function is known by name, and the real backend runs
the cases of a row with it until one fails. Gate 1 compares with the exact golden, which the change must not reach.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import NamedTuple

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.certify import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.xnnpack import backend as xnnpack


class Change(NamedTuple):
    """In a function of a module, one text for another, and a row that shows it."""

    module: str
    function: str
    old: str
    new: str
    row: str

    @property
    def backend(self) -> Backend:
        return xnnpack if self.module.startswith(XNNPACK) else neutron


KERNELS = "npu_assay.reference.int8"
XNNPACK = "npu_assay.reference.xnnpack"
CHANGES = (
    # O1: the double rounding made single, in the stage that most kernels end with
    Change(f"{KERNELS}.output", "_float_stage", "math.ldexp(1.0, e - 1) + zero_point", "zero_point", "aten.mul.Tensor"),
    Change(f"{KERNELS}.output", "_float_stage", ".addcmul_(negative, step)", "", "aten.convolution.default"),
    Change(f"{KERNELS}.output", "_float_stage", ".floor_()", ".ceil_()", "aten.bmm.default"),
    Change(f"{KERNELS}.output", "float64_stage", "y.zero_point + 0.5", "y.zero_point", "aten.addmm.default"),
    Change(f"{KERNELS}.output", "bounds", "return y.qmin,", "return y.qmin + 1,", "aten.mul.Tensor"),
    Change("npu_assay.reference.rescale", "double_rounder", "1 << 31 if k else 0", "0", "aten.leaky_relu.default"),
    Change("npu_assay.reference.rescale", "double_rounder", "(1 << 30) +", "", "aten.relu.default"),
    Change(f"{KERNELS}.elementwise", "mul", "- b.zero_point", "+ b.zero_point", "aten.mul.Tensor"),
    Change(f"{KERNELS}.elementwise", "abs_", "(scaled + y.zero_point", "(scaled - y.zero_point", "aten.abs.default"),
    Change(f"{KERNELS}.elementwise", "_sum", "_aligned(b, twice) * sign", "_aligned(b, twice)", "aten.neg.default"),
    Change(f"{KERNELS}.elementwise", "_sum", "_aligned(a, twice)", "_aligned(a, 2 * twice)", "aten.add.Tensor"),
    Change(f"{KERNELS}.elementwise", "relu_bounds", "+ _steps(hi, y)", "+ _steps(hi, y) + 1", "aten.hardtanh.default"),
    Change(f"{KERNELS}.elementwise", "_steps", "+ 0.5", "", "aten.clamp.default"),
    Change(f"{KERNELS}.elementwise", "leaky_relu", "float32(alpha)", "0.97 * alpha", "aten.leaky_relu.default"),
    Change(f"{KERNELS}.elementwise", "prelu", "value >= 0", "value > 1", "aten.prelu.default"),
    Change(f"{KERNELS}.lut", "_float_table", "half_away_(", "torch.floor(", "aten.sigmoid.default"),
    Change(f"{KERNELS}.lut", "tanh", "np.tanh", "np.arctan", "aten.tanh.default"),
    Change(f"{KERNELS}.softmax", "_exponential", "_THIRD", "2 * _THIRD", "aten._softmax.default"),
    Change(f"{KERNELS}.softmax", "_reciprocal", "range(3)", "range(0)", "aten._softmax.default"),
    Change(f"{KERNELS}.matmul", "batch_matmul", "- b.zero_point", "", "aten.bmm.default"),
    Change(f"{KERNELS}.matmul", "_ratios", "x.scale32 *", "1.01 * x.scale32 *", "aten.addmm.default"),
    Change(f"{KERNELS}.conv", "_parameters", "x.scale32 *", "1.01 * x.scale32 *", "aten.convolution.default"),
    Change(f"{KERNELS}.pool", "avg_pool2d", "count // 2", "0", "aten.avg_pool2d.default"),
    Change(f"{KERNELS}.pool", "mean", "count * x.zero_point", "x.zero_point", "aten.mean.dim"),
    Change(f"{KERNELS}.resize", "resize_bilinear", "_ONE * _ONE // 2, -", "0, -", "aten.upsample_bilinear2d.vec"),
    Change(
        f"{KERNELS}.resize", "_nearest", "math.floor(place) for", "math.ceil(place) for", "aten.upsample_nearest2d.vec"
    ),
    Change(f"{XNNPACK}.output", "fp32_stage", ".round_()", ".add_(0.5).floor_()", "aten.mul.Tensor"),
    Change(f"{XNNPACK}.output", "fp32_stage", "below, above)", "below, above - 1)", "aten.linear.default"),
    Change(f"{XNNPACK}.output", "ratios", "weights * x.scale32", "1.01 * weights * x.scale32", "aten.conv2d.default"),
    Change(f"{XNNPACK}.output", "code", "round(", "int(", "aten.hardtanh.default"),
    Change(f"{XNNPACK}.output", "to_codes", "add(zero_point)", "sub(zero_point)", "aten.sub.Tensor"),
    Change(f"{XNNPACK}.output", "to_steps", "sub_(zero_point)", "add_(zero_point)", "aten.add.Tensor"),
    Change(f"{XNNPACK}.static", "_sum", "half = 1 << (shift - 1)", "half = 0", "aten.add.Tensor"),
    Change(f"{XNNPACK}.static", "_sum", "second *= sign", "", "aten.sub.Tensor"),
    Change(f"{XNNPACK}.static", "_sum", "_PRECISION -", "_PRECISION - 8 -", "aten.add.Tensor"),
    Change(f"{XNNPACK}.static", "clamp", ".round_()", ".floor_()", "aten.clamp.default"),
    Change(f"{XNNPACK}.static", "mean", "ratio / count", "ratio / (count + 1)", "aten.mean.dim"),
    Change(f"{XNNPACK}.static", "mean", ".round_()", ".trunc_()", "aten.mean.dim"),
)


def changed(change: Change) -> tuple[FunctionType, FunctionType]:
    """The function, and what its source means with the change, in the same module."""
    module = importlib.import_module(change.module)
    function: FunctionType = getattr(module, change.function)
    source = inspect.getsource(function)
    assert source.count(change.old) >= 1, f"{change.function} has no {change.old!r}"
    names: dict[str, FunctionType] = {}
    scope = compile(
        "from __future__ import annotations\n" + source.replace(change.old, change.new), change.function, "exec"
    )
    exec(scope, vars(module), names)
    return function, names[change.function]


def known(function: FunctionType) -> Iterator[tuple[object, str]]:
    """The modules that know the function, and under which name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("npu_assay."):
            yield from ((module, key) for key, value in vars(module).items() if value is function)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.function}, {change.old}")
@pytest.mark.sampled(8)
def test_a_changed_line_of_a_kernel_fails_gate_1(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    table = load_table(change.backend.table)
    function, wrong = changed(change)
    for module, name in known(function):
        monkeypatch.setattr(module, name, wrong)
    cases = [case for case in cases_for(table) if case.row == change.row and case.expect == "accept"]
    assert cases
    results = (run_case(case, change.backend, table) for case in cases)
    assert any("gate1" in {failure.check for failure in result.failures} for result in results)
