"""The second golden: it agrees with torch in float64 on every row and spelling, and it can disagree."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.families import BASELINES, baseline
from npu_assay.conformance.judge.second_golden import disagreements
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import load_table
from npu_assay.reference import onnx_golden
from npu_assay.reference.golden import Bounded, canonical, run
from npu_assay.reference.operators import HOMES


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


IMAGE = numbers(2, 4, 6, 6)

# Spellings that the rows' plain cases do not have.
VARIANTS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.add.Tensor", (IMAGE, numbers(4, 1, 1)), {"alpha": -2}),
    ("aten.sub.Tensor", (IMAGE, numbers(6)), {"alpha": 3}),
    ("aten.mul.Tensor", (IMAGE, 2.5), {}),
    ("aten.div.Tensor", (IMAGE, numbers(6)), {}),
    ("aten.addmm.default", (numbers(5), numbers(3, 7), numbers(7, 5)), {"alpha": 0.5, "beta": -2}),
    ("aten.linear.default", (numbers(3, 7), numbers(5, 7)), {}),
    ("aten.linear.default", (IMAGE, numbers(5, 6)), {}),
    ("aten.linear.default", (IMAGE, numbers(5, 6), numbers(5)), {}),
    ("aten.convolution.default", (IMAGE, numbers(4, 1, 3, 2), None, [2], [1, 0], [1, 2], False, [0], 4), {}),
    ("aten.convolution.default", (IMAGE, numbers(4, 5, 3, 2), None, [2, 1], [1, 0], [1, 1], True, [1, 0], 1), {}),
    ("aten.convolution.default", (numbers(1, 4, 9), numbers(2, 4, 3), numbers(2), [2], [1], [1], False, [0], 1), {}),
    ("aten.conv1d.default", (numbers(1, 4, 9), numbers(2, 4, 3)), {"padding": 1}),
    ("aten.conv2d.default", (IMAGE, numbers(3, 4, 1, 1)), {}),
    ("aten.avg_pool1d.default", (numbers(1, 4, 9), 2), {}),
    ("aten.avg_pool2d.default", (IMAGE, [3], [], 1), {}),
    ("aten.avg_pool2d.default", (IMAGE, 3, 2, 1, False, False), {}),
    ("aten.avg_pool2d.default", (IMAGE, [3, 2], [2, 3], [1, 0]), {"ceil_mode": True, "count_include_pad": False}),
    ("aten.max_pool1d.default", (numbers(1, 4, 9), [3], [2], [1], [2]), {}),
    ("aten.max_pool2d.default", (IMAGE, [3, 2], [], [1, 1], 2), {}),
    ("aten.max_pool2d_with_indices.default", (IMAGE, [3], [2], [1]), {"ceil_mode": True}),
    ("aten._adaptive_avg_pool2d.default", (IMAGE, [3, 2]), {}),
    ("aten.mean.dim", (IMAGE, 1), {"dtype": torch.float32}),
    ("aten.mean.dim", (IMAGE, None), {"keepdim": True}),
    ("aten.clamp.default", (IMAGE, None, 0.5), {}),
    ("aten.hardtanh.default", (IMAGE,), {}),
    ("aten.hardtanh.default", (IMAGE, 0.0, float("inf")), {}),
    ("aten.relu6.default", (IMAGE * 5,), {}),
    ("aten.leaky_relu.default", (IMAGE,), {}),
    ("aten.leaky_relu.default", (IMAGE, -0.3), {}),
    ("aten.prelu.default", (IMAGE, numbers(1)), {}),
    ("aten._softmax.default", (IMAGE, -3, False), {}),
    ("aten.cat.default", ((IMAGE, IMAGE, IMAGE), -2), {}),
    ("aten.constant_pad_nd.default", (IMAGE, [1, 2, 0, 3], 1.5), {}),
    ("aten.constant_pad_nd.default", (numbers(3, 4), [0, 2]), {}),
    ("aten.constant_pad_nd.default", (IMAGE, [1, -1, -2, 0], 0.5), {}),
    ("aten.permute_copy.default", (IMAGE, (-1, 0, 2, 1)), {}),
    ("aten.slice_copy.Tensor", (IMAGE,), {}),
    ("aten.slice_copy.Tensor", (IMAGE, -1, -4, 100, 2), {}),
    ("aten.split.Tensor", (IMAGE, 4, -1), {}),
    ("aten.squeeze.dim", (numbers(3, 1, 2), 0), {}),
    ("aten.squeeze.dims", (numbers(1, 1, 2), (-2, 2)), {}),
    ("aten.unsqueeze.default", (IMAGE, -1), {}),
    ("aten.view_copy.default", (IMAGE, (-1, 6)), {}),
    ("aten.reshape.default", (IMAGE, (3, -1)), {}),
    ("aten.upsample_bilinear2d.vec", (IMAGE, [12, 24], True, None), {}),
    ("aten.upsample_bilinear2d.vec", (IMAGE, None, False, (4.0, 2.0)), {}),
    ("aten.upsample_nearest2d.vec", (IMAGE, [9, 12], None), {}),
    ("aten.ceil.default", (IMAGE,), {}),
    ("aten.cos.default", (IMAGE,), {}),
    ("aten.elu.default", (IMAGE,), {}),
    ("aten.elu.default", (IMAGE, 2.5), {}),
    ("aten.elu.default", (IMAGE, 1.0, 2.0), {}),
    ("aten.exp.default", (IMAGE,), {}),
    ("aten.floor.default", (IMAGE,), {}),
    ("aten.gelu.default", (IMAGE,), {"approximate": "tanh"}),
    ("aten.hardswish.default", (IMAGE * 3,), {}),
    ("aten.log.default", (IMAGE.abs(),), {}),
    ("aten.maximum.default", (IMAGE, numbers(6)), {}),
    ("aten.minimum.default", (IMAGE, numbers(4, 1, 1)), {}),
    ("aten.pow.Tensor_Scalar", (IMAGE, 2), {}),
    ("aten.pow.Tensor_Scalar", (IMAGE.abs(), 0.5), {}),
    ("aten.rsqrt.default", (IMAGE.abs(),), {}),
    ("aten.sin.default", (IMAGE,), {}),
    ("aten.sqrt.default", (IMAGE.abs(),), {}),
    ("dim_order_ops._to_dim_order_copy.default", (IMAGE,), {"dim_order": [0, 1, 2, 3]}),
]


def outputs_of(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    def bounded(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return tuple(bounded(item) for item in argument)
        return Bounded(argument) if isinstance(argument, Tensor) else argument

    return [y.value for y in run(op, bounded(args), kwargs)]


@pytest.mark.parametrize("row", BASELINES)
def test_both_goldens_agree_on_every_row(row: str) -> None:
    assert disagreements(baseline(row)) == ()


XNNPACK = [case for case in cases_for(load_table("xnnpack@1.5")) if case.id.endswith("/operator/accept/baseline")]
FORMS = {name for name, own in HOMES.items() if own.onnx}
CONVERSIONS = {
    "quantized_decomposed.dequantize_per_tensor.default",
    "quantized_decomposed.quantize_per_tensor.default",
}


@pytest.mark.parametrize("case", XNNPACK, ids=lambda case: f"{case.row}-{case.precision}")
def test_both_goldens_agree_on_every_row_of_another_table(case: Case) -> None:
    assert disagreements(case.graph) == ()
    assert canonical(case.graph.steps[-1].op) in FORMS | CONVERSIONS


@pytest.mark.parametrize(("op", "args", "kwargs"), VARIANTS, ids=[f"{i}-{v[0]}" for i, v in enumerate(VARIANTS)])
def test_both_goldens_agree_on_every_spelling(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    outputs = outputs_of(op, args, kwargs)
    assert onnx_golden.run(op, args, kwargs) is not None
    assert onnx_golden.disagreement(op, args, outputs, kwargs) is None


@pytest.mark.parametrize(("op", "args", "kwargs"), VARIANTS, ids=[f"{i}-{v[0]}" for i, v in enumerate(VARIANTS)])
def test_a_wrong_golden_is_named(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    wrong = outputs_of(op, args, kwargs)[0].clone()
    wrong.flatten()[-1] += 1e-6
    message = onnx_golden.disagreement(op, args, [wrong], kwargs)
    assert message is not None and f" at {wrong.numel() - 1}, onnx.reference " in message


def test_a_wrong_shape_is_named() -> None:
    message = onnx_golden.disagreement("aten.relu.default", (IMAGE,), [IMAGE[:1]])
    assert message == "aten.relu.default: golden output 0 has shape [1, 4, 6, 6], onnx.reference [2, 4, 6, 6]"


def test_every_row_has_an_onnx_operator() -> None:
    operators = {canonical(baseline(row).steps[-1].op) for row in BASELINES}
    assert operators <= FORMS


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten._adaptive_avg_pool2d.default", (IMAGE, [4, 4])),
        ("aten.avg_pool2d.default", (IMAGE, 2, 2, 0, False, True, 3)),
        ("aten.log1p.default", (IMAGE.abs(),)),
        ("aten.elu.default", (IMAGE, 0.1)),
        ("aten.elu.default", (IMAGE, 1.0, 1.0, 2.0)),
        ("aten.gelu.default", (IMAGE,)),
    ],
)
def test_what_onnx_has_not_is_none(op: str, args: tuple[Any, ...]) -> None:
    assert onnx_golden.run(op, args) is None
    assert onnx_golden.disagreement(op, args, [IMAGE]) is None


def test_windows_far_behind_the_padding_have_no_second_opinion() -> None:
    """onnx.reference counts places that torch does not: then torch itself would be called wrong."""
    line, behind = torch.arange(8.0, dtype=torch.float64).reshape(1, 1, 1, 8), {"ceil_mode": True}
    for kernel, stride, known in ((3, 2, True), (5, 3, True), (2, 4, True), (5, 5, False), (7, 4, False)):
        args = (line, [1, kernel], [1, stride])
        pooled = torch.nn.functional.avg_pool2d(*args, ceil_mode=True)
        assert (onnx_golden.run("aten.avg_pool2d.default", args, behind) is not None) == known
        assert onnx_golden.disagreement("aten.avg_pool2d.default", args, [pooled], behind) is None


def test_constants_that_onnx_rounds_to_float32_have_no_second_opinion() -> None:
    """Gemm keeps alpha and beta in float32: then the golden itself would be called wrong."""
    args = (numbers(5), numbers(3, 7), numbers(7, 5))
    for alpha, known in ((0.5, True), (0.1, False)):
        assert (onnx_golden.run("aten.addmm.default", args, {"alpha": alpha}) is not None) == known
