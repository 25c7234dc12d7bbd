"""What gates 1 and 2 allow a case, computed from its goldens."""

from __future__ import annotations

from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.record.results import rounded


def code_limits(graph: Graph, scheme: str | None) -> tuple[float, float, float] | None:
    """A delegated case's largest distance in LSB, share of codes off by one, and mean distance; None without codes."""
    right = golden(graph)
    try:
        legal = right.walk(scheme, True).codes
        exact = right.codes(scheme) if scheme is not None else (None,) * len(legal)
    except ValueError:  # then no run has judged it either
        return None
    found = []
    for codes, known in zip(legal, exact, strict=True):
        if codes is None or not (ambiguous := codes.ambiguous()).numel():
            continue
        count = ambiguous.numel()
        lsb = 0.0 if known is not None else max(1.0, float(ambiguous.max()))
        found.append((lsb, int(ambiguous.count_nonzero()) / count, float(ambiguous.sum()) / count))
    if not found:
        return None
    lsb, rate, bias = (_recorded(max(column)) for column in zip(*found, strict=True))
    return lsb, rate, bias


def _recorded(value: float) -> float:
    """A limit, rounded as the recorded metric that it is compared with."""
    number = rounded(value)
    assert isinstance(number, float)
    return number
