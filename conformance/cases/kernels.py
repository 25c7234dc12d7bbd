"""Cases that keep within a row's `kernel_height` and `kernel_area`, whatever they are.

Where a row permits less than case functions are written for, the kernel of the plain case is cut, in all cases that
have it; cases with a larger kernel of their own are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu_assay.conformance.cases.drafts import CaseDraft
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.cases.ranks import lost_text
from npu_assay.conformance.programs.graph import Graph

HEIGHT, AREA = "kernel_height", "kernel_area"
WRITTEN = 8, 64  # height and area of the largest kernels in other cases
CONVOLUTION = "aten.convolution.default"
Kernel = tuple[int, int]


def within_kernel(limits: Limits, drafts: Sequence[CaseDraft]) -> list[CaseDraft]:
    """The drafts of a row with kernels that the row permits, but for those about that.

    Raises LimitError where they leave nothing of the row's plain cases, or of the cases outside of a constraint.
    """
    height, area = limits.values.get(HEIGHT, WRITTEN[0]), limits.values.get(AREA, WRITTEN[1])
    plain = next((kernel_of(draft.graph) for draft in drafts if draft.variant == "baseline"), None)
    if (
        plain is None
        or type(height) is not int
        or type(area) is not int
        or (height >= WRITTEN[0] and area >= WRITTEN[1])
    ):
        return list(drafts)
    kept = [kept for draft in drafts if (kept := _within(draft, plain, height, area)) is not None]
    lost = lost_text(limits, drafts, kept)
    if lost:
        code, found = (HEIGHT, height) if height < WRITTEN[0] else (AREA, area)
        raise limits.error(code, found, f"more: with smaller kernels there are no cases for {lost}")
    return kept


def kernel_of(graph: Graph) -> Kernel | None:
    """Height and width of a convolution's kernel; None where it has none of two dimensions."""
    step = next(step for step in graph.steps if step.name == SUBJECT)
    sizes: object = None
    if step.op == CONVOLUTION:
        sizes = next((value.shape[2:] for value in graph.values if value.name == step.args[1].name), None)
    return sizes if isinstance(sizes, tuple) and len(sizes) == 2 else None


def _within(draft: CaseDraft, plain: Kernel, height: int, area: int) -> CaseDraft | None:
    """The draft with a kernel that fits, or None."""
    kernel = kernel_of(draft.graph)
    if kernel is None or draft.constraint in (HEIGHT, AREA) or _fits(kernel, height, area):
        return draft
    if kernel != plain:
        return None
    rows = min(kernel[0], height)
    cut = rows, min(kernel[1], area // rows)
    if not cut[1]:
        return None
    return replace(draft, graph=_with_kernel(draft.graph, cut))


def _fits(kernel: Kernel, height: int, area: int) -> bool:
    return kernel[0] <= height and kernel[0] * kernel[1] <= area


def _with_kernel(graph: Graph, kernel: Kernel) -> Graph:
    """The model with this kernel in every step that has the subject's weights."""
    name = next(step for step in graph.steps if step.name == SUBJECT).args[1].name
    values = (replace(v, shape=(*v.shape[:2], *kernel)) if v.name == name else v for v in graph.values)
    return replace(graph, values=tuple(values))
