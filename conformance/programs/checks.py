"""Conditions that a user adds to a partitioner's own, for cases that pass them as its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STEP = "step"
"""The key in `node.meta` under which `programs.build` writes the step's name."""


@dataclass(frozen=True)
class Refuses:
    """Supports every node but those of one step. Has the form of torch's OperatorSupportBase, without torch."""

    step: str

    def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
        """Whether the node belongs to another step."""
        return bool(node.meta.get(STEP) != self.step)
