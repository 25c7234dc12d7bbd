"""What a rule may look at, and how a rule gets its sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.codes import SENTENCES
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
Check: TypeAlias = Callable[[fx.Node, Context], str | None]
"""What it found, or None when the limit holds or does not apply."""


def limit(code: str, value: object = None) -> Callable[[Check], Rule]:
    """Make a rule of a function: the code's sentence, with `value` in its place."""
    return lambda check: Rule(code, sentence(code, value), check)


def sentence(code: str, value: object = None) -> str:
    """What a code means."""
    return SENTENCES[code].replace("{value}", str(value))
