"""Layers of attention behind our EthosUQuantizer are delegated as behind ExecuTorch's, each by its own partitioner."""

from __future__ import annotations

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

from ethosu_attention import ATTENTION, attention

from tests.crosscheck.executorch.ethosu_delegates import ours, theirs

ADDED_BY_BADDBMM = ("with_weights_masked", "batch_first_with_weights_masked")
"""1.5.1 does not decompose `baddbmm` in front of its observers, and leaves 2 operators outside, between 2 delegates."""


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", ATTENTION)
def test_nothing_outside_and_as_few_delegates(name: str, target: str) -> None:
    found, wanted = ours(attention(name), target), theirs(attention(name), target)
    assert found[1:] == (0, 1)
    if name in ADDED_BY_BADDBMM:
        assert wanted[1] > 0
    else:
        assert found[1:] == wanted[1:]
