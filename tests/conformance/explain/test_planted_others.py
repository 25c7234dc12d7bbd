"""Planted causes in networks of many shapes: the first cause that `explain` names is the planted one, by its module."""

from __future__ import annotations

import pytest
from places import ROOT

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

from explain_models import of, with_numbers
from planted import PLANTED
from planted_numbers import NUMERIC as FIRST
from planted_numbers import Numeric
from planted_numbers_others import OTHERS as NUMERIC
from planted_others import OTHERS, Other
from quantizing import QUANTIZES

from npu_assay.conformance.explain.record import Explained

pytestmark = QUANTIZES


def explained(other: Other, planted: bool) -> Explained:
    return of(*other.model(planted), other.backend, quantized=other.quantized)


def test_the_page_has_the_counts() -> None:
    text = (ROOT / "docs" / "explain.md").read_text()
    causes, numbers = len(PLANTED) + len(OTHERS), len(FIRST) + len(NUMERIC)
    assert f"Of {causes} models with one planted cause" in text and f"of {numbers} with a planted numeric cause" in text


@pytest.mark.sampled(5)
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_the_first_cause_is_the_planted_one(other: Other) -> None:
    one = explained(other, True)
    assert one.error == "" and one.causes
    first, known = one.causes[0], {operator.name: operator for operator in one.operators}
    root = known[first.roots[0]]
    assert (first.code, root.module) == (other.code, other.module) and other.operator in root.operator


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_without_it_that_reason_is_not_given(other: Other) -> None:
    """So the network has that cause by what was planted."""
    one = explained(other, False)
    known = {operator.name: operator for operator in one.operators}
    roots = {(cause.code, known[root].operator) for cause in one.causes for root in cause.roots}
    assert not [operator for code, operator in roots if code == other.code and other.operator in operator]


@pytest.mark.parametrize("numeric", NUMERIC, ids=str)
def test_the_first_layer_is_the_planted_one(numeric: Numeric) -> None:
    one = with_numbers(numeric)
    assert one.error == ""
    first, wanted = one.layers[0], numeric.where.split("|")
    assert first.module in wanted or first.name in wanted
    assert numeric.cure == "" or any(numeric.cure in cure for cure in first.cures), first.cures


def test_the_transposition_of_a_weight_follows_its_layer() -> None:
    """A layer in bfloat16, which XNNPACK leaves out, is split: its weight is turned by an operator of its own."""
    (other,) = (other for other in OTHERS if other.name == "bfloat16_layer")
    one = explained(other, True)
    known = {operator.name: operator.operator for operator in one.operators}
    assert [known[name] for name in one.causes[0].follows] == ["aten.permute_copy.default"]
    assert {cause.code for cause in one.causes} == {"dtype"}
