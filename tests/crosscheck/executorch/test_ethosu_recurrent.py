"""Recurrent layers behind our EthosUQuantizer are delegated as behind ExecuTorch's, each by its own partitioner."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from crosscheck.executorch.ethosu_peer import PeerCompileSpec, our_answer, peer_answer
from ethosu_recurrent import RECURRENT, recurrent
from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from npu_assay.partitioners.ethosu.support.common import is_qdq
from npu_assay.partitioners.exir import EdgeCompileConfig, to_edge

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see ethosu_peer
    from executorch.backends.arm.quantizer import EthosUQuantizer as PeerQuantizer
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config as peer_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

UNKNOWN = {
    "gru_cell": "1.5.1 has no decomposition of it, and delegates the zeros alone",
    "rnn_cell": "1.5.1 has no decomposition of it, and delegates the zeros alone",
    "rnn_cell_relu": "1.5.1 has no decomposition of it, and delegates the zeros alone",
    "lstm_projected": "1.5.1's decomposition ends with an error",
}
"""What 1.5.1 does not unroll, and ours does."""
STACKED = ("lstm_stacked", "gru_stacked", "rnn_stacked")
"""1.5.1 joins the sequence behind every layer, and takes it apart in front of the next."""
Counts = tuple[int, int, int]
"""Operators inside delegates, operators outside, delegates."""


def edge_program(name: str, target: str, quantizer: Any) -> ExportedProgram:
    model, inputs = recurrent(name)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(model, inputs).module(check_guards=False), quantizer)
        prepared(*inputs)
        program = torch.export.export(convert_pt2e(prepared), inputs)
    whole, _ = EthosUPartitioner(EthosUCompileSpec(target)).ops_to_not_decompose(program)
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=whole)
    return to_edge(program, compile_config=config).exported_program()


def counts(program: ExportedProgram, tags: Mapping[str, str]) -> Counts:
    operators = [n.name for n in program.graph.nodes if n.op == "call_function" and not is_qdq(n)]
    inside = sum(name in tags for name in operators)
    return inside, len(operators) - inside, len(set(tags.values()))


def ours(name: str, target: str) -> Counts:
    quantizer = EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())
    program = edge_program(name, target, quantizer)
    return counts(program, our_answer(program, target).tags)


def theirs(name: str, target: str) -> Counts:
    program = edge_program(name, target, PeerQuantizer(PeerCompileSpec(target)).set_global(peer_config()))
    return counts(program, peer_answer(program, target).tags)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", sorted(set(RECURRENT) - set(UNKNOWN)))
def test_as_many_nodes_and_delegates(name: str, target: str) -> None:
    found, wanted = ours(name, target), theirs(name, target)
    if name in STACKED:
        assert found[0] < wanted[0]
        found, wanted = (0, *found[1:]), (0, *wanted[1:])
    assert found == wanted
    assert found[1:] == (0, 1)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_it_does_not_unroll(name: str) -> None:
    assert ours(name, "ethos-u85-256")[1:] == (0, 1)
    if "error" in UNKNOWN[name]:
        with pytest.raises(Exception, match="DecomposeLstmPass"):
            theirs(name, "ethos-u85-256")
    else:
        assert theirs(name, "ethos-u85-256")[1] > 0
