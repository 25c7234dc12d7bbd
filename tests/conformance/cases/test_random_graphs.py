"""The honesty contract on random models of several operators, and on the small ones that broke it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from honesty import faults
from random_graphs import random_graph

from npu_assay.conformance.cases.families.convolution.static import convolution
from npu_assay.conformance.cases.make import X, activation, constant, quant, spread, step, weight_quant
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step, Value
from npu_assay.partitioners.neutron import NeutronPartitioner, NeutronRuntime, backend, generate_neutron_compile_spec
from npu_assay.partitioners.neutron.runtime import Program

SEEDS = range(150)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", SEEDS[::10])
def test_random_models_are_run_honestly(first: int) -> None:
    found = {seed: faults(random_graph(seed), backend) for seed in range(first, first + 10)}
    assert {seed: messages for seed, messages in found.items() if messages} == {}


def test_a_seed_is_always_the_same_model() -> None:
    assert random_graph(7) == random_graph(7) != random_graph(8)


class OneOff(NeutronRuntime):
    """A device that gets one code wrong, by one."""

    def execute(self, handle: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        outputs = super().execute(handle, inputs)
        outputs[-1] = outputs[-1].clone()
        outputs[-1].view(-1)[0] ^= 1
        return outputs


def test_one_wrong_code_is_found() -> None:
    found = [faults(random_graph(seed), replace(backend, runtime=OneOff())) for seed in range(10)]
    assert any("exact part: gate1" in message for messages in found for message in messages)


def test_other_tags_are_found() -> None:
    shy = generate_neutron_compile_spec("imxrt700", operators_not_to_delegate=["aten"])
    partitioners = iter([NeutronPartitioner(), NeutronPartitioner(), NeutronPartitioner(shy)])
    moody = replace(backend, partitioner=partitioners.__next__)
    assert "other tags the second time" in faults(FOUND["convolution_quantised_behind_a_reshape"], moody)


# ------------------------------------------------------------------------------------ found by random models


def _float_behind_one_code() -> Graph:
    """A float output with a single rounded code behind it, almost half a step off."""
    x = Value("x", (1, 1), quant(0.0049), Fill("list", values=(100.0,)))
    rounded = Step("rounded", "aten.abs.default", (X,), (), quant(1.0))
    return Graph((x,), (rounded, Step("y", "aten.neg.default", (Ref("rounded"),))), (Ref("y"),))


def _convolution_quantised_behind_a_reshape() -> Graph:
    """The device rounds the convolution; the sub keeps the model from being delegated whole."""
    u = convolution(cin=8, cout=8, size=(16, 16), kernel=(1, 1))
    y = quant(0.05, 3)
    flat = Step("flat", "aten.view_copy.default", (Ref("product"), (1, -1)), (), y)
    z = activation("z", (1, 8), y)
    rest = Step("rest", "aten.sub.Tensor", (Ref("z"), Ref("z")), (), y)
    product = step(u, X, "product")
    product = Step(product.name, product.op, product.args)
    return Graph((*u.values, z), (product, flat, rest), (Ref("flat"), Ref("rest")))


def _division_of_a_real_number() -> Graph:
    """Quantized, but computed from no codes."""
    half = Step("half", "aten.div.Tensor", (X, 2.0), (), quant(0.05, 3))
    return Graph((activation("x", (1, 8), None),), (half,), (Ref("half"),))


def _weights_per_row() -> Graph:
    """Weights are per channel along the dimension that the product adds up: torch can, no NPU can."""
    w = constant("w", (16, 8), weight_quant(spread(0.01, 16), 0))
    product = Step("product", "aten.mm.default", (X, Ref("w")), (), quant(0.05, 3))
    return Graph((activation("x", (8, 16)), w), (product,), (Ref("product"),))


FOUND = {
    "weights_per_row": _weights_per_row(),
    "division_of_a_real_number": _division_of_a_real_number(),
    "float_behind_one_code": _float_behind_one_code(),
    "convolution_quantised_behind_a_reshape": _convolution_quantised_behind_a_reshape(),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_model_is_run_honestly(name: str) -> None:
    assert faults(FOUND[name], backend) == []
