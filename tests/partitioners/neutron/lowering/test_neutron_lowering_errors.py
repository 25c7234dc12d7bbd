"""Where scales begin and end that Neutron's compiler takes; what it refuses: `test_refusals.py`."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from npu_assay.partitioners.neutron import CompileError
from npu_assay.partitioners.neutron.lowering.quantization import stored_scale

LARGEST = (2 - 2.0**-23) * 2.0**127


@pytest.mark.parametrize(
    ("scale", "fits"), [(2.0**-126, True), (2.0**-127, False), (LARGEST, True), (2 * LARGEST, False)]
)
def test_stored_scales_are_normal_float32(scale: float, fits: bool) -> None:
    node = fx.Graph().call_function(torch.ops.aten.abs.default, ())
    if fits:
        assert stored_scale(node, scale) == scale
    else:
        with pytest.raises(CompileError, match="scale"):
            stored_scale(node, scale)
