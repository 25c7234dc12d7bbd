"""What a rule may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import fx

from npu_assay.partitioners.exir import rules
from npu_assay.partitioners.exir.qdq import is_constant


@dataclass(frozen=True)
class Context:
    """The program around a node.

    is_u55: the limits of Ethos-U55 and Ethos-U65 hold. constants: data by placeholder name, None where it is not known.
    """

    is_u55: bool = False
    constants: Mapping[str, torch.Tensor | None] = field(default_factory=dict)

    def is_constant(self, node: object) -> bool:
        """Whether the compiler knows the value."""
        return isinstance(node, fx.Node) and is_constant(node, self.constants)

    def data(self, node: object) -> torch.Tensor | None:
        """The tensor behind a constant placeholder; None when it is not one or its data is not known."""
        return self.constants.get(node.name) if isinstance(node, fx.Node) else None


Rule: TypeAlias = rules.Rule[Context]
"""A limit of the NPU."""
