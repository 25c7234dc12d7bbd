"""The partitioner of an invented NPU, made with `assay new`: its tags alone are certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import fx

from benchmarks.plover.application import Application, Tensor
from benchmarks.plover.rules import MADE as MADE
from benchmarks.plover.rules import ROWS as ROWS
from benchmarks.plover.rules import RULES as RULES
from benchmarks.plover.rules import Check as Check
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.exir.rules import Rule
from npu_assay.partitioners.exir.single_op import Cluster, ClusterPartitioner


def _applies(when: str, n: Application) -> bool:
    """Whether a constraint of one precision is about this application."""
    per_channel = any(isinstance(t, Tensor) and t.is_per_channel for t in vars(n).values())
    return when in ("", "int16" if n.x.dtype == torch.int16 else "int8_per_channel" if per_channel else "int8")


def checked(code: str, limit: Any, when: str, other: Check | None = None) -> Rule[Any]:
    """The rule of a constraint, or `other` in its place; what an application lacks breaks nothing."""
    check = RULES[code] if other is None else other

    def found(node: fx.Node, cluster: Cluster | None) -> str | None:
        try:
            n = Application(node)
            return None if not _applies(when, n) or check(n, limit) else "broken"
        except (AttributeError, IndexError, TypeError, ZeroDivisionError):
            return None

    return Rule(code, code, found)


class PloverPartitioner(ClusterPartitioner):
    """Every row with its rules."""

    backend_id = "PloverBackend"
    dtypes = (torch.int8, torch.int16)
    per_channel = True
    rules: ClassVar = {MADE.get(op, op): tuple(checked(*limit) for limit in row) for op, row in ROWS.items()}


backend = Backend("plover", str(Path(__file__).with_name("plover@1.0.toml")), PloverPartitioner)
