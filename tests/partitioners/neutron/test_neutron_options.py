"""What a user may say to the Neutron partitioner, and what it makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from npu_assay.partitioners.exir import delegates, to_edge
from npu_assay.partitioners.exir.backend import Pass
from npu_assay.partitioners.neutron import (
    CustomDelegationOptions,
    NeutronPartitioner,
    NeutronTargetSpec,
    generate_neutron_compile_spec,
)
from npu_assay.partitioners.neutron.passes import PASSES

PRELU = torch.ops.aten.prelu


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compile_spec": "imxrt700"}, "compile_spec is 'imxrt700', expected a list of CompileSpec objects"),
        ({"compile_spec": [("a", "b")]}, r"compile_spec\[0\] is \('a', 'b'\), expected a CompileSpec"),
        ({"neutron_target_spec": "imxrt700"}, "neutron_target_spec is 'imxrt700', expected NeutronTargetSpec or None"),
        (
            {"custom_delegation_options": {"force_delegate_cat": True}},
            "custom_delegation_options is {'force_delegate_cat': True}, expected CustomDelegationOptions or None",
        ),
        ({"post_quantization_state_dict": 3}, "post_quantization_state_dict is 3, expected Mapping or None"),
        ({"preserve_ops": "aten.prelu.default"}, "preserve_ops is 'aten.prelu.default', expected a list of operators"),
        ({"preserve_ops": PRELU.default}, r"preserve_ops is <.*aten.prelu.*>, expected a list of operators"),
        ({"preserve_ops": ["aten.prelu.default"]}, r"preserve_ops\[0\] is 'aten.prelu.default', expected an operator"),
        ({"preserve_ops": [PRELU.default, PRELU]}, r"preserve_ops\[1\] is .*, expected an operator with its overload"),
        ({"check_op_support": 3}, "check_op_support is 3, expected a function of a node or None"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        NeutronPartitioner(**options)


# ------------------------------------------------------------------------------------ operators_not_to_delegate


class Net(nn.Module):
    """One operator between quantizations of the same parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.coded(self.function(self.coded(x)))

    def coded(self, x: Tensor) -> Tensor:
        """Through codes."""
        params = (0.0625, 0, -128, 127, torch.int8)
        codes = torch.ops.quantized_decomposed.quantize_per_tensor.default(x, *params)
        real: Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor.default(codes, *params)
        return real


REWRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "aten::div": lambda x: x / 2.0,
    "aten::squeeze": lambda x: x.squeeze(0),
    "aten::unsqueeze": lambda x: x.unsqueeze(0),
    "aten::split": lambda x: torch.split(x, 8, 2)[1],
    "aten.split.Tensor": lambda x: torch.split(x, 8, 2)[1],
    "aten::avg_pool1d": lambda x: nn.functional.avg_pool1d(x, 2),
    "aten.avg_pool1d.default": lambda x: nn.functional.avg_pool1d(x, 2),
    "aten::max_pool1d": lambda x: nn.functional.max_pool1d(x, 2),
    "aten::relu6": nn.functional.relu6,
}


@pytest.mark.parametrize("passes", [(), PASSES], ids=["as it is", "after passes"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_operators_that_are_rewritten_are_excluded_by_their_own_name(name: str, passes: Sequence[Pass]) -> None:
    """They are others when the partitioner sees them; the document says that what is listed stays out."""
    exported = torch.export.export(Net(REWRITTEN[name]), (torch.ones(1, 8, 16),))
    options = CustomDelegationOptions(allow_no_op_partitions=True)
    for names, count in ((None, 1), ([name], 0)):
        spec = generate_neutron_compile_spec("imxrt700", operators_not_to_delegate=names)
        partitioner = NeutronPartitioner(spec, custom_delegation_options=options)
        lowered = to_edge(exported).transform(list(passes)).to_backend(partitioner).exported_program()
        assert len(list(delegates(lowered))) == count, partitioner.rejections
        assert {r.code for r in partitioner.rejections if r.target.startswith("aten")} <= {"excluded"}


# ------------------------------------------------------------------------------------ neutron_target_info


def call(name: str, rank: int, *limits: float) -> fx.Node:
    """A call of that operator, whose result has that rank."""
    _, operator, overload = name.split(".")
    graph = fx.Graph()
    node = graph.call_function(getattr(getattr(torch.ops.aten, operator), overload), (graph.placeholder("x"), *limits))
    node.meta["val"] = torch.empty((1,) * rank, device="meta")
    return node


def test_what_a_target_fuses() -> None:
    info = NeutronTargetSpec("imxrt700").neutron_target_info
    fused = {
        name: info.is_supported_fused_activation__aten(call(f"aten.{name}.default", 4))
        for name in ("relu", "relu_", "sigmoid", "sigmoid_", "tanh", "tanh_", "leaky_relu", "abs", "hardtanh")
    }
    assert [name for name, found in fused.items() if not found] == ["leaky_relu", "abs", "hardtanh"]
    limits = [(0.0, 6.0), (0.0, math.inf), (-1.0, 1.0), (0.0, 1.0)]
    found = [info.is_supported_fused_activation__aten(call("aten.hardtanh.default", 4, *each)) for each in limits]
    assert found == [True, True, False, False]


@pytest.mark.parametrize(
    ("name", "rank", "in_aten", "in_edge"),
    [
        ("aten.conv2d.default", 4, True, False),
        ("aten.convolution.default", 4, False, True),
        ("aten.convolution.default", 3, False, False),
        ("aten.linear.default", 2, True, False),
        ("aten.linear.default", 3, False, False),
        ("aten.addmm.default", 2, True, True),
        ("aten.mm.default", 2, True, True),
        ("aten.bmm.default", 3, False, False),
    ],
)
def test_what_takes_an_activation_along(name: str, rank: int, in_aten: bool, in_edge: bool) -> None:
    info, node = NeutronTargetSpec("imxrt700").neutron_target_info, call(name, rank)
    assert (info.is_fusable_conv_or_linear__aten(node), info.is_fusable_conv_or_linear__edge(node)) == (
        in_aten,
        in_edge,
    )
