"""Our EthosUPartitioner tags what ExecuTorch's own does: programs made by hand, and random ones.

Nothing is compared loosely: same nodes, same tags, same numbers. Where the two differ on purpose, the operator is in
`ethosu_differences`, and the rest of the program must still agree.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from ethosu_graphs import U55, U85, WIDE, Builder
from ethosu_programs import random_program
from ethosu_wellformed import tiny_programs
from places import ROOT
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.ethosu.compile_spec import DebugMode, EthosUCompileSpec, VelaExternalBlockPlacements
from npu_assay.partitioners.ethosu.options import TARGETS
from npu_assay.partitioners.ethosu.partitioner import EthosUPartitioner
from npu_assay.partitioners.ethosu.support import rules
from npu_assay.partitioners.ethosu.support.common import ANY_DEQUANTIZE, ANY_QUANTIZE, EVERY_NODE
from npu_assay.partitioners.ethosu.support.rules import supported_operators
from npu_assay.partitioners.exir.ops import DEQUANTIZE, DEQUANTIZE_PER_TENSOR, GETITEM, QUANTIZE, target_name
from tests.crosscheck.executorch.agreement import Difference
from tests.crosscheck.executorch.ethosu_differences import LISTED
from tests.crosscheck.executorch.ethosu_examples import EXAMPLES
from tests.crosscheck.executorch.ethosu_peer import (
    Comparison,
    PeerCompileSpec,
    PeerPartitioner,
    compare,
    our_answer,
    peer_answer,
)

RANDOM = 1200
CHUNK = 100
OPERATORS = sorted(supported_operators(is_u55=False) - ANY_QUANTIZE - ANY_DEQUANTIZE - {GETITEM})
TITLE = "## Tags that are not those of ExecuTorch 1.5.1's EthosUPartitioner"


def program(write: Callable[[Builder], fx.Node | list[fx.Node]]) -> ExportedProgram:
    b = Builder()
    result = write(b)
    return b.program(*([result] if isinstance(result, fx.Node) else result))


def example(difference: Difference, listed: tuple[Difference, ...]) -> Comparison:
    if isinstance(difference.example, int):
        return compare(*random_program(difference.example), listed)
    target, write = EXAMPLES[difference.example]
    return compare(program(write), target, listed)


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, RANDOM, CHUNK))
def test_random_programs_are_tagged_alike(first: int) -> None:
    left = {seed: compare(*random_program(seed), LISTED).left for seed in range(first, first + CHUNK)}
    assert {seed: nodes for seed, nodes in left.items() if nodes} == {}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.sampled(12)
@pytest.mark.parametrize("operator", OPERATORS)
def test_programs_on_little_are_tagged_alike(operator: str) -> None:
    """Programs of one operator on scalars, lists and empty tensors."""
    programs = ((tiny, program) for tiny in tiny_programs(operator) if (program := tiny.program()) is not None)
    left = {
        f"{tiny} on {target}": compare(program, target, LISTED).left
        for tiny, program in programs
        for target in (U55, U85)
    }
    assert {one: nodes for one, nodes in left.items() if nodes} == {}


@pytest.mark.slow
def test_random_programs_are_of_every_kind() -> None:
    drawn = [random_program(seed) for seed in range(400)]
    names = {target_name(n.target) for p, _ in drawn for n in p.graph.nodes if n.op == "call_function"}
    assert {target for _, target in drawn} == {U55, U85}
    assert len(names & supported_operators(is_u55=False)) >= 90


@pytest.mark.sampled(8)
@pytest.mark.parametrize("difference", LISTED, ids=lambda difference: difference.name)
def test_what_is_listed_occurs(difference: Difference) -> None:
    """With the entry the example agrees; without it, it does not."""
    found = example(difference, LISTED)
    assert difference.name in found.shown and not found.left
    assert example(difference, tuple(one for one in LISTED if one is not difference)).left


def test_the_decisions_are_the_list() -> None:
    """One line each in docs/decisions.md, word for word."""
    lines = (ROOT / "docs/decisions.md").read_text().splitlines()
    section = lines[lines.index(TITLE) + 1 :]
    stop = next((index for index, line in enumerate(section) if line.startswith("#")), len(section))
    stated = [line for line in section[:stop] if line.startswith("- ")]
    assert stated == [f"- `{one.name}`: {one.reason}" for one in LISTED]


# ------------------------------------------------------------------------------------ made by hand


def chain(b: Builder) -> fx.Node:
    x = b.op("aten.add.Tensor", b.input(1, 8, 6, 6), b.input(1, 8, 6, 6))
    x = b.conv(x, b.channel_weight(8, 8, 3, 3), b.bias(8), None, padding=[1, 1])
    return b.op("aten.relu.default", x, q=(0.1, -128, -128, 127, torch.int8))


def cycle(b: Builder) -> list[fx.Node]:
    """Two branches around an operator that stays outside."""
    x = b.op("aten.abs.default", b.input(1, 8))
    outside = b.op("aten.sqrt.default", x)
    return [b.op("aten.add.Tensor", x, outside), b.op("aten.mul.Tensor", x, x)]


def nothing(b: Builder) -> fx.Node:
    return b.op("aten.view_copy.default", b.op("aten.alias_copy.default", b.input(2, 4)), [8])


def double(b: Builder) -> fx.Node:
    """Real numbers of 64 bits that nobody quantizes."""
    codes, *params = b.input(4).args
    return b.call("aten.gt.Scalar", b.call(DEQUANTIZE_PER_TENSOR, codes, *params, out_dtype=torch.float64), 0.5)


def unsigned(b: Builder) -> list[fx.Node]:
    return [
        b.call("aten.permute_copy.default", b.integers(2, 3, dtype=torch.uint8), [1, 0]),
        b.op("aten.abs.default", b.input(4)),
    ]


HAND: dict[str, Callable[[Builder], Any]] = {
    "chain": chain,
    "cycle": cycle,
    "nothing": nothing,
    "unsigned": unsigned,
    "double": double,
    "int16": lambda b: b.op("aten.mul.Tensor", b.input(1, 8, q=WIDE), b.input(1, 8, q=WIDE), q=WIDE),
    "two regions": lambda b: [b.op("aten.abs.default", b.input(4)), b.op("aten.neg.default", b.input(4))],
    "no operator": lambda b: b.input(4),
    "split": lambda b: [b.quantised(b.item(b.call("aten.split_copy.Tensor", b.input(6), 2), i)) for i in (2, 0)],
    "large stride": lambda b: b.op("aten.max_pool2d.default", b.input(1, 4, 15, 15), [5, 5], [5, 5]),
    "one sixteenth": lambda b: b.op("aten.upsample_bilinear2d.vec", b.input(1, 2, 32, 32), [2, 2], False, None),
    "scalar": lambda b: b.op("aten.add.Tensor", b.input(4), b.quantised(b.call("aten.scalar_tensor.default", 2.0))),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("target", [U55, "ethos-u65-512", U85])
@pytest.mark.parametrize("name", HAND)
def test_programs_made_by_hand_are_tagged_alike(name: str, target: str) -> None:
    found = program(HAND[name])
    assert our_answer(found, target).tags == peer_answer(found, target).tags


@pytest.mark.parametrize("code", ["quantized", "dtype"])
def test_a_missing_rule_shows(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all operators; those of single ones are dropped beside the cases."""
    monkeypatch.setattr(rules, "EVERY_NODE", tuple(rule for rule in EVERY_NODE if rule.code != code))
    programs = [(program(double), U85), *(random_program(seed) for seed in range(60))]
    assert any(compare(*one, LISTED).left for one in programs)


