"""What goldens leave open, as torch and kernels differ there: and nothing beside it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.judge.float_golden import walk
from npu_assay.conformance.judge.second_golden import golden_failures
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.reference import golden, integer
from npu_assay.reference.golden import Bounded, GoldenError
from npu_assay.reference.golden.special import other_class, unknown
from npu_assay.reference.integer import QTensor

BILINEAR, CONVOLUTION = "aten.upsample_bilinear2d.vec", "aten.convolution.default"
INF, NAN = math.inf, math.nan
Q = Quant(0.05, 3)


def seeded(*shape: int, seed: int = 1) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 4 - 2


def graph(op: str, *args: Any, values: tuple[Value, ...], **more: Any) -> Graph:
    return Graph(values, (Step("subject", op, args, **more),), (Ref("subject"),))


def interpolated(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Between corners, with every weight written out, also those that are 0."""
    rows, columns = (torch.linspace(0, n - 1, m, dtype=x.dtype) for n, m in zip(x.shape[-2:], size, strict=True))
    (top, left), (bottom, right) = (
        tuple((p.floor().long() + more).clamp_max(n - 1) for p, n in zip((rows, columns), x.shape[-2:], strict=True))
        for more in (0, 1)
    )
    down, along = (rows - rows.floor()).reshape(-1, 1), columns - columns.floor()
    above, below = (x[..., at, :][..., left] * (1 - along) + x[..., at, :][..., right] * along for at in (top, bottom))
    return above * (1 - down) + below * down


@pytest.mark.parametrize("special", [INF, -INF, NAN])
@pytest.mark.parametrize("size", [(4, 5), (7, 9), (4, 9), (10, 13), (1, 1)])
def test_pixels_of_weight_zero_may_count_or_not(special: float, size: tuple[int, int]) -> None:
    x = seeded(1, 2, 4, 5)
    x[0, 0, 1, 2] = special
    (found,) = golden.run_float32(BILINEAR, (Bounded(x), list(size), True, None), {})
    assert not bool(other_class(interpolated(x, size), found).any())
    assert not bool(
        other_class(torch.ops.aten.upsample_bilinear2d.vec(x, list(size), True, None).double(), found).any()
    )
    assert not bool(unknown(found)[0, 1].any())
    if size != (1, 1):
        assert not bool(unknown(found)[0, 0, :, -1].any()) and bool(unknown(found)[0, 0].any())


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("size", [(9, 13), (3, 2), (8, 5)])
def test_bytes_are_rounded_along_each_axis(channels: int, corners: bool, size: tuple[int, int]) -> None:
    x = torch.randint(0, 256, (2, channels, 5, 4), generator=torch.Generator().manual_seed(7), dtype=torch.uint8)
    expected = torch.ops.aten.upsample_bilinear2d.vec(x, list(size), corners, None).double()
    (found,) = golden.run_whole(BILINEAR, (Bounded(x.double()), list(size), corners, None), {}, torch.uint8)
    assert bool(((expected - found.value).abs() <= found.spread()).all())
    assert not bool(((expected + 3 - found.value).abs() <= found.spread()).any())


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_infinite_weights_may_meet_what_lies_between_numbers(groups: int, stride: int, pad: int) -> None:
    x, w = seeded(1, 4, 5), seeded(4, 3, 3, seed=2)
    w[1, 2, 0] = INF
    options = ([stride], [pad], [1], True, [0], groups)
    (found,) = golden.run(CONVOLUTION, (Bounded(x), Bounded(w), None, *options), {})
    wide = torch.zeros(1, 4, 4 * stride + 1, dtype=x.dtype)
    wide[..., ::stride] = x
    wide = torch.nn.functional.pad(wide, (2, 2))
    turned = torch.cat([part.transpose(0, 1).flip(2) for part in w.chunk(groups)])
    zeros = torch.nn.functional.conv1d(wide, turned, groups=groups)[..., pad : wide.shape[-1] - 2 - pad]
    for one in (zeros, torch.ops.aten.convolution.default(x, w, None, *options)):
        assert not bool(other_class(one, found).any())
    assert not bool(unknown(found)[:, :2].any())


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 4])
def test_a_kernel_that_is_spread_makes_no_nan_of_infinities(groups: int, dilation: int) -> None:
    x = Value("x", (1, 4, 9), None, Fill("list", values=(INF, 0.5, -INF, -0.75, 1.0)))
    w = Value("w", (4, 4 // groups, 3), None, constant=True)
    args = (Ref("x"), Ref("w"), None, (1,), (0,), (dilation,), False, (0,), groups)
    assert golden_failures(graph(CONVOLUTION, *args, values=(x, w))) == []


ROWS = [(INF, 1.0, 2.0), (-INF, INF, 0.5), (NAN, 1.0, 0.0), (3e38, -3e38, 1.0)]


@pytest.mark.parametrize("bias", [None, torch.tensor([INF, NAN, 1.0, 0.0])])
@pytest.mark.parametrize("row", ROWS)
def test_no_codes_stand_for_a_range_that_is_not_finite(row: tuple[float, ...], bias: Tensor | None) -> None:
    x, weight = seeded(3, 3).float(), QTensor(torch.arange(12, dtype=torch.int8).reshape(4, 3) - 5, (0.1,) * 4, 0, 0)
    (alone,) = integer.run_dynamic("aten.linear.default", (x, weight, bias), {})
    x[1] = torch.tensor(row)
    (found,) = integer.run_dynamic("aten.linear.default", (x, weight, bias), {})
    assert isinstance(found, Bounded) and bool(unknown(found)[1].all()) and not bool(unknown(found)[::2].any())
    assert isinstance(alone, Tensor) and torch.equal(found.value[::2].nan_to_num(), alone[::2].double().nan_to_num())
    for chosen in (golden.chosen_at_run_time, golden.codes_at_run_time):
        open_ = unknown(chosen(Bounded(x.double()), (1,)))
        assert bool(open_[1].all()) and not bool(open_[::2].any())


@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 3, 5)])
def test_an_image_without_a_finite_range_leaves_the_others_known(sizes: tuple[int, ...]) -> None:
    x, weight = seeded(*sizes).float(), QTensor(torch.ones(2, 3, 2, dtype=torch.int8), (0.1, 0.2), 0, 0)
    x[0, 1, 2] = NAN
    (found,) = integer.run_dynamic(CONVOLUTION, (x, weight, None, (1,), (0,), (1,), False, (0,), 1), {})
    assert isinstance(found, Bounded) and bool(unknown(found)[0].all()) and not bool(unknown(found)[1:].any())


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("scheme", ["xnnpack_fp32", "tosa_single_round", None])
def test_scales_along_any_axis_of_a_transposed_convolution_have_a_bound(
    scheme: str | None, axis: int, groups: int
) -> None:
    w = Value("w", (4, 3, 2), Quant((0.01, 0.02, 0.03, 0.04)[: 4 - axis], 0, -127, axis=axis), constant=True)
    values = (Value("x", (1, 4, 6), Q), w, Value("b", (3 * groups,), None, constant=True))
    args = (Ref("x"), Ref("w"), Ref("b"), (1,), (0,), (1,), True, (0,), groups)
    (found,) = walk(graph(CONVOLUTION, *args, values=values, quant=Q), scheme, True).bounded
    assert bool(found.spread().isfinite().all())


