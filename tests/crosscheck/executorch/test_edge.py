"""Our edge programs beside ExecuTorch's of the same exported models, node by node, and what each dialect lets pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("executorch", reason="the peer is the extra `executorch`")

from edge_programs import exported_program, nodes_of
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.nn import functional

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners import exir
from npu_assay.partitioners.exir import EdgeCompileConfig, EdgeError, to_edge
from npu_assay.partitioners.exir.verifier import EDGE_TYPES, OPERATOR_TYPES
from npu_assay.partitioners.xnnpack.partitioner import overload
from tests.crosscheck.executorch.suite import Sample, samples

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see peer
    from executorch import exir as peer
    from executorch.exir.dialects._ops import ops as peer_ops

SHARES = 12
"""The suite in as many tests, for as many workers."""

STEP = 3
"""One model of so many is compared: each costs ExecuTorch a third of a second. All 937 of 1.5.1 were, once."""

UNEXPORTABLE = {
    **dict.fromkeys(
        (f"test_{kind}pool{rank}d_padding-1" for kind in ("avg", "max") for rank in (1, 2, 3)),
        "torch refuses a padding of more than half the kernel",
    ),
    **dict.fromkeys(
        ("test_linear_leading_batch", *(f"test_linear_batch_sizes{index}" for index in ("", "-1", "-2"))),
        "the layer takes 67 features, and the inputs have 64",
    ),
}
"""Models of the suite that torch.export does not take, with reasons."""

DIFFERENCES: dict[str, str] = {}
"""Models whose programs differ, with reasons."""

CONVOLUTION = "a bias of truth values or unsigned 16-bit numbers passes ExecuTorch beside an input of other numbers"


def _exported(sample: Sample) -> ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's recurrent layers keep a list of their weights
        return torch.export.export(sample.model, sample.inputs, dynamic_shapes=sample.dynamic_shapes)


def form(program: ExportedProgram) -> list[Any]:
    """Every node by kind, name, operator, arguments and value, and the inputs that are constants."""
    constants = [s.target for s in program.graph_signature.input_specs if s.kind != InputKind.USER_INPUT]
    return [*((*n[:4], sorted(n[4].items()), n[5]) for n in nodes_of(program)), constants]


def theirs(program: ExportedProgram, preserve: list[Any]) -> list[Any]:
    """ExecuTorch's edge program, or nothing when it refuses."""
    config = peer.EdgeCompileConfig(preserve_ops=preserve)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see peer
        try:
            return form(peer.to_edge(program, compile_config=config).exported_program())
        except SpecViolationError:
            return []


def ours(program: ExportedProgram, preserve: list[Any]) -> list[Any]:
    """Our edge program, or nothing when it is refused."""
    try:
        return form(to_edge(program, compile_config=EdgeCompileConfig(preserve_ops=preserve)).exported_program())
    except EdgeError:
        return []


def difference(program: ExportedProgram, preserve: list[Any]) -> str | None:
    """The first node in which the two edge programs differ; none when both sides refuse the program."""
    pairs = zip([*ours(program, preserve), None], [*theirs(program, preserve), None], strict=False)
    return next((f"{a}\n{b}" for a, b in pairs if a != b), None)


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", range(SHARES))
def test_the_operator_suite(share: int) -> None:
    found, refused = {}, set()
    for sample in samples()[share * STEP :: SHARES * STEP]:
        try:
            program = _exported(sample)
        except RuntimeError:
            refused.add(sample.name)
            continue
        found[sample.name] = difference(program, [])
    assert refused <= UNEXPORTABLE.keys()
    assert {name: text for name, text in found.items() if text and name not in DIFFERENCES} == {}
    assert [name for name in DIFFERENCES if name in found and not found[name]] == []


