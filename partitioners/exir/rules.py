"""A limit of a backend as an object: constraint's id, sentence, and the function that finds what exceeds it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import fx

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import target_name

ContextT = TypeVar("ContextT", contravariant=True)
"""The type of what a backend's rules read in addition to the node."""


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


def rule(code: str, value: object = None) -> Callable[[Callable[[fx.Node, ContextT], str | None]], Rule[ContextT]]:
    """Make a rule of a function whose docstring is the limit as a sentence (on as many lines as it takes).

    value: a number or whatever the rule compares with; it replaces {value} in the sentence.
    """

    def made(check: Callable[[fx.Node, ContextT], str | None]) -> Rule[ContextT]:
        return Rule(code, " ".join((inspect.getdoc(check) or code).split()).replace("{value}", str(value)), check)

    return made


def rejections(rules: Iterable[Rule[ContextT]], node: fx.Node, context: ContextT) -> tuple[Rejection, ...]:
    """The rejections of `node` by the rules that it breaks, in the order of the rules."""
    found = (one(node, context) for one in rules)
    return tuple(rejected for rejected in found if rejected is not None)


def rejection(node: fx.Node, code: str, found: str, sentence: str) -> Rejection:
    """The record of why `node` is rejected."""
    return Rejection(node.name, target_name(node.target), code, found, sentence)