@pytest.mark.parametrize("value", [0, 1, 2, 256, -1])
def test_a_bool_is_whether_a_number_is_not_zero(value: int) -> None:
    x = torch.tensor([True, False])
    pad = golden.run_whole("aten.constant_pad_nd.default", (Bounded(x.double()), [1, 1], value), {}, torch.bool)
    assert torch.equal(pad[0].value, torch.constant_pad_nd(x, [1, 1], value).double())
    both = golden.run_whole("aten.add.Tensor", (Bounded(x.double()), Bounded(torch.ones(2).double())), {}, torch.bool)
    assert torch.equal(both[0].value, (x + torch.ones(2, dtype=torch.bool)).double())


@pytest.mark.parametrize("args", [(0.1, 3), (2.0**-126, 127), (NAN, 0)])
def test_nan_may_become_any_code(args: tuple[float, int]) -> None:
    x = Value("x", (6,), None, Fill("list", values=(NAN, 0.5, -INF)))
    quantize = "quantized_decomposed.quantize_per_tensor.default"
    made = graph(quantize, Ref("x"), *args, -128, 127, "int8", values=(x,))
    (found,) = walk(made, None, False).bounded
    assert unknown(found).tolist() == ([True] * 6 if math.isnan(args[0]) else [True, False, False] * 2)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (), (2,), (4, 3)])
@pytest.mark.parametrize("dynamic", [(0,), (1,), (0, 1), (3,)])
def test_what_is_not_there_is_not_open(shape: tuple[int, ...], dynamic: tuple[int, ...]) -> None:
    made = graph("aten.relu.default", Ref("x"), values=(Value("x", shape, None, dynamic=dynamic),))
    (x,) = (node.meta["val"] for node in build(made).graph.nodes if node.name == "x")
    there = [axis for axis in dynamic if axis < len(shape) and shape[axis]]
    assert [axis for axis, size in enumerate(x.shape) if not isinstance(size, int)] == there


GROUPED = Quant((0.1,) * 4, 0, -8, 7, axis=0, group=32)
W = Value("w", (4, 32), GROUPED, constant=True)
REFUSED = {
    "a range of nothing": graph(
        "aten.linear.default", Ref("x"), Ref("w"), values=(Value("x", (0, 32), None), W), dynamic="per_tensor"
    ),
    "scales per group of an input": graph(
        "aten.linear.default",
        Ref("x"),
        Ref("w"),
        values=(Value("x", (1, 32), None), Value("w", (4, 32), GROUPED)),
        dynamic="per_tensor",
    ),
    "an order of other dimensions": graph(
        "dim_order_ops._to_dim_order_copy.default",
        Ref("x"),
        values=(Value("x", (2, 3), None),),
        kwargs=(("dim_order", (0, 1, 2)),),
    ),
    "an order of other dimensions for a clone": graph(
        "dim_order_ops._clone_dim_order.default",
        Ref("x"),
        values=(Value("x", (2, 3), None),),
        kwargs=(("dim_order", (0, 0)),),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_has_no_golden(name: str) -> None:
    with pytest.raises(GoldenError):
        walk(REFUSED[name], None, False)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_the_mean_of_nothing_is_no_warning(shape: tuple[int, ...]) -> None:
    x = Value("x", shape, None)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert golden_failures(graph("aten.mean.dim", Ref("x"), (0, 1), True, values=(x,))) == []
    assert told == []


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("count", [True, False])
def test_averages_of_nan_are_not_compared(count: bool, pad: int) -> None:
    x = Value("x", (1, 2, 5, 7), None, Fill("list", values=(NAN, 0.5, -1.0, 2.0)))
    args = (Ref("x"), (3, 2), (2, 1), (pad, 0), False, count)
    assert golden_failures(graph("aten.avg_pool2d.default", *args, values=(x,))) == []
    assert bool(walk(graph("aten.avg_pool2d.default", *args, values=(x,)), None, False).bounded[0].value.isnan().any())
