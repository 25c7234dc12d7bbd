"""Which operator a cause is told of, where several are left out together, and how causes are ranked."""

from __future__ import annotations

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from explain_models import of
from quantizing import QUANTIZES
from torch import Tensor, nn

import npu_assay
from npu_assay.conformance.explain.record import Cause, Explained

pytestmark = QUANTIZES


def spelled(one: Explained, cause: Cause) -> tuple[list[str], list[str]]:
    """The operators of a cause's roots, and those that follow."""
    known = {operator.name: operator.operator.removeprefix("aten.").partition(".")[0] for operator in one.operators}
    return [known[name] for name in cause.roots], [known[name] for name in cause.follows]


class Pooled(nn.Module):
    """A layer of rank 3 whose result is quantized behind a view and a relu, and a maximum that no table has."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).relu().max(1)[0])  # type: ignore[no-any-return]


def test_a_layer_of_rank_3_is_told_for_its_result_and_not_for_its_bias() -> None:
    """Alone, its weight is a constant, and the bias fits it; the maximum behind its codes is no reason."""
    one = of(Pooled(), (torch.randn(1, 32, 8),), "neutron")
    layer, maximum = one.causes
    assert (layer.code, maximum.code) == ("quantized", "unsupported")
    assert spelled(one, layer) == (["addmm"], ["view_copy", "permute_copy", "view_copy", "relu"])
    assert layer.found == "aten.view_copy.default of a uses the unquantized result"
    assert spelled(one, maximum) == (["max"], [])


def test_a_part_of_a_layer_has_its_weight_as_a_constant() -> None:
    """In the model that is asked about, by the scale of its own axis."""
    from npu_assay.conformance.backend.loading import load_backend
    from npu_assay.conformance.explain.lowered import lower
    from npu_assay.conformance.explain.models import model_of, quantize
    from npu_assay.conformance.explain.single import alone

    inputs, backend = (torch.randn(2, 8),), load_backend("neutron")
    model = model_of(torch.export.export(nn.Linear(8, 4), inputs), [inputs])
    assert backend.quantizer is not None
    program = lower(quantize(model, backend.quantizer(), [inputs]).program, backend).program
    (product,) = (node for node in program.graph.nodes if "addmm" in str(node.target))
    values = {value.name: value for value in alone(program, product).values}
    weight = next(value for value in values.values() if value.shape == (8, 4))
    assert weight.constant and weight.quant is not None and weight.quant.qmin == -127


def exported(module: nn.Module, inputs: tuple[Tensor, ...]) -> Explained:
    """A program as its user exported it, on Neutron, quantized."""
    return npu_assay.explain(torch.export.export(module, inputs), ["neutron"], [inputs]).backends[0]


class Forgotten(nn.Module):
    """A dropout that is called without the module's mode."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(self.a(x), 0.5)


@pytest.mark.parametrize(
    ("module", "shape", "operator"),
    [
        (nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).train(), (1, 8), "dropout of 1 (Dropout)"),
        (nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)).train(), (2, 8, 8, 8), "batch_norm of 1 (BatchNorm2d)"),
        (Forgotten().eval(), (1, 8), "dropout of (model) (Forgotten)"),
    ],
    ids=["dropout", "batch_norm", "function"],
)
def test_train_mode_is_told(module: nn.Module, shape: tuple[int, ...], operator: str) -> None:
    one = exported(module, (torch.randn(shape),))
    (warning,) = (each for each in one.warnings if "train mode" in each)
    assert f"aten.{operator}".replace(" of", ".default of") in warning and "model.eval()" in warning
    assert any("model.eval()" in cause.hint for cause in one.causes)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_what_does_not_train_is_not_warned_of(share: float) -> None:
    layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Dropout(share), nn.InstanceNorm2d(8))
    module = layers.eval() if share else nn.Sequential(nn.Conv2d(8, 8, 3), nn.Dropout(0.0)).train()
    assert not [each for each in exported(module, (torch.randn(1, 8, 8, 8),)).warnings if "train" in each]


class Dear(nn.Module):
    """An operator on a large image, which comes back to the device, and three on a vector."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.a(x).sin()).mean((2, 3), keepdim=True).flatten(1)
        return self.c(torch.erf(torch.erf(torch.erf(y))))  # type: ignore[no-any-return]


class Wide(nn.Module):
    """Of one size: an operator that multiplies much, and one that does not at all."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.b(self.a(x).sin().abs()))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("module", "order"), [(Dear(), ["sin", "erf"]), (Wide(), ["convolution", "sin"])], ids=["bytes", "products"]
)
def test_the_dearest_cause_stands_first(module: nn.Module, order: list[str]) -> None:
    one = of(module, (torch.randn(1, 8, 16, 16),), "neutron")
    assert [spelled(one, cause)[0][0] for cause in one.causes] == order


def test_what_a_cause_costs_is_counted_by_hand() -> None:
    """Numbers that it gives, and bytes of codes that leave the device and come back."""
    one = of(Dear(), (torch.randn(1, 8, 16, 16),), "neutron")
    image, vector = 8 * 16 * 16, 8
    assert [cause.bytes for cause in one.causes] == [2 * image, 2 * vector]
    assert [len(cause.operators) for cause in one.causes] == [1, 3]
    assert image + 2 * image > 3 * vector + 2 * vector  # the order tested above: one before three


class Recurrent(nn.Module):
    """A layer that Neutron's quantizer does not look into."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cells, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0])  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:The tensor attributes self.cells._flat_weights:UserWarning")  # torch's own LSTM
def test_a_layer_that_the_quantizer_leaves_alone_is_told_as_one() -> None:
    """Not by the codes that a question would give its parts: a sigmoid's had a scale that nobody chose."""
    one = of(Recurrent(), (torch.randn(1, 3, 8),), "neutron")
    first = one.causes[0]
    assert (first.code, first.found) == ("not_quantized", "no codes inside of aten.lstm.input")
    assert {"sigmoid", "tanh", "addmm"} <= set(spelled(one, first)[0]) and "quantizer knows" in first.hint
    assert "output_qparams" not in {cause.code for cause in one.causes}
