"""Float goldens of exact operands tell right from wrong: no bound is a large part of the range of the results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from table_steps import Known, steps

from npu_assay.conformance.judge.float_golden import walk
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step, Value, references
from npu_assay.reference.golden import Bounded, GoldenError, selection

LARGE = 0.05
JUMPS = {
    "aten.div.Tensor_mode": "a quotient that is rounded jumps, by one of some 13 steps of these results",
    "quantized_decomposed.quantize_per_tensor.default": "codes may be off by one, here of 16",
    "quantized_decomposed.dequantize_per_tensor.default": "a scale of 2**-126 and results that may be flushed to zero",
}
"""Operators whose bounds are larger in some case, and why."""


def _value(name: str, known: Known, seed: int) -> Value:
    kind = known[Ref(name)]
    real = kind.dtype.startswith(("float", "bfloat"))
    fill = Fill(seed=seed) if real else Fill("list", values=(0, 1, 0, 1, 1))
    return Value(name, kind.shape, None, fill, dtype="float32" if real else kind.dtype)


def _graphs(table: str) -> Iterator[Graph]:
    """Every form of every operator's arguments, alone, on float32, truths and small whole numbers."""
    for step, known in steps(table):
        refs = list(dict.fromkeys(references(step.args)))
        if refs and not any(ref.index for ref in refs):
            values = tuple(_value(ref.name, known, seed) for seed, ref in enumerate(refs, start=5))
            yield Graph(values, (replace(step, dynamic=None),), (Ref(step.name),))


def _worst(graph: Graph) -> float:
    """The largest bound of a finite number, as a part of the results' range and size."""
    found = walk(graph, None, delegated=True).bounded[0]
    finite = found.value.isfinite()
    if not bool(finite.any()):
        return 0.0
    value, error = found.value[finite], found.spread()[finite]
    return float(error.max() / max(float(value.max() - value.min()), float(value.abs().max()), 1e-30))


def _vague(table: str) -> set[str]:
    found = set()
    for graph in _graphs(table):
        step: Step = graph.steps[0]
        try:
            worst = _worst(graph)
        except (GoldenError, IndexError):  # an exponent or an index that these numbers do not fit
            continue
        if worst > LARGE:
            found.add(step.op)
    return found


@pytest.mark.long
@pytest.mark.parametrize("table", ["ethos_u85@1.5", "xnnpack@1.5", "neutron@1.4"])
def test_bounds_are_a_small_part_of_the_range(table: str) -> None:
    assert _vague(table) <= set(JUMPS)


@pytest.mark.long
def test_a_vague_bound_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With operands of `where` that are off by 1: either was right once where a condition was 1 but for a rounding."""
    monkeypatch.setattr(
        selection, "as_bounded", lambda x: Bounded(torch.as_tensor(getattr(x, "value", x)), torch.ones(()))
    )
    assert "aten.where.self" in _vague("ethos_u85@1.5")
