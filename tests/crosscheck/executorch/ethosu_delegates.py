"""How much of a model the quantizer and partitioner of either side delegate, and in how many delegates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from npu_assay.partitioners.ethosu.support.common import is_qdq
from npu_assay.partitioners.exir import EdgeCompileConfig, to_edge
from tests.crosscheck.executorch.ethosu_peer import PeerCompileSpec, our_answer, peer_answer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see ethosu_peer
    from executorch.backends.arm.quantizer import EthosUQuantizer as PeerQuantizer
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config as peer_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

Model = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
"""With its inputs."""
Counts = tuple[int, int, int]
"""Operators inside delegates, operators outside, delegates."""


def edge_program(model: Model, target: str, quantizer: Any) -> ExportedProgram:
    """A model through PT2E, calibrated with its inputs, in the edge dialect."""
    module, inputs = model
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(module, inputs).module(check_guards=False), quantizer)
        prepared(*inputs)
        program = torch.export.export(convert_pt2e(prepared), inputs)
    whole, _ = EthosUPartitioner(EthosUCompileSpec(target)).ops_to_not_decompose(program)
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=whole)
    return to_edge(program, compile_config=config).exported_program()


def counts(program: ExportedProgram, tags: Mapping[str, str]) -> Counts:
    """Of a program with these tags."""
    operators = [n.name for n in program.graph.nodes if n.op == "call_function" and not is_qdq(n)]
    inside = sum(name in tags for name in operators)
    return inside, len(operators) - inside, len(set(tags.values()))


def ours(model: Model, target: str) -> Counts:
    """By our quantizer and our partitioner."""
    quantizer = EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())
    program = edge_program(model, target, quantizer)
    return counts(program, our_answer(program, target).tags)


def theirs(model: Model, target: str) -> Counts:
    """By those of ExecuTorch."""
    program = edge_program(model, target, PeerQuantizer(PeerCompileSpec(target)).set_global(peer_config()))
    return counts(program, peer_answer(program, target).tags)
