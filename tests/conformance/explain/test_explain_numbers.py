"""Where error enters, by `assay explain`: the first layer is the planted one, with its cure."""

from __future__ import annotations

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")
import torch
from explain_models import of, with_numbers
from planted_numbers import NUMERIC, Numeric
from quantizing import QUANTIZES
from torch import Tensor, nn

import npu_assay
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.explain.lowered import lower
from npu_assay.conformance.explain.numbers import agreement
from npu_assay.conformance.explain.single import linear_layer

pytestmark = QUANTIZES


@pytest.mark.long
@pytest.mark.parametrize("numeric", NUMERIC, ids=str)
def test_the_first_layer_is_the_planted_one(numeric: Numeric) -> None:
    one = with_numbers(numeric)
    assert one.error == ""
    first = one.layers[0]
    assert numeric.where in (first.module, first.name)
    assert numeric.cure == "" or any(numeric.cure in cure for cure in first.cures), first.cures


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55", "ethos-u85"])
def test_a_plain_model_has_nothing_to_cure(backend: str) -> None:
    torch.manual_seed(3)
    samples = [(torch.randn(1, 16, generator=torch.Generator().manual_seed(seed)),) for seed in range(4)]
    program = torch.export.export(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval(), samples[0])
    one = npu_assay.explain(program, [backend], samples).backends[0]
    assert one.layers and all(layer.cures == () for layer in one.layers)
    assert {(each.given, each.wanted) for each in one.numbers} == {
        ("device", "quantized"),
        ("device", "float"),
        ("quantized", "float"),
    }
    assert all(each.argmax == 1.0 and (each.sqnr is None or each.sqnr > 25) for each in one.numbers)


class Positions(nn.Module):
    """Embeddings of tokens and of their places, which are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place, self.head = nn.Embedding(20, 8), nn.Embedding(20, 8), nn.Linear(8, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(4) * 2 + 1
        return self.head(self.token(tokens) + self.place(places))  # type: ignore[no-any-return]


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55", "ethos-u85"])
def test_whole_numbers_stay_whole(backend: str) -> None:
    one = of(Positions(), (torch.tensor([[3, 1, 4, 1]]),), backend)
    assert one.error == "" and one.macs[0] == one.macs[1] > 0


@pytest.mark.parametrize("backend", ["neutron", "ethos-u55", "ethos-u85"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_of_a_model_that_is_not_quantised_is_that_and_nothing_else(backend: str, bias: bool) -> None:
    """`to_edge` makes a transposed constant and a product of it, which no quantized model has in that form."""
    one = of(nn.Sequential(nn.Linear(8, 16, bias), nn.ReLU()), (torch.ones(2, 8),), backend, quantized=False)
    assert [cause.code for cause in one.causes] == ["not_quantized"]
    known, (cause,) = {operator.name: operator.operator for operator in one.operators}, one.causes
    assert [known[name] for name in cause.follows] == ["aten.permute_copy.default"]  # of the weight: not one more cause
    assert {one.operators[index].operator for index in (0, 1)} == {
        "aten.permute_copy.default",
        f"aten.{'addmm' if bias else 'mm'}.default",
    }


class Scaled(nn.Module):
    """Whole numbers, which XNNPACK leaves out, and a buffer of another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = nn.Buffer(torch.ones(3, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.factors).unsqueeze(0)


def test_what_was_found_has_the_users_names() -> None:
    """Of buffers, and of operators for the nodes that only the lowered program has."""
    one = of(Scaled(), (torch.ones(2, 3, dtype=torch.int64),), "neutron", quantized=False)
    found = " ".join(cause.found for cause in one.causes)
    assert "operand factors is" in found and "aten.view_copy.default of (model)" in found
    assert "b_factors" not in found and "aten_" not in found


def test_a_product_by_an_input_is_no_linear_layer() -> None:
    class Inputs(nn.Module):
        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return x @ weight.t()

    exported = torch.export.export(Inputs(), (torch.ones(2, 8), torch.ones(16, 8)))
    program = lower(exported, load_backend("neutron")).program
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    assert len(nodes) == 2 and not any(linear_layer(program, node) for node in nodes)


def test_indices_that_a_model_gives_are_compared_by_themselves() -> None:
    """A map of classes; the largest class of each row of it says nothing."""
    whole = torch.tensor([[0, 3, 1, 2], [1, 3, 0, 0]])
    assert agreement([(whole, torch.tensor([[2, 3, 1, 2], [1, 3, 2, 0]]))]) == 0.75
    assert agreement([(whole.float(), whole.float().flip(0))]) == 1.0
