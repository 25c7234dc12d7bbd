"""NaN, infinities, zeros and numbers below the normal range: what is right, and that a wrong one is noticed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.cases import cases_for, drafts_of
from npu_assay.conformance.cases.drafts import CaseDraft
from npu_assay.conformance.cases.variants.special_values import FLOATS, PAIRED, SINGLE, SUMMING, special_values
from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.judge.second_golden import golden_failures
from npu_assay.conformance.programs.build import materialise, model_inputs, module
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step, Value
from npu_assay.conformance.run.checked_runtime import same
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.common.machine import Step as DeviceStep
from npu_assay.partitioners.xnnpack import backend
from npu_assay.partitioners.xnnpack.device import elementwise, operators
from npu_assay.partitioners.xnnpack.device.site import Site as DeviceSite
from npu_assay.partitioners.xnnpack.kernels import activation
from npu_assay.reference.affine import Affine
from npu_assay.reference.golden import Bounded, legal_codes, quantised, run, run_float32
from npu_assay.reference.golden.special import other_class, unknown

INF, NAN = math.inf, math.nan
TINY = 2.0**-140
MOST = torch.finfo(torch.float32).max


def exactly(*numbers: float) -> Bounded:
    return Bounded(torch.tensor(numbers, dtype=torch.float64))


def alike(found: Tensor, expected: tuple[float, ...]) -> bool:
    other = torch.tensor(expected, dtype=torch.float64)
    return bool(((found == other) | (found.isnan() & other.isnan())).all())


# By hand, from IEEE 754-2019 (6.1, 6.2, 7.2, 7.3, 9.2.1) and from what torch documents of maxima, clamps and indices.
CLASSES: list[tuple[str, tuple[Any, ...], tuple[float, ...]]] = [
    ("aten.sqrt.default", (exactly(0.0, -0.0, -1.0, INF, -INF, NAN),), (0.0, -0.0, NAN, INF, NAN, NAN)),
    ("aten.rsqrt.default", (exactly(0.0, -0.0, -1.0, INF, NAN),), (INF, -INF, NAN, 0.0, NAN)),
    ("aten.log.default", (exactly(0.0, -0.0, -1.0, INF, NAN),), (-INF, -INF, NAN, INF, NAN)),
    ("aten.log10.default", (exactly(0.0, -1.0, INF, NAN),), (-INF, NAN, INF, NAN)),
    ("aten.acos.default", (exactly(2.0, NAN, 1.0),), (NAN, NAN, 0.0)),
    ("aten.reciprocal.default", (exactly(0.0, -0.0, INF, NAN),), (INF, -INF, 0.0, NAN)),
    (
        "aten.div.Tensor",
        (exactly(1, 1, 0, INF, -1, NAN), exactly(0, -0.0, 0, INF, 0, 1)),
        (INF, -INF, NAN, NAN, -INF, NAN),
    ),
    ("aten.mul.Tensor", (exactly(INF, INF, NAN), exactly(0, -2, 0)), (NAN, -INF, NAN)),
    ("aten.add.Tensor", (exactly(INF, INF, 1), exactly(-INF, INF, NAN)), (NAN, INF, NAN)),
    ("aten.maximum.default", (exactly(NAN, 0, INF), exactly(0, NAN, 1)), (NAN, NAN, INF)),
    ("aten.minimum.default", (exactly(NAN, 0, -INF), exactly(0, NAN, 1)), (NAN, NAN, -INF)),
    ("aten.clamp.default", (exactly(NAN, INF, -INF), -1.0, 1.0), (NAN, 1.0, -1.0)),
    ("aten.hardtanh.default", (exactly(NAN, INF, -INF),), (NAN, 1.0, -1.0)),
    ("aten.relu.default", (exactly(NAN, INF, -INF),), (NAN, INF, 0.0)),
    ("aten.exp.default", (exactly(NAN, INF, -INF, 1000.0),), (NAN, INF, 0.0, INF)),
    ("aten.tanh.default", (exactly(NAN, INF, -INF),), (NAN, 1.0, -1.0)),
    ("aten.sigmoid.default", (exactly(NAN, INF, -INF),), (NAN, 1.0, 0.0)),
    ("aten.elu.default", (exactly(NAN, INF, -INF),), (NAN, INF, -1.0)),
    ("aten.gelu.default", (exactly(NAN),), (NAN,)),
    ("aten.floor.default", (exactly(NAN, INF, -INF),), (NAN, INF, -INF)),
    ("aten.sin.default", (exactly(NAN, INF),), (NAN, NAN)),
    ("aten.pow.Tensor_Scalar", (exactly(0.0, NAN, INF), 0), (1.0, 1.0, 1.0)),
    ("aten.pow.Tensor_Scalar", (exactly(0.0, -0.0, NAN), 2), (0.0, 0.0, NAN)),
    ("aten.eq.Tensor", (exactly(NAN, NAN, INF), exactly(NAN, 1, INF)), (0, 0, 1)),
    ("aten.ne.Tensor", (exactly(NAN, 1), exactly(NAN, 1)), (1, 0)),
    ("aten.lt.Tensor", (exactly(NAN, 1, -INF), exactly(1, NAN, INF)), (0, 0, 1)),
    ("aten.ge.Tensor", (exactly(NAN, 1), exactly(1, NAN)), (0, 0)),
    ("aten.argmax.default", (exactly(3, 7, 7, 1), 0), (1,)),
    ("aten.isnan.default", (exactly(NAN, INF, 1),), (1, 0, 0)),
    ("aten.isinf.default", (exactly(NAN, -INF, 1),), (0, 1, 0)),
    ("aten._softmax.default", (exactly(NAN, 1, 2), -1, False), (NAN, NAN, NAN)),
    ("aten._softmax.default", (exactly(-INF, -INF), -1, False), (NAN, NAN)),
    ("aten.sum.dim_IntList", (exactly(INF, -INF, 1), [0]), (NAN,)),
    ("aten.amax.default", (exactly(INF, NAN, 1), [0]), (NAN,)),
    ("aten.mm.default", (Bounded(exactly(INF, 0).value[None]), Bounded(exactly(0, 1).value[:, None])), (NAN,)),
]


@pytest.mark.parametrize(("op", "args", "expected"), CLASSES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CLASSES)])
def test_classes_of_ieee_754(op: str, args: tuple[Any, ...], expected: tuple[float, ...]) -> None:
    """In real numbers, and with the roundings of floats: what is not finite is certain there, too."""
    assert alike(run(op, args)[0].value.flatten(), expected)
    (y,) = run_float32(op, args, {})
    special = ~torch.tensor(expected).isfinite()
    assert not bool(y.error.expand_as(y.value).flatten()[special].any())
    if not bool(torch.tensor(expected).eq(0).any() | torch.tensor(expected).eq(1).any()):
        assert alike(
            torch.where(special, y.value.flatten(), 0.0), tuple(e if not math.isfinite(e) else 0.0 for e in expected)
        )


def test_overflow_is_an_infinity() -> None:
    (y,) = run_float32("aten.mul.Tensor", (exactly(MOST, MOST, -MOST), exactly(2.0, 0.5, 4.0)), {})
    assert y.value.tolist() == [INF, MOST / 2, -INF]
    assert y.error[0] == y.error[2] == 0


@pytest.mark.parametrize("op", ["aten.hardswish.default", "aten.silu.default", "aten.mish.default"])
def test_what_torch_leaves_open_is_open(op: str) -> None:
    (y,) = run_float32(op, (exactly(-INF, INF, 1.0),), {})
    assert unknown(y).tolist() == [True, False, False]
    assert y.value[1] == INF


def test_gelu_leaves_both_infinities_open() -> None:
    """torch's own float32 kernel makes NaN of +inf, where its float64 and float16 ones make inf."""
    (y,) = run_float32("aten.gelu.default", (exactly(-INF, INF, 1.0),), {})
    assert unknown(y).tolist() == [True, True, False]


