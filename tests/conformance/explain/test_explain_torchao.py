"""`assay explain` of models that torchao's `quantize_` made, and of results that carry nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from quantizing import QUANTIZES
from torch import Tensor, nn

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases.families.linear.linear import Linear
from npu_assay.conformance.cases.make import model as model_of_call
from npu_assay.conformance.explain import reducing
from npu_assay.conformance.explain.asking import Asking
from npu_assay.conformance.explain.explaining import COMES_QUANTIZED, How, explained, told
from npu_assay.conformance.explain.models import model_of
from npu_assay.conformance.explain.record import Explained
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend
from tests.partitioners.xnnpack.test_torchao_forms import dynamic, quantized, weight_only

pytestmark = QUANTIZES

X = torch.randn((2, 3, 64), generator=torch.Generator().manual_seed(2))


@dataclass(frozen=True)
class Altered:
    """A backend's runtime with other results."""

    inner: Any
    error: type[Exception] | None = None

    def load(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.load(*args, **kwargs)

    def execute(self, handle: Any, inputs: Any) -> list[Tensor]:
        if self.error is not None:
            raise self.error("list index out of range")
        return [1000 * each for each in self.inner.execute(handle, inputs)]


def altered(error: type[Exception] | None = None) -> Backend:
    backend = load_backend("xnnpack")
    return replace(backend, runtime=Altered(backend.runtime, error))


def told_of(config: Any, backend: Backend, calibrate: bool = False, bias: bool = True) -> Explained:
    model = quantized(config, nn.Linear(64, 64, bias=bias), nn.ReLU(), nn.Linear(64, 16))
    with torch.no_grad():
        program = torch.export.export(model, (X,))
    return explained(model_of(program, [(X,)]), backend, [(X,)] if calibrate else None, How())[0]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("config", [weight_only(8), weight_only(4, 32), dynamic(8, 32)])
def test_the_layer_is_the_cause_and_its_quantization_follows(config: Any, bias: bool) -> None:
    one = told_of(config, load_backend("xnnpack"), calibrate=bias, bias=bias)
    assert not one.error and one.warnings == ((COMES_QUANTIZED,) if bias else ())
    roots = [operator.operator for operator in one.operators if any(operator.name in c.roots for c in one.causes)]
    assert set(roots) <= {"aten.addmm.default", "aten.mm.default"} and len(roots) == 2
    assert {cause.code for cause in one.causes} <= {"quantized", "group_codes"}
    assert sum(len(cause.operators) for cause in one.causes) == sum(o.delegate is None for o in one.operators)


def test_a_model_that_comes_quantized_is_not_told_to_be_quantized() -> None:
    one = told_of(dynamic(8), load_backend("neutron"), calibrate=True)
    assert COMES_QUANTIZED in one.warnings and not one.quantized
    assert one.causes and not any("--calibrate" in cause.hint for cause in one.causes)


def test_results_that_carry_nothing_are_the_backend_s() -> None:
    assert not told_of(dynamic(8), load_backend("xnnpack")).warnings
    (text,) = told_of(dynamic(8), altered()).warnings
    assert text.startswith("the device's results carry nothing of the model's (-60.") and "the backend computes" in text


def test_an_error_says_what_it_came_of() -> None:
    try:
        try:
            raise KeyError("scale")
        except KeyError as error:
            raise RuntimeError("the pass 'FoldQDQ' failed") from error
    except RuntimeError as error:
        assert told(error) == "RuntimeError: the pass 'FoldQDQ' failed <- KeyError: 'scale'"
    try:
        raise RuntimeError("found 3") from ValueError("found 3")
    except RuntimeError as error:
        assert told(error) == "RuntimeError: found 3"


@pytest.mark.parametrize("error", [IndexError, ValueError])
def test_an_error_is_no_wrong_number(error: type[Exception]) -> None:
    graph = model_of_call(Linear().at("fp32", (2, 8)))
    answers = [reducing.SHOWS["wrong"](graph, Asking(b, load_table(b.table))) for b in (altered(error), altered())]
    assert answers == [False, True]
