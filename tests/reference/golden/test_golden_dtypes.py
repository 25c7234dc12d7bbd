"""The types of results by the goldens, beside torch: every step of the tables' cases on tensors of every type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from table_steps import Known, steps

from npu_assay.conformance.fuzz.sketch import Kind
from npu_assay.conformance.judge.result_types import result_type
from npu_assay.conformance.programs.build import REALS
from npu_assay.conformance.programs.edge_form import typed
from npu_assay.conformance.programs.graph import Ref, Step, references
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.reference import golden
from npu_assay.reference.operators.home import FLOATING, JOINED


def _in_torch(step: Step, known: Known, device: str) -> torch.dtype | None:
    """The type of the first result; None where torch refuses the operands."""

    def real(argument: Any) -> Any:
        if isinstance(argument, Ref):
            return torch.ones(known[argument].shape, dtype=REALS[known[argument].dtype], device=device)
        return [real(item) for item in argument] if isinstance(argument, tuple) else argument

    try:
        found = edge_op(step.op)(*map(real, step.args), **{key: typed(value) for key, value in step.kwargs})
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError):
        return None
    first = found if isinstance(found, torch.Tensor) else next(iter(found))
    assert isinstance(first, torch.Tensor)
    return first.dtype


def _retyped(step: Step, known: Known) -> Iterator[Known]:
    """The step's operands in all types, two of them in all pairs."""
    refs = list(dict.fromkeys(references(step.args)))
    for types in itertools.product(REALS, repeat=len(refs)) if len(refs) < 3 else ((t,) * len(refs) for t in REALS):
        yield {**known, **{r: Kind(known[r].shape, None, t) for r, t in zip(refs, types, strict=True)}}


def _wrong(table: str) -> Iterator[str]:
    for step, plain in steps(table):
        for known in _retyped(step, plain):
            given = [REALS[known[ref].dtype] for ref in references(step.args)]
            expected = _in_torch(step, known, "meta")
            if expected is None or (found := result_type(step, given)) == expected:
                continue
            if _in_torch(step, known, "cpu") is not None:  # without numbers, torch refuses less
                yield f"{step.op} {step.args} of {given}: {found}, torch {expected}"


@pytest.mark.long
@pytest.mark.parametrize("table", ["ethos_u85@1.5", "xnnpack@1.5", "neutron@1.4"])
def test_results_have_the_types_of_torch(table: str) -> None:
    assert list(_wrong(table)) == []


def test_a_wrong_rule_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of whole numbers kept their type once: exp of int32 was to be int32."""
    original = golden.dtype_rule
    monkeypatch.setattr(golden, "dtype_rule", lambda op: JOINED if original(op) == FLOATING else original(op))
    assert any(text.startswith("aten.exp.default") for text in _wrong("ethos_u85@1.5"))