def test_the_rest_of_a_row_with_an_infinity_is_open() -> None:
    (y,) = run("aten._softmax.default", (exactly(INF, 1.0, -INF), -1, False))
    assert unknown(y).tolist() == [False, True, True]
    assert bool(y.value[0].isnan())


def test_operands_beside_inexact_ones_may_be_flushed_too() -> None:
    """A product of a number that is rounded and of one below the normal range: 2**100 * 2**-140 or 2**100 * 0."""
    rounded = Bounded(torch.tensor([2.0**100], dtype=torch.float64), torch.tensor([2.0**76], dtype=torch.float64))
    (y,) = run_float32("aten.mul.Tensor", (rounded, exactly(TINY)), {})
    assert y.value.item() == 2.0**100 * TINY and 2.0**100 * TINY <= y.error.item() < 2.0**101 * TINY


def test_operands_below_the_normal_range_may_be_flushed() -> None:
    (log,) = run_float32("aten.log.default", (exactly(TINY, -TINY, 1.0),), {})
    assert log.error.tolist()[0] == INF  # log(2**-140) or log(0)
    assert unknown(log).tolist() == [False, True, False]  # NaN, or log(-0)
    (quotient,) = run_float32("aten.div.Tensor", (exactly(0.0, 1.0), exactly(TINY, TINY)), {})
    assert unknown(quotient).tolist() == [True, False]  # 0 or 0 / 0
    assert quotient.value[1] == INF and quotient.error[1] == 0
    (up,) = run_float32("aten.ceil.default", (exactly(TINY),), {})
    assert 1 <= float(up.error) < 1.01


