"""The positions of a resize, against TensorFlow Lite's scale of 10 bits: (1024 (size - 1) + half) / (out - 1)."""

from __future__ import annotations

import pytest
import torch

from npu_assay.partitioners.common.int8 import resize


@pytest.mark.parametrize(("size", "out", "scale"), [(2, 4, 341), (3, 4, 683), (5, 8, 585), (2, 3, 512), (7, 5, 1536)])
def test_aligned_corners_have_rounded_steps(size: int, out: int, scale: int) -> None:
    low, high, part = resize._taps(size, out, align_corners=True, half_pixel=False)
    position = torch.arange(out) * scale
    assert (low * 1024 + part).tolist() == position.tolist()
    assert high.tolist() == [min(-(-int(p) // 1024), size - 1) for p in position]
