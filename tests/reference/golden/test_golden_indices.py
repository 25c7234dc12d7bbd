"""What random programs brought up in the float golden: indices, strides, tables of several numbers."""

from __future__ import annotations

import pytest
import torch

from npu_assay.conformance.judge.result_types import result_type
from npu_assay.conformance.programs.graph import Ref, Step
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.reference import golden
from npu_assay.reference.golden import Bounded, GoldenError
from npu_assay.reference.golden.error_bound_tosa import error_bound


def test_an_index_of_the_shape_of_the_numbers_is_no_mask() -> None:
    x, places = torch.arange(6.0, dtype=torch.float64).reshape(2, 3), torch.tensor([[2, 0, 1], [1, 1, 0]])
    (found,) = golden.run("aten.gather.default", (Bounded(x), 1, Bounded(places.to(torch.float64))), {})
    assert torch.equal(found.value, torch.gather(x, 1, places))


def test_numbers_that_are_looked_up_keep_their_type() -> None:
    step = Step("s", "aten.index.Tensor", (Ref("x"), (Ref("i"),)))
    assert result_type(step, [torch.uint8, torch.int32]) == torch.uint8


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("aten.hardtanh.default", (-1.0, 1.0), torch.int8),
        ("aten.constant_pad_nd.default", ([1, 1], 1.0), torch.int8),
        ("aten.clamp.default", (-1.0, 1.0), torch.float32),
    ],
)
def test_numbers_beside_integers(op: str, args: tuple[object, ...], expected: torch.dtype) -> None:
    assert result_type(Step("s", op, (Ref("x"), *args)), [torch.int8]) == expected
    assert edge_op(op)._op(torch.zeros(2, dtype=torch.int8), *args).dtype == expected


def test_what_is_quantised_at_run_time_is_float32_afterwards() -> None:
    """As a dequantize node gives it, whatever float type was quantized."""
    for op in ("aten.linear.default", "aten.convolution.default"):
        step = Step("s", op, (Ref("x"), Ref("w")), dynamic="per_tensor")
        assert result_type(step, [torch.bfloat16, torch.float32]) == torch.float32


def test_two_numbers_in_one_place_are_refused() -> None:
    x, v = (Bounded(torch.zeros(size, dtype=torch.float64)) for size in (3, 2))
    twice = [Bounded(torch.tensor([1.0, -2.0], dtype=torch.float64))]
    with pytest.raises(GoldenError, match="a place with more than one number"):
        golden.run("aten.index_put.default", (x, twice, v), {})
    (summed,) = golden.run("aten.index_put.default", (x, twice, v, True), {})
    assert torch.equal(summed.value, x.value)


def test_strides_are_those_of_dense_numbers() -> None:
    x = Bounded(torch.ones(1, dtype=torch.float64).expand(2, 3), torch.ones((), dtype=torch.float64))
    (found,) = golden.run("aten.as_strided_copy.default", (x, [2, 3], [3, 1]), {})
    assert torch.equal(found.value, torch.ones(2, 3)) and torch.equal(found.error, torch.ones(2, 3))


@pytest.mark.parametrize(("count", "counts"), [(1, True), (3, False)])
def test_there_is_no_table_for_several_numbers(count: int, counts: bool) -> None:
    x = Bounded(torch.linspace(-1, 1, 3, dtype=torch.float64), scale=2.0**-12)
    other = Bounded(torch.full((count,), 0.3, dtype=torch.float64), scale=2.0**-12)
    given = {"self": x, "other": other, "rounding_mode": "floor"}
    found = error_bound("aten.div.Tensor_mode", given, Bounded(torch.floor(x.value / 0.3)), 2.0**-8, wide=True)
    assert bool(torch.as_tensor(found).any()) == counts
