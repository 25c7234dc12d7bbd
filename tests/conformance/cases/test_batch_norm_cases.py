"""Batch norms behind products: compilers that fold one where it does not belong are seen, and by no older case."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, fx

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.variants.batch_norm import CONVOLUTIONS, MATRICES, NORM
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.xnnpack import backend
from npu_assay.partitioners.xnnpack.lowering import linear, normalization
from npu_assay.partitioners.xnnpack.lowering.context import Context

TABLE = load_table("xnnpack@1.5")
ROWS = ("aten.conv2d.default", "aten.linear.default")
NAMED = {
    "batch_norm_after",
    "batch_norm_and_relu_after",
    "batch_norm_is_the_second_consumer",
    "two_batch_norms_after",
    "used_twice_with_a_batch_norm_each",
}


@cache
def contexts() -> tuple[Case, ...]:
    return tuple(
        c for c in cases_for(TABLE) if c.row in ROWS and c.precision == "fp32" and c.side == "context" and not c.options
    )


def failing() -> set[str]:
    """The contexts of the rows that fail, by name."""
    return {case.id.rpartition("/")[2] for case in contexts() if run_case(case, backend, TABLE).failures}


def test_right_folding_passes() -> None:
    assert {case.id.rpartition("/")[2] for case in contexts()} >= NAMED
    assert failing() == set()


def test_one_fold_for_shared_weights_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that two calls share are written once, with the first call's norm: 1.8 dB in a detector's heads."""
    kept: dict[object, tuple[Tensor, Tensor]] = {}

    def once(ctx: Context, norm: fx.Node, product: fx.Node) -> tuple[Tensor, Tensor]:
        return kept.setdefault(operand(product, 1), normalization.folded(ctx, norm, product))

    monkeypatch.setattr(linear, "folded", once)
    assert failing() == {"used_twice_with_a_batch_norm_each"}


def test_a_fold_with_another_consumer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The norm that comes last takes the product for its own, and the other consumer gets normalized numbers."""

    def last(node: fx.Node) -> fx.Node | None:
        return next(reversed(node.users), None)

    monkeypatch.setattr(normalization, "only_user", last)
    assert failing() >= {"batch_norm_is_the_second_consumer", "two_batch_norms_after"}
    assert failing() <= NAMED


def test_a_shift_that_is_lost_without_a_bias_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most modules before a norm have no bias, as the norm has one."""

    def lost(ctx: Context, norm: fx.Node, product: fx.Node) -> tuple[Tensor, Tensor]:
        weight, shift = normalization.folded(ctx, norm, product)
        return weight, shift if operand(product, 2) is not None else torch.zeros_like(shift)

    monkeypatch.setattr(linear, "folded", lost)
    assert failing() == {"batch_norm_and_relu_after"}


def test_norms_differ_where_there_are_two() -> None:
    """Else one in the place of the other would not show."""
    for case in contexts():
        if case.id.endswith(("two_batch_norms_after", "used_twice_with_a_batch_norm_each")):
            first, second = module(case.graph)(*model_inputs(case.graph))
            assert not torch.allclose(first, second, atol=0.1)


@pytest.mark.parametrize("table", ["neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5"])
def test_every_product_has_every_norm(table: str) -> None:
    """In each precision; products of two activations (bmm) have no weights to fold a norm into."""
    found: dict[tuple[str, str | None], set[str]] = {}
    for case in cases_for(load_table(table)):
        named = found.setdefault((case.row, case.precision), set())
        if any(step.op == NORM for step in case.graph.steps):
            named.add(case.id.rpartition("/")[2])
            assert case.expect == "accept"
    products_ = {key: names for key, names in found.items() if key[0] in (*CONVOLUTIONS, *MATRICES)}
    lacking = {key for key, names in products_.items() if not names >= NAMED and key[1] != "integers"}
    assert products_ and lacking == set()
    assert not any(names for key, names in found.items() if key not in products_)
