"""XNNPACK partitioners that lack one rule of one operator, or give another reason for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import fx

from partitioners.exir import Backend, PartitionResult
from partitioners.exir.faults import Fault, Found, less, renamed
from partitioners.xnnpack import XnnpackPartitioner
from partitioners.xnnpack import partitioner as module
from partitioners.xnnpack.configs import ALL_CONFIGS
from partitioners.xnnpack.faults.partitioner import of_class


def judging(change: Callable[[Found], Found]) -> Backend:
    """A backend whose partitioner changes what its rules say."""

    def private(site: Any, reasons: Any) -> Found:
        return change(right(site, reasons))

    right = module.private_rejections

    class Judging(XnnpackPartitioner):
        def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
            with patch.object(module, "private_rejections", private):
                return super().partition(exported_program)

        def _own_rejections(self, node: fx.Node, sites: Any) -> Found:
            return change(super()._own_rejections(node, sites))

    return of_class(Judging)


def codes_of(config: Any) -> dict[str, None]:
    """The codes of an operator's rules."""
    return dict.fromkeys(rule.code for rule in (*config.common, *config.rules))


def dropped() -> Iterator[Fault]:
    """One fault for every rule of every operator."""
    for config in ALL_CONFIGS:
        target = config.target
        for code in codes_of(config):
            cases = (f"{target}/*/{code}/",)
            yield Fault(f"{code}_of_{target}", "partitioner", "dropped", judging(less(code, target)), cases)


def misnamed() -> Iterator[Fault]:
    """One fault for every code."""
    for code in dict.fromkeys(code for config in ALL_CONFIGS for code in codes_of(config)):
        cases = (f"*/{code}/",)
        yield Fault(f"{code}_misnamed", "partitioner", "misnamed", judging(renamed(code)), cases, frozenset({"reason"}))
