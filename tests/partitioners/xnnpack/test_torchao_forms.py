"""What XNNPACK takes of torchao's `quantize_`: the forms that ExecuTorch 1.5.1 takes, and right numbers of all others.

`TAKEN` and `LEFT` are what ExecuTorch 1.5.1 did with the same models (torchao 0.18, x86-64); it takes the weight-only
ones, too, and computes them from the codes without their scales, which is no answer that a backend may give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from networks import seeded
from torch import nn

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

from quantizing import QUANTIZES

from npu_assay.partitioners.exir import run_program, to_edge_transform_and_lower
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.xnnpack import backend
from npu_assay.partitioners.xnnpack.partitioner import XnnpackPartitioner

pytestmark = QUANTIZES

INPUTS = 64
BITS = {2: "int2", 4: "int4", 8: "int8"}


def dynamic(bits: int, group: int = 0, **options: Any) -> Any:
    """Activations quantized at run time; weights per axis, or in groups."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig

    return Int8DynamicActivationIntxWeightConfig(
        weight_dtype=vars(torch)[BITS[bits]], weight_granularity=_granularity(group), **options
    )


def weight_only(bits: int, group: int = 0) -> Any:
    """Activations that are real numbers."""
    from torchao.quantization import IntxWeightOnlyConfig

    return IntxWeightOnlyConfig(weight_dtype=vars(torch)[BITS[bits]], granularity=_granularity(group))


def asymmetric() -> Any:
    """Weights with zero points."""
    from torchao.quantization import MappingType

    return dynamic(8, weight_mapping_type=MappingType.ASYMMETRIC)


def _granularity(group: int) -> Any:
    from torchao.quantization.granularity import PerAxis, PerGroup

    return PerGroup(group) if group else PerAxis(0)


TAKEN: dict[str, Callable[[], Any]] = {
    "8da8w": lambda: dynamic(8),
    "8da2w": lambda: dynamic(2),
    "8da4w": lambda: dynamic(4),
    "8da4w_groups_of_32": lambda: dynamic(4, 32),
}
LEFT: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "weight_only_int8": (lambda: weight_only(8), {"quantized": "operand input is not dequantized"}),
    "weight_only_int4_groups": (
        lambda: weight_only(4, 32),
        {"quantized": "operand input is not dequantized", "group_codes": "activations are not quantized"},
    ),
    "8da8w_groups": (lambda: dynamic(8, 32), {"group_codes": "codes -128..127"}),
    "8da4w_groups_of_16": (lambda: dynamic(4, 16), {"group_size": "groups of 16, 64 inputs"}),
    "8da8w_zero_points": (asymmetric, {"weight_zero_point": ""}),
}


def quantized(config: Any, *layers: nn.Module) -> nn.Module:
    from torchao.quantization import quantize_

    model = seeded(nn.Sequential(*layers))
    quantize_(model, config)
    return model


def lowered(model: nn.Module, x: torch.Tensor) -> tuple[list[str], XnnpackPartitioner, torch.Tensor]:
    """The operators outside of delegates, the partitioner that was asked, and the result."""
    partitioner = XnnpackPartitioner()
    with torch.no_grad():
        manager = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[partitioner])
    manager.to_executorch()
    program = manager.exported_program()
    names = [target_name(node.target) for node in program.graph.nodes if node.op == "call_function"]
    (result,) = run_program(program, [x], {backend.details.__name__: backend.runtime})
    return [name for name in names if name not in ("executorch_call_delegate", "getitem")], partitioner, result


def decibels(given: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(10 * torch.log10((wanted**2).sum() / ((given - wanted) ** 2).sum()))


@pytest.mark.parametrize(("shape", "bias"), [((4, INPUTS), True), ((1, 3, INPUTS), False)])
@pytest.mark.parametrize("form", TAKEN)
def test_forms_that_are_taken_whole_and_right(form: str, shape: tuple[int, ...], bias: bool) -> None:
    model = quantized(TAKEN[form](), nn.Linear(INPUTS, 48, bias=bias), nn.ReLU())
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    outside, partitioner, found = lowered(model, x)
    assert not outside and not partitioner.rejections
    if form.startswith("8da4w"):  # the format has such scales as bfloat16
        weight: Any = model[0].weight  # type: ignore[index]
        weight.scale = weight.scale.to(torch.bfloat16).to(torch.float32)
    with torch.no_grad():
        assert decibels(found, model(x)) > 120


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", LEFT)
def test_forms_that_are_left_have_their_own_reason_and_are_right(form: str, bias: bool) -> None:
    config, expected = LEFT[form]
    model = quantized(config(), nn.Linear(INPUTS, 48, bias=bias), nn.ReLU())
    x = torch.randn((4, INPUTS), generator=torch.Generator().manual_seed(1))
    outside, partitioner, found = lowered(model, x)
    product = "aten.addmm.default" if bias else "aten.mm.default"
    assert product in outside and not any(name.startswith("torchao") for name in outside)
    told = {r.code: str(r.found) for r in partitioner.rejections if r.target == product}
    assert told.keys() == expected.keys()
    assert all(text in told[code] for code, text in expected.items())
    rest = {(r.code, str(r.found).split(".")[0]) for r in partitioner.rejections if r.target != product}
    assert rest == {("unsupported", "torchao")}
    with torch.no_grad():
        torch.testing.assert_close(found, model(x))


def test_reasons_are_those_of_the_layer_that_was_decomposed() -> None:
    """Of two layers of one model, of which one is taken."""
    model = quantized(dynamic(8), nn.Linear(INPUTS, 32), nn.ReLU())
    other = quantized(weight_only(8), nn.Linear(32, 16), nn.ReLU())
    x = torch.randn((4, INPUTS), generator=torch.Generator().manual_seed(1))
    _, partitioner, _ = lowered(nn.Sequential(model, other), x)
    assert {r.code for r in partitioner.rejections if r.target == "aten.addmm.default"} == {"quantized"}


def test_a_model_that_computes_its_weights_is_still_told_so() -> None:
    class Computed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, INPUTS))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, self.weight.sigmoid())

    _, partitioner, _ = lowered(Computed().eval(), torch.randn(2, INPUTS))
    assert [(r.code, r.target) for r in partitioner.rejections] == [("static_weights", "aten.mm.default")]
