"""A limit of a backend as an object: stable code, sentence, and the function that finds what exceeds it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import fx

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import target_name

ContextT = TypeVar("ContextT", contravariant=True)
"""What a backend's rules look at besides the node."""


@dataclass(frozen=True)
class Rule(Generic[ContextT]):
    """One limit. `check` returns what it found, or None when the limit holds or does not apply."""

    code: str
    sentence: str
    check: Callable[[fx.Node, ContextT], str | None]

    def __call__(self, node: fx.Node, context: ContextT) -> Rejection | None:
        """The rejection of `node`, or None when the rule holds or does not apply."""
        found = self.check(node, context)
        return None if found is None else rejection(node, self.code, found, self.sentence)


def rule(code: str) -> Callable[[Callable[[fx.Node, ContextT], str | None]], Rule[ContextT]]:
    """Make a rule of a function whose docstring is the limit as a sentence (on as many lines as it takes)."""
    return lambda check: Rule(code, " ".join((inspect.getdoc(check) or code).split()), check)


def rejection(node: fx.Node, code: str, found: str, sentence: str) -> Rejection:
    """The record of why `node` stays out."""
    return Rejection(node.name, target_name(node.target), code, found, sentence)
