"""Recurrent layers behind our EthosUQuantizer are delegated as behind ExecuTorch's, each by its own partitioner."""

from __future__ import annotations

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

from ethosu_recurrent import RECURRENT, recurrent

from tests.crosscheck.executorch.ethosu_delegates import ours, theirs

UNKNOWN = {
    "gru_cell": "1.5.1 has no decomposition of it, and delegates the zeros alone",
    "rnn_cell": "1.5.1 has no decomposition of it, and delegates the zeros alone",
    "rnn_cell_relu": "1.5.1 has no decomposition of it, and delegates the zeros alone",
    "lstm_projected": "1.5.1's decomposition ends with an error",
}
"""What 1.5.1 does not unroll, and ours does."""
STACKED = ("lstm_stacked", "gru_stacked", "rnn_stacked")
"""1.5.1 joins the sequence behind every layer, and takes it apart in front of the next."""


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", sorted(set(RECURRENT) - set(UNKNOWN)))
def test_as_many_nodes_and_delegates(name: str, target: str) -> None:
    found, wanted = ours(recurrent(name), target), theirs(recurrent(name), target)
    if name in STACKED:
        assert found[0] < wanted[0]
        found, wanted = (0, *found[1:]), (0, *wanted[1:])
    assert found == wanted
    assert found[1:] == (0, 1)


@pytest.mark.long
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_it_does_not_unroll(name: str) -> None:
    assert ours(recurrent(name), "ethos-u85-256")[1:] == (0, 1)
    if "error" in UNKNOWN[name]:
        with pytest.raises(Exception, match="DecomposeLstmPass"):
            theirs(recurrent(name), "ethos-u85-256")
    else:
        assert theirs(recurrent(name), "ethos-u85-256")[1] > 0
