"""What variations showed of goldens: operands without dimensions, uneven factors, ranges, steep slopes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from npu_assay.conformance.judge.float_golden import walk
from npu_assay.conformance.judge.integer_golden import exact_values
from npu_assay.conformance.judge.result_types import result_type
from npu_assay.conformance.judge.second_golden import golden_failures
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case, Graph, Quant, Ref, Step, Value
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.reference import golden, onnx_golden
from npu_assay.reference.golden import Bounded, GoldenError
from npu_assay.reference.golden.special import finite_part, other_class

INF = math.inf
NEAREST, BILINEAR = "aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec"


def plain(table: str) -> Iterator[Case]:
    for case in all_cases(load_table(table)):
        if case.side == "accept" and case.id.endswith("/baseline"):
            yield case


def scalars(graph: Graph) -> Graph:
    return replace(graph, values=tuple(replace(v, shape=()) for v in graph.values))


@pytest.mark.parametrize("table", ["neutron@1.4", "xnnpack@1.5", "ethos_u85@1.5"])
def test_goldens_take_operands_without_dimensions_or_say_that_they_do_not(table: str) -> None:
    scheme, seen = load_table(table).rescale, 0
    for case in plain(table):
        graph = scalars(case.graph)
        try:
            walk(graph, None, False)
        except (GoldenError, RuntimeError, IndexError, ValueError):  # no operator of such operands
            continue
        seen += 1
        exact_values(graph, scheme)
        assert golden_failures(graph) == [], case.id
    assert seen > 10


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("factor", [1.0, 1.0000019, 1.2, 2.0, 2.000001907348633, 2.1, 2.5, 4.000002, 0.5])
def test_the_goldens_read_the_nearest_pixel_where_torch_does(size: int, factor: float) -> None:
    x = torch.arange(2.0 * size).reshape(1, 1, 2, size)
    if int(size * factor) < 1:
        return
    expected = torch.ops.aten.upsample_nearest2d.vec(x, None, [2.0, factor]).double()
    (found,) = golden.run(NEAREST, (Bounded(x.double()), None, [2.0, factor]), {})
    assert torch.equal(found.value, expected)
    assert onnx_golden.disagreement(NEAREST, (x.double(), None, [2.0, factor]), [expected]) is None


def test_a_narrower_range_clamps_codes() -> None:
    x = Value("x", (256,), Quant(0.1), constant=False)
    step = Step("subject", "aten.clone.default", (Ref("x"),), (), Quant(0.1, 0, -20, 21))
    found = exact_values(Graph((x,), (step,), (Ref("subject"),))).codes[Ref("subject")].codes
    assert (int(found.min()), int(found.max())) == (-20, 21)


@pytest.mark.parametrize("input_scale", [-5.0, -1.0, -0.1, 0.5, 3.0])
@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_elu_is_bounded_where_it_grows(input_scale: float, alpha: float) -> None:
    x = torch.rand(2000, generator=torch.Generator().manual_seed(3)) * 8 - 4
    (bound,) = golden.run_float32("aten.elu.default", (Bounded(x.double()), alpha, 1, input_scale), {})
    found = torch.ops.aten.elu.default(x, alpha, 1, input_scale).double()
    assert bool(((found - bound.value).abs() <= bound.spread()).all())
    other = torch.ops.aten.elu.default(x * (1 + 2.0**-16), alpha, 1, input_scale).double()
    assert not bool(((other - bound.value).abs() <= bound.spread()).all())


@pytest.mark.parametrize("bias", [(5,), (1, 5), (1,)])
def test_a_bias_adds_no_dimension(bias: tuple[int, ...]) -> None:
    x, w, b = torch.rand(64), torch.rand(5, 64), torch.rand(bias)
    expected = torch.ops.aten.linear.default(x, w, b)
    (found,) = golden.run("aten.linear.default", tuple(Bounded(t.double()) for t in (x, w, b)), {})
    assert found.value.shape == expected.shape and torch.allclose(found.value, expected.double())


TYPES = (torch.bool, torch.int8, torch.int64, torch.float16, torch.float32, torch.float64)


@pytest.mark.parametrize("one", TYPES)
@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("shapes", [((), (2,)), ((2,), ()), ((), ()), ((2,), (1, 1))])
def test_types_join_as_torch_joins_them(one: torch.dtype, other: torch.dtype, shapes: Any) -> None:
    a, b = torch.ones(shapes[0], dtype=one), torch.ones(shapes[1], dtype=other)
    step = Step("subject", "aten.maximum.default", (Ref("a"), Ref("b")))
    assert result_type(step, [one, other], [a.dim(), b.dim()]) == torch.maximum(a, b).dtype


EXPONENTS = (
    -3,
    -2.0,
    -1,
    -0.5,
    -1e-38,
    0.0,
    1e-38,
    0.1,
    1 / 3,
    0.5,
    1,
    2,
    3,
    3.7,
    11,
    2**24 + 1,
    2**31 - 1,
    1e30,
    INF,
    -INF,
)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_powers_are_bounded_for_every_exponent(exponent: float, dtype: torch.dtype) -> None:
    x = torch.rand(2000, generator=torch.Generator().manual_seed(3)) * 8 - 4
    x = torch.cat([x, torch.tensor([0.0, -0.0, 1, -1, INF, -INF, math.nan, 1e4, -1e4, 2.0**-20])]).to(dtype)
    if dtype == torch.float16 and 65520 <= abs(exponent) < INF:  # torch refuses such an exponent
        with pytest.raises(GoldenError):
            golden.run_float("aten.pow.Tensor_Scalar", (Bounded(x.double()), exponent), {}, dtype)
        return
    found = torch.ops.aten.pow.Tensor_Scalar(x, exponent).double()
    (bound,) = golden.run_float("aten.pow.Tensor_Scalar", (Bounded(x.double()), exponent), {}, dtype)
    assert not bool(other_class(found, bound).any())
    known = finite_part(bound)
    assert bool(((found.masked_fill(~bound.value.isfinite(), 0.0) - known.value).abs() <= known.spread()).all())


@pytest.mark.parametrize("exponent", [-2, -0.5, 0.5, 2, 3, 3.7])
@pytest.mark.parametrize("off", [1e-3, 0.25])
def test_powers_of_a_range_hold_those_of_all_its_numbers(exponent: float, off: float) -> None:
    x, error = torch.linspace(-2, 2, 41, dtype=torch.float64), torch.full((41,), off, dtype=torch.float64)
    (bound,) = golden.run("aten.pow.Tensor_Scalar", (Bounded(x, error), exponent), {})
    reached = torch.zeros(41, dtype=torch.float64)
    for part in (*torch.linspace(-1, 1, 101, dtype=torch.float64), (-x / error).clamp(-1, 1)):
        found = (x + part * error).pow(exponent)
        apart = torch.where(found.isnan(), 0.0, (found - bound.value).abs().nan_to_num(0.0))
        assert bool((apart <= bound.spread() * (1 + 1e-12)).logical_or(bound.value.isnan()).all())
        reached = torch.maximum(reached, apart)
    tight = bound.value.isfinite() & bound.spread().isfinite()
    assert bool((reached[tight] >= bound.spread()[tight] * (1 - 1e-9)).all())


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("number", [2, True, 0.5])
@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_a_number_joins_the_type_of_its_tensor(name: str, number: float, dtype: str) -> None:
    op = f"aten.{name}.Tensor"
    x = Value("x", (2, 3), None, dtype=dtype)
    made = build(Graph((x,), (Step("subject", op, (Ref("x"), number)),), (Ref("subject"),)))
    expected = getattr(torch, name)(torch.ones(2, 3, dtype=getattr(torch, dtype)), number)
    (output,) = next(iter(made.graph.find_nodes(op="output"))).args[0]
    assert output.meta["val"].dtype == expected.dtype
    assert walk(Graph((x,), (Step("subject", op, (Ref("x"), number)),), (Ref("subject"),)), None, False).dtypes == (
        expected.dtype,
    )