@pytest.mark.parametrize("is_u55", [True, False])
def test_the_operators_are_the_same(is_u55: bool) -> None:
    """Of what the real one accepts by name, and what it asks checks of its own."""
    from executorch.backends.arm.operator_support import tosa_profile_supported_op_lists as lists
    from executorch.backends.arm.operator_support.ethos_u55_support import EthosU55NotSupported
    from executorch.backends.arm.operator_support.tosa_supported_operators import get_registered_tosa_support_checks

    spec = PeerCompileSpec(U55 if is_u55 else U85).tosa_spec
    listed = {name(op) for op in lists.TOSA_PRO_INT_SupportList}
    checked = {name(op) for check in get_registered_tosa_support_checks(spec) for op in check.targets}
    denied = {name(op) for op in EthosU55NotSupported.unsupported_ops} if is_u55 else set[str]()
    known = {one for one in (listed | checked) - denied if one.startswith(("aten.", "getitem", "dim_order"))}
    never = {"aten.prod.dim_int", "aten.sym_size.int", "aten.conv_transpose2d.input"}
    if is_u55:
        never |= {"aten.embedding.default", "aten.masked_fill.Scalar"}
    assert supported_operators(is_u55) - QUANTIZE - DEQUANTIZE == known - never


def name(op: Any) -> str:
    found = target_name(op)
    return found.removesuffix("_") if found.endswith("Scalar_") else found


# ------------------------------------------------------------------------------------ compile specs


@pytest.mark.parametrize("target", [*TARGETS, "Ethos-U55-128"])
def test_compile_specs_are_the_same(target: str) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"system_config": "a", "memory_mode": "b", "extra_flags": ["--c", "--d"], "config_ini": None},
    ]
    for given in options:
        ours, theirs = EthosUCompileSpec(target, **given), PeerCompileSpec(target.lower(), **given)
        assert [(s.key, s.value) for s in ours.to_list()] == [(s.key, s.value) for s in theirs._to_list()]
        again = PeerCompileSpec._from_list(ours.to_list())
        assert [(s.key, s.value) for s in again._to_list()] == [(s.key, s.value) for s in ours.to_list()]


def test_compile_specs_with_everything_are_the_same(tmp_path: Path) -> None:
    ours, theirs = EthosUCompileSpec(U55), PeerCompileSpec(U55)
    ours.external_block_placements = VelaExternalBlockPlacements("commands", "weights")
    theirs.external_block_placements = type(theirs.external_block_placements)("commands", "weights")
    ours.dump_intermediate_artifacts_to(str(tmp_path)).dump_debug_info(DebugMode.JSON)
    theirs.dump_intermediate_artifacts_to(str(tmp_path)).dump_debug_info(PeerCompileSpec.DebugMode.JSON)
    ours.get_pass_pipeline_config()
    theirs._get_pass_pipeline_config()
    assert [(s.key, s.value) for s in ours.to_list()] == [(s.key, s.value) for s in theirs._to_list()]


@pytest.mark.parametrize("target", [U55, U85])
def test_what_is_kept_whole_is_the_same(target: str) -> None:
    found = program(chain)
    ours, _ = EthosUPartitioner(EthosUCompileSpec(target)).ops_to_not_decompose(found)
    theirs, _ = PeerPartitioner(PeerCompileSpec(target)).ops_to_not_decompose(found)
    assert sorted(map(str, ours)) == sorted(map(str, theirs))