def test_a_class_is_compared_as_a_class() -> None:
    value = torch.tensor([NAN, INF, -INF, 1.0, 1.0, NAN], dtype=torch.float64)
    of = Bounded(value, torch.tensor([0, 0, 0, 0.1, INF, INF], dtype=torch.float64))
    assert other_class(torch.tensor([NAN, INF, -INF, 5.0, INF, 3.0]), of).tolist() == [False] * 6
    assert other_class(torch.tensor([1.0, -INF, 1e30, INF, NAN, INF]), of).tolist() == [True] * 5 + [False]


Y = Affine(0.5, 3, -128, 127)


def test_infinities_saturate_and_nan_is_any_code() -> None:
    codes = legal_codes(exactly(INF, -INF, NAN, 1.0), Y, 0.0)
    assert codes.nearest.tolist() == [127, -128, 3, 5]
    assert codes.low.tolist() == [127, -128, -128, 5]
    assert codes.high.tolist() == [127, -128, 127, 5]
    reals = quantised(exactly(INF, NAN), Y, 0.0)
    assert reals.value.tolist() == [62.0, 0.0]
    assert reals.error.tolist() == [0.0, 65.5]


def test_inputs_beyond_the_codes_saturate() -> None:
    value = Value("x", (5,), Quant(0.5, 3), Fill("reals", values=(INF, -INF, 1e30, TINY, 1.0)))
    assert materialise(value).tolist() == [127, -128, 127, 3, 5]
    (given,) = model_inputs(Graph((value,), (), (Ref("x"),)))
    assert given.tolist()[:3] == [INF, -INF, pytest.approx(1e30)]


def test_nan_is_not_the_same_as_zero() -> None:
    """Nor is an infinity the largest number, in what a runtime changed or answered twice."""
    assert same(torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0]))
    assert not same(torch.tensor([NAN, 1.0]), torch.tensor([0.0, 1.0]))
    assert not same(torch.tensor([NAN, INF]), torch.tensor([NAN, MOST]))


# ------------------------------------------------------------------------------------ gates

HALF = Graph(
    (Value("x", (4,), None, Fill("list", values=(NAN, INF, -INF, 2.0))),),
    (Step("subject", "aten.abs.default", (Ref("x"),)),),
    (Ref("subject"),),
)


@pytest.mark.parametrize("scheme", ["xnnpack_fp32", None])
def test_the_right_numbers_pass(scheme: str | None) -> None:
    right = torch.tensor([NAN, INF, INF, 2.0])
    assert all(result.passed for result in judge(golden(HALF), [right], scheme, delegated=scheme is not None))


@pytest.mark.parametrize(
    ("index", "number", "message"),
    [
        (0, 0.0, "out[0] = 0.0, expected nan; 1 of 4 elements"),
        (1, -INF, "out[1] = -inf, expected inf; 1 of 4 elements"),
        (2, MOST, f"out[2] = {MOST}, expected inf; 1 of 4 elements"),
        (3, NAN, "out[3] = nan, expected a finite number; 1 of 4 elements"),
    ],
)
def test_another_class_fails(index: int, number: float, message: str) -> None:
    wrong = torch.tensor([NAN, INF, INF, 2.0])
    wrong[index] = number
    *_, result = judge(golden(HALF), [wrong], "xnnpack_fp32")
    assert (result.gate, result.messages) == ("finite", (message,))


