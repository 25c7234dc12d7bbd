"""Our XnnpackPartitioner tags what ExecuTorch's own does: every case of the table, and random programs.

Nothing is compared loosely: same nodes, same tags, same numbers. Where the two differ on purpose, the operator is in
`differences`, and the rest of the program must still agree.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from places import ROOT
from torch import fx
from torch.export import ExportedProgram, export

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import build, model_inputs, module
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Row, load_table
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import edge_op, target_name
from tests.crosscheck.executorch.agreement import Comparison, Difference, Listed, compare
from tests.crosscheck.executorch.differences import ACCEPTED, REFUSED
from tests.crosscheck.executorch.peer import peer_partitioner, peer_program
from tests.crosscheck.executorch.random_programs import OPTIONS, random_program

TABLE = load_table("xnnpack@1.5")
CASES = {case.id: case for case in cases_for(TABLE)}
LISTED = Listed(REFUSED, ACCEPTED)
RANDOM = 1200
CHUNK = 100


def comparison(example: str | int, listed: Listed = LISTED) -> Comparison:
    """Of a case, by id, or a random program, by seed."""
    if isinstance(example, int):
        return compare(*random_program(example), listed)
    case = CASES[example]
    return compare(build(case.graph, TABLE.preserve), dict(case.options), listed)


@pytest.mark.long
@pytest.mark.sampled(12)
@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.name)
def test_cases_are_tagged_alike(row: Row) -> None:
    left = {case.id: comparison(case.id).left for case in CASES.values() if case.row == row.name}
    assert left
    assert {name: nodes for name, nodes in left.items() if nodes} == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, RANDOM, CHUNK))
def test_random_programs_are_tagged_alike(first: int) -> None:
    left = {seed: comparison(seed).left for seed in range(first, first + CHUNK)}
    assert {seed: nodes for seed, nodes in left.items() if nodes} == {}


@pytest.mark.slow
def test_random_programs_are_of_every_kind() -> None:
    """Some are one operator, most are several; every option is used, and most of the operators of the table."""
    programs = [random_program(seed) for seed in range(300)]
    names = {target_name(n.target) for program, _ in programs for n in program.graph.nodes if n.op == "call_function"}
    missing = {row.operator for row in TABLE.rows} - names
    assert missing <= {"aten.elu.default"}
    assert {str(options) for _, options in programs} == {"{}", *map(str, OPTIONS)}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("difference", [*REFUSED, *ACCEPTED], ids=lambda difference: difference.name)
def test_what_is_listed_occurs(difference: Difference) -> None:
    """With the entry the example agrees; without it, it does not."""
    without = Listed(*(tuple(d for d in side if d is not difference) for side in (REFUSED, ACCEPTED)))
    found = comparison(difference.example)
    assert difference.name in found.shown and not found.left
    assert comparison(difference.example, without).left


def test_the_decisions_are_the_list() -> None:
    """One line each in docs/decisions.md, word for word."""
    lines = (ROOT / "docs/decisions.md").read_text().splitlines()
    start = lines.index("## Tags that are not those of ExecuTorch 1.5.1")
    section = lines[start + 1 :]
    stop = next((index for index, line in enumerate(section) if line.startswith("#")), len(section))
    stated = [line for line in section[:stop] if line.startswith("- ")]
    assert stated == [
        *(f"- `{found.name}`, refused: {found.reason}" for found in REFUSED),
        *(f"- {found.name}, accepted: {found.reason}" for found in ACCEPTED),
    ]


# ------------------------------------------------------------------------------------ the programs themselves


def usual() -> list[Case]:
    """The first accepted case of every row in float32, and of some rows in the other precisions.

    A copy that copies nothing is not one of them: ExecuTorch drops it before anyone partitions.
    """
    wanted = [(row.name, "fp32") for row in TABLE.rows if not row.name.startswith("dim_order_ops")]
    wanted += [(f"aten.{name}", "static_int8") for name in ("add.Tensor", "cat.default", "conv2d.default")]
    wanted += [("aten.linear.default", name) for name in ("static_int8_per_channel", "dynamic_int8", "dynamic_int4")]
    accepted = [case for case in CASES.values() if case.expect == "accept"]
    usual = [next(c for c in accepted if (c.row, c.precision) == name) for name in wanted]
    return [*usual, CASES["dim_order_ops._to_dim_order_copy.default/fp32/operator/accept/channels_last"]]


def executorch_program(case: Case) -> ExportedProgram:
    """ExecuTorch's own edge program of a case's model, exported by torch."""
    preserve: list[Any] = [edge_op(name)._op for name in TABLE.preserve]
    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=preserve)
    model, inputs = module(case.graph).eval(), model_inputs(case.graph)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see peer
        program: ExportedProgram = to_edge(export(model, inputs), compile_config=config).exported_program()
    return program


def form(program: ExportedProgram) -> list[Any]:
    """A program without node names: operators, arguments by position, types, shapes and the real partitioner's tags."""
    places = {node: index for index, node in enumerate(n for n in program.graph.nodes if n.op == "call_function")}
    data = {spec.arg.name for spec in program.graph_signature.input_specs if spec.target is not None}

    def spelled(argument: Any) -> str:
        if isinstance(argument, fx.Node):
            if argument in places:
                return f"%{places[argument]}"
            return f"{'constant' if argument.name in data else 'input'} {argument.meta['val'].shape}"
        if isinstance(argument, list | tuple):
            return f"[{', '.join(map(spelled, argument))}]"
        return str(argument)

    found = []
    for node in places:
        value = node.meta["val"]
        results = [(t.dtype, tuple(t.shape)) for t in (value if isinstance(value, list | tuple) else [value])]
        keywords = {key: spelled(given) for key, given in sorted(node.kwargs.items())}
        tag = node.meta.get(DELEGATION_TAG)
        found.append((target_name(node.target), spelled(list(node.args)), keywords, results, tag))
    return found


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", usual(), ids=lambda case: case.id)
def test_the_program_is_what_executorch_makes_of_the_model(case: Case) -> None:
    """Both partitioners judge ExecuTorch's own edge program: what is compared here is not of our own making."""
    ours, theirs = peer_program(build(case.graph, TABLE.preserve)), executorch_program(case)
    for program in (ours, theirs):
        peer_partitioner(**dict(case.options)).partition(program)
    assert form(ours) == form(theirs)
