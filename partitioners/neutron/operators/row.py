"""What the Neutron backend knows about one operator, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from npu_assay.partitioners.neutron.lowering.context import Lower
from npu_assay.partitioners.neutron.releases import FIRST, is_in
from npu_assay.partitioners.neutron.support.rescale import Problem
from npu_assay.partitioners.neutron.support.rule import Rule
from npu_assay.partitioners.neutron.support.stage import StageRule
from npu_assay.partitioners.neutron.traits import Traits


class Annotation(Enum):
    """How the quantizer treats an operator."""

    SHARED = auto()
    """The result keeps the operand's scale and zero point."""
    FREE = auto()
    """The result has parameters of its own: the row's `fixed_output`, if there is one."""
    SYMMETRIC = auto()
    """The same, and the operands' zero points are 0."""
    TIED = auto()
    """All operands and the result have one scale and zero point."""


@dataclass(frozen=True)
class Exported:
    """An operator as programs have it that the quantizer gets, before they are in the edge dialect."""

    annotation: Annotation
    others: tuple[str, ...] = ()
    """Further operators that become this one."""
    has_own_name: bool = True
    """Whether the edge operator's own name stands in such programs."""


@dataclass(frozen=True)
class Row(Traits):
    """One operator of the edge dialect.

    lower: writes it to the model. rules: the NPU's limits on one node, in order; None for an operator that the
    partitioner meets only if a pass was not run. problem: finds numbers that 32-bit arithmetic cannot hold.
    stage: limits on a node inside a partition. exported: what the quantizer does with it.
    since: the first release that has it. newer: by release, the fields that differ from that release on.
    The kernels of the device are rows of the TFLite operators that `lower` writes, see `device/operators.py`.
    """

    lower: Lower = field(kw_only=True)
    rules: tuple[Rule, ...] | None = field(default=None, kw_only=True)
    problem: Problem | None = field(default=None, kw_only=True)
    stage: tuple[StageRule, ...] = field(default=(), kw_only=True)
    exported: Exported | None = field(default=None, kw_only=True)
    since: str = field(default=FIRST, kw_only=True)
    newer: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, kw_only=True)

    def of(self, release: str) -> Row:
        """The row as a release has it."""
        changes = {
            name: found for came, more in self.newer.items() if is_in(came, release) for name, found in more.items()
        }
        return replace(self, **changes) if changes else self
