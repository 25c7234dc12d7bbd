"""What a rule may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import fx

from npu_assay.partitioners.ethosu.traits import Operators, Traits
from npu_assay.partitioners.exir import rules
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import is_constant

UNKNOWN = Traits()


@dataclass(frozen=True)
class Context:
    """The program around a node.

    operators: those that the NPU has. is_u55: the limits of Ethos-U55 and Ethos-U65 hold.
    constants: data by placeholder name, None where it is not known.
    """

    operators: Operators
    is_u55: bool = False
    constants: Mapping[str, torch.Tensor | None] = field(default_factory=dict)

    def traits(self, node: fx.Node) -> Traits:
        """What holds for the node's operator; nothing for an unknown one."""
        return self.operators.get(target_name(node.target), UNKNOWN)

    def is_computed_ahead(self, node: fx.Node) -> bool:
        """Whether the node is a constant that the program computes of numbers alone."""
        return self.traits(node).is_constant and operand(node) is None

    def is_constant(self, node: object) -> bool:
        """Whether the compiler knows the value."""
        return isinstance(node, fx.Node) and is_constant(node, self.constants)

    def data(self, node: object) -> torch.Tensor | None:
        """The tensor of a constant placeholder; None when it is not one or its data is not known."""
        return self.constants.get(node.name) if isinstance(node, fx.Node) else None


Rule: TypeAlias = rules.Rule[Context]
"""A limit of the NPU."""
