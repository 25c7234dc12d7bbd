"""Which operators a Neutron-C NPU computes together; a quantizer asks the target for that."""

from __future__ import annotations

from math import inf

from torch import fx

from npu_assay.partitioners.exir.nodes import rank
from npu_assay.partitioners.exir.ops import target_name

ACTIVATIONS = frozenset(f"aten.{name}{end}.default" for name in ("relu", "sigmoid", "tanh") for end in ("", "_"))
CLAMPS = frozenset({"aten.hardtanh.default", "aten.hardtanh_.default"})
CLAMP_LIMITS = ((0.0, 6.0), (0.0, inf))
PRODUCTS = frozenset({"aten.addmm.default", "aten.mm.default"})


class NeutronTargetNeutronC:
    """The target info of every Neutron-C; the names end in the dialect of the program that a node is of."""

    @staticmethod
    def is_supported_fused_activation__aten(node: fx.Node) -> bool:
        """Whether the node is an activation that can be fused with a convolution or linear operator.

        Of hardtanh, these are relu and relu6.
        """
        name = _called(node)
        return name in ACTIVATIONS or (name in CLAMPS and tuple(node.args[1:3]) in CLAMP_LIMITS)

    @staticmethod
    def is_fusable_conv_or_linear__aten(node: fx.Node) -> bool:
        """Whether the node is an operator of `torch.export` that takes an activation along."""
        name = _called(node)
        return name in PRODUCTS | {"aten.conv2d.default"} or (name == "aten.linear.default" and rank(node) == 2)

    @staticmethod
    def is_fusable_conv_or_linear__edge(node: fx.Node) -> bool:
        """Whether the node is an operator of the edge dialect that takes an activation along."""
        name = _called(node)
        return name in PRODUCTS or (name == "aten.convolution.default" and rank(node) == 4)


def _called(node: fx.Node) -> str:
    return target_name(node.target) if node.op == "call_function" else ""