def test_a_wrong_number_beside_them_fails_the_gates() -> None:
    found = judge(golden(HALF), [torch.tensor([NAN, INF, INF, 2.25])], None, delegated=False)
    assert {"gate3", "gate4"} <= {result.gate for result in found if not result.passed}


# ------------------------------------------------------------------------------------ torch itself


def drafts(op: str, precision: str) -> Iterator[CaseDraft]:
    try:
        plain = drafts_of(op, precision)
    except KeyError:
        return
    yield from special_values(precision, plain)


@pytest.mark.parametrize("op", sorted(SINGLE | PAIRED | SUMMING))
def test_torch_computes_what_the_goldens_say(op: str) -> None:
    """Its kernels of float32 and float16 are another computation than the golden's in float64; ONNX is a third."""
    for precision in FLOATS:
        for draft in drafts(op, precision):
            result = module(draft.graph)(*model_inputs(draft.graph))
            found = judge(golden(draft.graph), list(result), None, delegated=False)
            assert [r.messages for r in found if not r.passed] == [], (precision, draft.variant)
            assert golden_failures(draft.graph) == []


# ------------------------------------------------------------------------------------ faults that nothing else sees

TABLE = load_table("xnnpack@1.5")


@cache
def of_row(row: str) -> tuple[Case, ...]:
    return tuple(c for c in cases_for(TABLE) if c.row == row and c.expect == "accept" and c.side == "value")


def failing(row: str) -> set[str]:
    return {c.id.removeprefix(f"{row}/") for c in of_row(row) if run_case(c, backend, TABLE).failures}


def giving_way(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """As a processor's own maximum and minimum: the second operand where one is NaN."""
    return lambda a, b: torch.where(a.isnan() | b.isnan(), b, function(a, b))


@pytest.mark.parametrize(
    ("row", "place", "name", "broken", "seen"),
    [
        ("aten.maximum.default", "BINARY", "Maximum", giving_way(torch.maximum), {"nan"}),
        ("aten.minimum.default", "BINARY", "Minimum", giving_way(torch.minimum), {"nan"}),
        (
            "aten.rsqrt.default",
            "UNARY",
            "ReciprocalSquareRoot",
            lambda x: torch.rsqrt(x).masked_fill(x == 0, NAN),
            {"nan", "infinities", "zeros_and_subnormals"},
        ),
        (
            "aten.sqrt.default",
            "UNARY",
            "SquareRoot",
            lambda x: torch.sqrt(x).masked_fill(x == INF, NAN),
            {"nan", "infinities"},
        ),
        ("aten.exp.default", "UNARY", "Exp", lambda x: activation.exp(x).nan_to_num(nan=0.0, posinf=INF), {"nan"}),
        (
            "aten.log.default",
            "UNARY",
            "Log",
            lambda x: activation.log(x).masked_fill(x > 2.0**127.5, INF),
            {"infinities"},
        ),
    ],
)
def test_only_the_new_cases_see_it(
    row: str,
    place: str,
    name: str,
    broken: Callable[..., Tensor],
    seen: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Faults of XNNPACK's own kernels: no other value of the row is NaN, infinite or zero where they show."""
    assert failing(row) == set()
    monkeypatch.setitem(getattr(elementwise, place), name, broken)
    found = failing(row)
    assert {variant.rpartition("/")[2] for variant in found} == seen
    assert {variant.partition("/")[0] for variant in found} <= set(FLOATS)


def test_a_relu_that_takes_nan_for_zero_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = operators.RULES["Clamp"]

    def clamp(site: DeviceSite) -> DeviceStep:
        kernel = right(site).kernel
        return DeviceStep(lambda x: kernel(x).nan_to_num(nan=0.0, posinf=INF) if x.is_floating_point() else kernel(x))

    monkeypatch.setitem(operators.RULES, "Clamp", clamp)
    assert failing("aten.relu.default") == {f"{p}/operator/value/nan" for p in FLOATS}
