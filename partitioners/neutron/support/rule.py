"""What a rule may look at: the graph around a node, and the NPU's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import torch
from torch import fx
from torch._subclasses import FakeTensor

from npu_assay.partitioners.exir import rules
from npu_assay.partitioners.exir.nodes import shape
from npu_assay.partitioners.exir.qdq import is_constant
from npu_assay.partitioners.neutron.clusters import Cluster, find_clusters
from npu_assay.partitioners.neutron.formats import channel_dim, channels_first_nodes
from npu_assay.partitioners.neutron.options import CustomDelegationOptions
from npu_assay.partitioners.neutron.releases import FIRST
from npu_assay.partitioners.neutron.traits import Operators


@dataclass(frozen=True)
class Context:
    """The graph around a node. `operators` are those that the NPU has, in this `release`.

    `constants` maps placeholder names to their data, None where it is not known.
    `macs` and `pipes` are the NPU's multiply-accumulate units and pipelines.
    """

    graph: fx.Graph
    operators: Operators
    constants: Mapping[str, torch.Tensor | None] = field(default_factory=dict)
    macs: int = 8
    pipes: int = 8
    options: CustomDelegationOptions = field(default_factory=CustomDelegationOptions)
    release: str = FIRST

    @cached_property
    def channels_first(self) -> frozenset[fx.Node]:
        """The nodes whose result is channels-first."""
        return channels_first_nodes(self.graph, self.operators)

    @cached_property
    def clusters(self) -> dict[fx.Node, Cluster]:
        """Quantized operators with their quantize and dequantize nodes."""
        return find_clusters(self.graph, self.operators)

    def is_channels_first(self, node: object) -> bool:
        """Whether the device holds the value with its channels moved to the end."""
        return node in self.channels_first

    def channels(self, node: fx.Node) -> int:
        """Size of the channel dimension; 1 for a scalar."""
        sizes = shape(node)
        return sizes[channel_dim(node, self.channels_first)] if sizes else 1

    def is_constant(self, node: object) -> bool:
        """Whether the compiler knows the value."""
        return isinstance(node, fx.Node) and is_constant(node, self.constants)

    def data(self, node: object) -> torch.Tensor | None:
        """The tensor of a constant placeholder; None when it is not one or its data is not known."""
        value = self.constants.get(node.name) if isinstance(node, fx.Node) else None
        return None if isinstance(value, FakeTensor) else value


Rule: TypeAlias = rules.Rule[Context]
"""A limit of the NPU."""
