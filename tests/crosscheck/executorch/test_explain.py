"""`assay explain` of ExecuTorch's own backend: its quantizer, and the operators that its partitioner wants whole."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")
pytest.importorskip("torchao", reason="ExecuTorch's XNNPACK backend needs it")
from torch import nn

import npu_assay


@pytest.mark.parametrize("quantized", [False, True])
def test_it_takes_what_ours_takes(quantized: bool) -> None:
    """A max pool, a linear layer: decomposed they are others, which it does not take or counts otherwise."""
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(288, 5))
    x = (torch.randn(1, 3, 14, 14),)
    program = torch.export.export(nn.Sequential(*layers).eval(), x)
    ours, theirs = npu_assay.explain(program, ["xnnpack", "executorch:xnnpack"], [x] if quantized else None).backends
    assert theirs.error == "" and theirs.quantized == quantized
    assert [one.operator for one in theirs.taken] == [one.operator for one in ours.taken]
    assert len(theirs.taken) == len(theirs.operators) and len(theirs.delegates) == 1