def rows() -> list[tuple[str, Case]]:
    """The first accepted case of each row of two tables."""
    found: dict[tuple[str, str], tuple[str, Case]] = {}
    for name in ("neutron@1.3", "xnnpack@1.5"):
        for case in cases_for(load_table(name)):
            if case.expect == "accept" and not case.row.startswith("dim_order_ops"):
                found.setdefault((name, case.row), (name, case))
    return list(found.values())


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", range(SHARES))
def test_the_rows_of_our_tables(share: int) -> None:
    found = {}
    for name, case in rows()[share::SHARES]:
        whole = [op for op in map(overload, load_table(name).preserve) if op is not None]
        found[name, case.id] = difference(exported_program(case.graph), whole)
    assert found and {key: text for key, text in found.items() if text} == {}


OPEN: dict[str, Callable[[torch.Tensor], Any]] = {
    "mul": lambda x: x * x.shape[1],
    "add": lambda x: x + x.shape[1],
    "sub": lambda x: x - x.shape[1],
    "sub from": lambda x: x.shape[1] - x,
    "div": lambda x: x / x.shape[1],
    "div into": lambda x: x.shape[1] / x,
    "whole": lambda x: x.long() // x.shape[1],
    "half": lambda x: x.half() * x.shape[1],
    "fraction": lambda x: x.long() * (x.shape[1] / 2),
    "several": lambda x: x.sum(1) / x.shape[1] + x.shape[1],
}
"""Tensors combined with an open size."""


@pytest.mark.long
@pytest.mark.parametrize("name", OPEN)
def test_open_sizes_beside_tensors(name: str) -> None:
    model = torch.nn.Module()
    model.forward = OPEN[name]
    sizes = ({1: torch.export.Dim("n", min=2, max=10)},)
    program = torch.export.export(model, (torch.ones(2, 5),), dynamic_shapes=sizes)
    mine, peers = (str(side(program, [])).replace("sym_size_int_1", "sym_size") for side in (ours, theirs))
    assert mine == peers != "[]"


MORE: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": lambda x: x.max(),
    "min of integers": lambda x: x.int().min(),
    "antialias": lambda x: functional.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
    "unfold": lambda x: x.unfold(1, 3, 2),
}
"""What is let pass outside of core ATen."""


@pytest.mark.parametrize("name", MORE)
def test_outside_of_core_aten(name: str) -> None:
    """In `to_edge_transform_and_lower`, as ExecuTorch's `to_edge` refuses views."""
    model = torch.nn.Module()
    model.forward = MORE[name]
    program = torch.export.export(model, (torch.ones(1, 4, 6, 6),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see peer
        peers = peer.to_edge_transform_and_lower(program).exported_program()
    assert form(exir.to_edge_transform_and_lower(program).exported_program()) == form(peers)


def test_types_by_operator() -> None:
    """Every tensor argument of every ATen operator that ExecuTorch restricts, and no restriction it does not have."""
    differing, seen = set(), set()
    for op in core_operators():
        name = f"aten.{op._schema.name.removeprefix('aten::')}"
        edge = getattr(getattr(peer_ops.edge.aten, name.removeprefix("aten.")), op._overloadname)
        for argument in edge._schema.arguments:
            if "Tensor" not in str(argument.type) or argument.name in ("condition", "index", "indices", "mask"):
                continue
            allowed, known = frozenset(argument.allowed_types), OPERATOR_TYPES.get(name, EDGE_TYPES)
            seen |= {name} if allowed != EDGE_TYPES else set()
            if allowed not in (known, EDGE_TYPES):
                differing.add(f"{name} {argument.name}")
    assert differing == {"aten.convolution bias"}, CONVOLUTION
    assert seen - OPERATOR_TYPES.keys() == set()


def core_operators() -> list[torch._ops.OpOverload]:
    """Every overload of ATen that edge programs may have, and that returns something new."""
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overloaded = rest.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overloaded or "default") if namespace == "aten" else None
        if op is not None and {torch.Tag.core, torch.Tag.view_copy} & set(op.tags) and not op._schema.is_mutable:
            found.append(op)
    return found
