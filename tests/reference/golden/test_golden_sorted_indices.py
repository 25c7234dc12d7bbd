"""Indices as second results: exact where no other number may be as large, open where one may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.programs.edge_form import returns_indices
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.reference import golden as operators
from npu_assay.reference.golden import Bounded
from npu_assay.reference.operators import HOMES

NUMBERS = (50, 60, 70, 80, 90, 20, 10, 5, 7, 30, 31, 2)
SORTING: dict[str, tuple[Any, ...]] = {
    "aten.max.dim": (1,),
    "aten.min.dim": (1, True),
    "aten.sort.default": (1, True),
    "aten.topk.default": (2, 1, False),
}
"""Their arguments behind a matrix. Pools count indices in a plane: their cases ask for them."""


def test_every_home_that_is_indices_is_asked() -> None:
    assert {name for name, home in HOMES.items() if home.with_indices} - SORTING.keys() == {
        "aten.max_pool2d_with_indices.default",
        "aten.max_pool3d_with_indices.default",
    }


def test_programs_know_indices_by_the_schema_alone() -> None:
    assert {name for name in HOMES if returns_indices(name, 1)} == {
        name for name, home in HOMES.items() if home.with_indices
    }
    assert not any(returns_indices(name, index) for name in HOMES for index in (0, 2))


def failing(op: str, quant: Quant | None, numbers: Tensor, indices: Tensor, scheme: str | None) -> list[str]:
    x = Value("x", (3, 4), quant, Fill("list", values=NUMBERS))
    step = Step("subject", op, (Ref("x"), *SORTING[op]), quant=quant, outputs=2)
    graph = Graph((x,), (step,), (Ref("subject"), Ref("subject", 1)))
    return [r.gate for r in judge(golden(graph), [numbers, indices], scheme, delegated=True) if not r.passed]


@pytest.mark.parametrize("scheme", [None, "tflite_double_round", "tosa_single_round", "xnnpack_fp32"])
@pytest.mark.parametrize("quant", [None, Quant(0.5, 3)])
@pytest.mark.parametrize("op", SORTING)
def test_every_wrong_index_is_seen(op: str, quant: Quant | None, scheme: str | None) -> None:
    x = torch.tensor(NUMBERS).view(3, 4).float()
    numbers, indices = edge_op(op)(x if quant is None else (x - 3) * 0.5, *SORTING[op])
    assert failing(op, quant, numbers, indices, scheme) == []
    for at in range(indices.numel()):
        wrong = indices.clone().view(-1)
        wrong[at] = (wrong[at] + 1) % 4
        assert "gate3" in failing(op, quant, numbers, wrong.view(indices.shape), scheme)


def moved(x: Bounded, generator: torch.Generator) -> Tensor:
    """Other numbers within the bounds, some of them at their ends."""
    part = torch.rand(x.value.shape, generator=generator, dtype=torch.float64).mul_(2.4).sub_(1.2).clamp_(-1, 1)
    return x.value + part * x.spread()


@pytest.mark.parametrize("op", SORTING)
def test_an_index_that_other_numbers_would_change_is_open(op: str) -> None:
    generator = torch.Generator().manual_seed(7)
    seen_open = seen_exact = 0
    for _ in range(60):
        value = torch.randint(0, 40, (3, 6), generator=generator).double()
        x = Bounded(value, torch.randint(0, 3, (3, 6), generator=generator) * 0.5)
        _, indices = operators.run(op, (x, *SORTING[op]), {})
        open_ = indices.spread().isinf()
        seen_open, seen_exact = seen_open + int(open_.sum()), seen_exact + int((~open_).sum())
        for _ in range(30):
            found = edge_op(op)(moved(x, generator), *SORTING[op])[1]
            assert bool((open_ | (found == indices.value)).all())
    assert seen_open > 20 and seen_exact > 20


@pytest.mark.parametrize("op", SORTING)
def test_of_equal_numbers_any_may_be_taken_but_for_the_first_of_all(op: str) -> None:
    """torch promises the first of the largest, and of the smallest, and no order of equal numbers in a sort."""
    x = Bounded(torch.tensor([[2.0, 1.0, 1.0, 2.0]], dtype=torch.float64))
    _, indices = operators.run(op, (x, *SORTING[op]), {})
    assert bool(indices.spread().isinf().all()) == (op in ("aten.sort.default", "aten.topk.default"))


@pytest.mark.parametrize("change", [lambda x: x, lambda x: x.flip(0)], ids=["one_nan", "turned"])
def test_the_index_of_a_nan_is_open(change: Callable[[Tensor], Tensor]) -> None:
    value = change(torch.tensor([1.0, torch.nan, 3.0], dtype=torch.float64))[None]
    _, indices = operators.run("aten.sort.default", (Bounded(value), 1), {})
    assert bool(indices.spread().isinf()[value.sort(1).values.isnan()].all())
