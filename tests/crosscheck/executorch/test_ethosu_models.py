"""Random models through our EthosUQuantizer and through ExecuTorch's own: both partitioners tag each program alike."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_models import DRAWN, MOST, RandomModel, random_model
from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner
from npu_assay.partitioners.ethosu.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from npu_assay.partitioners.exir import EdgeCompileConfig, to_edge
from tests.crosscheck.executorch.ethosu_differences import LISTED
from tests.crosscheck.executorch.ethosu_peer import PeerCompileSpec, compare
from tests.crosscheck.executorch.observing import whole_ranges

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see ethosu_peer
    from executorch.backends.arm.quantizer import EthosUQuantizer as PeerQuantizer
    from executorch.backends.arm.quantizer import get_symmetric_a16w8_quantization_config as peer_wide
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config as peer_narrow
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

RANDOM = 1000
CHUNK = 25
calibrated_fast = pytest.fixture(autouse=True)(whole_ranges)


def ours(model: RandomModel) -> Any:
    config = get_symmetric_a16w8_quantization_config() if model.wide else get_symmetric_quantization_config()
    return EthosUQuantizer(EthosUCompileSpec(model.target)).set_global(config)


def theirs(model: RandomModel) -> Any:
    return PeerQuantizer(PeerCompileSpec(model.target)).set_global(peer_wide() if model.wide else peer_narrow())


def edge_program(model: RandomModel, exported: ExportedProgram, quantizer: Any) -> ExportedProgram:
    """Through PT2E, and into the edge dialect."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
        prepared(*model.inputs)
        program = torch.export.export(convert_pt2e(prepared), model.inputs)
    whole, _ = EthosUPartitioner(EthosUCompileSpec(model.target)).ops_to_not_decompose(program)
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=whole)
    return to_edge(program, compile_config=config).exported_program()


@pytest.mark.long
@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", range(0, RANDOM, CHUNK))
def test_random_models_are_tagged_alike(first: int) -> None:
    left = {}
    for seed in range(first, first + CHUNK):
        model = random_model(seed)
        exported = torch.export.export(model.model, model.inputs)
        for make in (ours, theirs):
            program = edge_program(model, exported, make(model))
            left[seed, make.__name__] = compare(program, model.target, LISTED).left
    assert {found: nodes for found, nodes in left.items() if nodes} == {}


@pytest.mark.slow
def test_random_models_are_of_every_kind() -> None:
    drawn = [random_model(seed) for seed in range(RANDOM)]
    assert {name for model in drawn for name in model.names} == set(DRAWN)
    assert len({(model.target, model.wide, len(model.names)) for model in drawn}) == 2 * 2 * MOST
