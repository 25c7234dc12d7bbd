"""Max pools in the second golden against torch's kernel: what `onnx.reference` gets wrong is gone around."""

from __future__ import annotations

import random

import pytest
import torch

from npu_assay.reference import onnx_golden

SIDES = list(range(1, 6))


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_any_window_of_two_axes_is_torchs(stride: int) -> None:
    """Sides of a kernel, padding, dilation and ceil_mode, each drawn by itself."""
    draw, compared = random.Random(stride), 0
    for _ in range(150):
        kernel = draw.choices(SIDES, k=2)
        padding, dilation = [draw.randint(0, side // 2) for side in kernel], draw.choices((1, 2), k=2)
        x = torch.randn(1, 2, draw.randint(9, 12), draw.randint(9, 12), dtype=torch.float64)
        args = (x, kernel, [stride, draw.choice((1, stride))], padding, dilation, draw.random() < 0.5)
        expected = torch.ops.aten.max_pool2d.default(*args)
        assert onnx_golden.disagreement("aten.max_pool2d.default", args, [expected]) is None, args[1:]
        compared += onnx_golden.run("aten.max_pool2d.default", args) is not None
    assert compared == 150
