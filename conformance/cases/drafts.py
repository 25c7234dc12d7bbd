"""Drafts: cases without their row, which case functions make, and the sides of limits that they are on."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from npu_assay.conformance.cases.make import Call, Prefix, Suffix, bare, model, results
from npu_assay.conformance.programs.graph import Graph

UNFUSED = "unfused"
FAR = "far_"  # begins the axes of sizes that limits tell
OPERATOR = "operator"  # stands for a constraint's code in cases that are about no single constraint


@dataclass(frozen=True)
class CaseDraft:
    """A case without its row: see `npu_assay.conformance.programs.graph.Case` for the fields.

    `reason` None: a rejected case is rejected for the constraint that it is about. axis: what it has otherwise than the
    plain program: an argument, the shape.
    """

    constraint: str
    side: str
    variant: str
    graph: Graph
    expect: str = "accept"
    options: tuple[tuple[str, Any], ...] = ()
    reason: str | None = None
    delegates: int | None = None
    axis: str = ""


Program = Call | Graph
"""What a draft is about: a model, or a call that stands between a prefix and a suffix."""


def _drafted(about: tuple[str, str, str], program: Program, prefix: Prefix, suffix: Suffix, expect: str) -> CaseDraft:
    """A draft about a model, or about a call between what stands before and after it."""
    return CaseDraft(*about, model(program, prefix, suffix) if isinstance(program, Call) else program, expect)


def inside(code: str, variant: str, program: Program, prefix: Prefix = bare, suffix: Suffix = results) -> CaseDraft:
    """Accepted, some way inside the limit."""
    return _drafted((code, "accept", variant), program, prefix, suffix, "accept")


def limit(code: str, variant: str, program: Program, prefix: Prefix = bare, suffix: Suffix = results) -> CaseDraft:
    """Accepted, exactly at the limit."""
    return _drafted((code, "at_limit", variant), program, prefix, suffix, "accept")


def outside(code: str, variant: str, program: Program, prefix: Prefix = bare, suffix: Suffix = results) -> CaseDraft:
    """Rejected for this constraint alone: one step past its limit."""
    return _drafted((code, "outside", variant), program, prefix, suffix, "reject")


def silent(code: str, variant: str, program: Program, prefix: Prefix = bare, suffix: Suffix = results) -> CaseDraft:
    """The table does not say: run and reported, but the tag cannot be wrong."""
    return _drafted((code, "context", variant), program, prefix, suffix, "unspecified")


def accepted(variant: str, program: Program, prefix: Prefix = bare, suffix: Suffix = results) -> CaseDraft:
    """Accepted, and about no single constraint."""
    return _drafted((OPERATOR, "accept", variant), program, prefix, suffix, "accept")


def placed(variant: str, program: Program, prefix: Prefix = bare, suffix: Suffix = results) -> CaseDraft:
    """Accepted in this context."""
    return _drafted((OPERATOR, "context", variant), program, prefix, suffix, "accept")


def fused_in(limits: Container[str], variant: str, program: Program) -> CaseDraft:
    """With an activation between the operator and its quantization: accepted, unless the row promises no such thing."""
    return outside(UNFUSED, variant, program) if UNFUSED in limits else placed(variant, program)


def valued(variant: str, program: Program, prefix: Prefix = bare, suffix: Suffix = results) -> CaseDraft:
    """Accepted; the numbers are the point."""
    return _drafted((OPERATOR, "value", variant), program, prefix, suffix, "accept")
