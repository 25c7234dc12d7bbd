"""Programs of our EthosUQuantizer and of ExecuTorch's own get the same verdicts, from both partitioners.

A verdict says whether all operators of a program go to the NPU, some, or none. Where one differs, the model is listed
here with the reason; what is listed and does not differ, and what differs and is not listed, fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from places import ROOT

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_modules import SAMPLES
from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from npu_assay.partitioners.ethosu.support.common import is_qdq
from npu_assay.partitioners.exir import EdgeCompileConfig, to_edge
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from tests.crosscheck.executorch.ethosu_peer import PeerCompileSpec, our_answer, peer_answer
from tests.crosscheck.executorch.observing import whole_ranges

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see ethosu_peer
    from executorch.backends.arm.quantizer import EthosUQuantizer as PeerQuantizer
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config as peer_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
U55, U85 = "ethos-u55-128", "ethos-u85-256"
CALIBRATIONS = 2
calibrated_fast = pytest.fixture(autouse=True)(whole_ranges)
TITLE = "## Models that get other verdicts than with ExecuTorch 1.5.1's EthosUQuantizer"
ALL, SOME, NONE, FAILS = "all", "some", "none", "fails"
Verdicts = tuple[str, str, str, str]
"""Ours of our program, the real one's of ours, ours of the real program, the real one's of that."""

BY_TARGET = ("masked_fill", "masked_fill_inplace", "where_scalar")
"""Models that the quantizers treat differently for the two devices."""
_NAMES = (
    "sigmoid sqrt elu selu prelu glu logit batch_norm group_norm layer_norm softmax log_softmax relu6 leaky_relu "
    "mish instance_norm logsumexp topk fmod atan2 max_all roll unfold to_int32 pow_tensor prod sign pad_reflect "
    "adaptive_avg_pool2d nearest_2 nearest_3 bilinear_2 conv_transpose2d conv_transpose2d_grouped conv2d_stride4 "
    "conv2d_stride4_padded conv2d_hardtanh conv2d_norm_relu residual pixel_shuffle stack repeat_interleave "
    "slice_strided split full mean mean_all sum_all var norm cumsum max_dim matmul_4d attention rsub div_scalar "
    "remainder pow3 any eq where where_scalar masked_fill masked_fill_inplace gt baddbmm "
    "index_select_int64 index_int64 gather_int64 logical_and flip_1 flip_3 flip_12 permute_6 permute_7 "
    "div_floor div_trunc clamp_tensor conv3d avg_pool2d_batch avg_pool2d_padded max_pool2d_batch int32_add int32_and "
    "int32_to_float int8_argmax clone reshape linear_relu addmm add_alpha select_scatter acos ne"
)
PROBED = _NAMES.split()
"""Of every kind one or more; see `ethosu_modules`."""

_PIECES = (
    "1.5.1 observes the operator, of which the edge dialect makes several; "
    "our partitioner wants codes between any two, so our quantizer observes the pieces"
)
DIFFERENT: dict[tuple[str, str], tuple[Verdicts, str]] = {
    (name, target): (found, reason)
    for name, targets, found, reason in (
        ("relu6", (U55, U85), (ALL, ALL, NONE, NONE), "1.5.1 does not know relu6, which is a hardtanh"),
        ("stack", (U55, U85), (ALL, ALL, NONE, ALL), _PIECES),
        (
            "conv_transpose2d_grouped",
            (U55, U85),
            (ALL, ALL, FAILS, FAILS),
            "1.5.1 has per-channel scales within one group, which does not fit the bias; here they share one",
        ),
        (
            "addmm",
            (U55, U85),
            (ALL, ALL, FAILS, FAILS),
            "1.5.1 fails at its scalars 1 when the matrices are parameters",
        ),
        (
            "baddbmm",
            (U55, U85),
            (ALL, ALL, NONE, NONE),
            "1.5.1 does not decompose it before its observers; here it is a product and a sum",
        ),
        ("select_scatter", (U55,), (ALL, ALL, SOME, SOME), "1.5.1 makes it a choice by a mask, which the U55 lacks"),
        ("where_scalar", (U85,), (ALL, ALL, SOME, SOME), "1.5.1 leaves the number in `where` as it is"),
        (
            "int32_to_float",
            (U85,),
            (NONE, ALL, NONE, ALL),
            "RESCALE gives no int32 with a scale, so our partitioner takes codes of int8 and int16 only",
        ),
    )
    for target in targets
}
"""By model and target: what the verdicts are, and why they differ."""


@cache
def edge_program(make: Callable[[str], Any], name: str, target: str) -> ExportedProgram | None:
    """The edge program of a sample through PT2E; None where a quantizer or an exporter fails."""
    sample = SAMPLES[name]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(sample.model(name), sample.inputs(0))
        try:
            prepared = prepare_pt2e(exported.module(check_guards=False), make(target))
            for seed in range(CALIBRATIONS):
                prepared(*sample.inputs(seed))
            program = torch.export.export(convert_pt2e(prepared), sample.inputs(0))
        except Exception as error:  # noqa: BLE001  # of whatever kind, it is what a user of that quantizer gets
            print(f"{make.__name__} {name}: {type(error).__name__}: {error}")
            return None
    whole, _ = EthosUPartitioner(EthosUCompileSpec(target)).ops_to_not_decompose(program)
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=whole)
    return to_edge(program, compile_config=config).exported_program()


def ours(target: str) -> Any:
    return EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())


def theirs(target: str) -> Any:
    return PeerQuantizer(PeerCompileSpec(target)).set_global(peer_config())


def verdicts(make: Callable[[str], Any], name: str, target: str) -> tuple[str, str]:
    """Our partitioner's and the real one's of one quantizer's program."""
    program = edge_program(make, name, target if name in BY_TARGET else U85)
    if program is None:
        return FAILS, FAILS
    operators = [
        node.name
        for node in program.graph.nodes
        if node.op == "call_function" and not is_qdq(node) and target_name(node.target) != GETITEM
    ]
    return _verdict(operators, our_answer(program, target).tags), _verdict(operators, peer_answer(program, target).tags)


def _verdict(operators: list[str], tags: Mapping[str, str]) -> str:
    tagged = sum(name in tags for name in operators)
    return ALL if tagged == len(operators) else SOME if tagged else NONE


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", PROBED)
def test_verdicts_are_the_same(name: str) -> None:
    for target in (U55, U85):
        found = (*verdicts(ours, name, target), *verdicts(theirs, name, target))
        listed = DIFFERENT.get((name, target))
        if listed is None:
            assert len(set(found)) == 1, (target, found)
        else:
            assert found == listed[0], target
            assert len(set(found)) > 1


def test_the_decisions_are_the_list() -> None:
    """One line each in docs/decisions.md, word for word."""
    lines = (ROOT / "docs/decisions.md").read_text().splitlines()
    section = lines[lines.index(TITLE) + 1 :]
    stop = next((index for index, line in enumerate(section) if line.startswith("#")), len(section))
    stated = [line for line in section[:stop] if line.startswith("- ")]
    assert stated == list(dict.fromkeys(f"- `{name}`: {reason}." for (name, _), (_, reason) in DIFFERENT.items()))


def test_what_is_listed_is_probed() -> None:
    assert {name for name, _ in DIFFERENT} <= set(PROBED)
    assert set(PROBED) <= set(SAMPLES)
