"""What Arm's operator tables list beside the rows of ours, with ExecuTorch 1.5.1's own quantizer and partitioner.

An operator that our tables call rewritten becomes the rows that they name, and all of these are delegated. One that
they call refused is left to the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_modules import IMAGE, ROWS, SAMPLES, Sample, module, of
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional as F

from npu_assay.partitioners.ethosu.support.common import is_qdq
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from tests.crosscheck.executorch import test_ethosu_quantizer as quantizing
from tests.crosscheck.executorch.ethosu_peer import peer_answer
from tests.crosscheck.executorch.observing import whole_ranges
from tests.crosscheck.executorch.test_ethosu_cases import TABLES, TARGETS, by_row, program

pytestmark = quantizing.pytestmark
calibrated_fast = pytest.fixture(autouse=True)(whole_ranges)


class Attention(nn.Module):
    """Attention with its projections."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.heads(x, x, x, need_weights=False)[0]
        return found


def counting(x: Tensor, count: Tensor) -> Tensor:
    """A loop that goes three times round."""
    loop: Any = torch.while_loop
    found: Tensor = loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 0.5), (count, x))[1]
    return found


def choosing(x: Tensor) -> Tensor:
    """A choice of two branches."""
    found: Tensor = torch.cond(x.sum() > 0, lambda y: y + 1.0, lambda y: y * 2.0, (x,))
    return found


@dataclass(frozen=True)
class Probe:
    """A model of one operator of the document. glue: operators that stand there so that it has work around it."""

    sample: Sample
    glue: frozenset[str] = frozenset()


TANH, MUL, ADD = (frozenset({f"aten.{name}"}) for name in ("tanh.default", "mul.Tensor", "add.Tensor"))
SHORT = (1, 4, 8)
PROBES: Mapping[str, Probe] = {
    **{
        f"{name}": Probe(SAMPLES[sample])
        for name, sample in (
            *(("_softmax.default", "softmax"), ("_log_softmax.default", "log_softmax"), ("div.Tensor", "div")),
            *(("conv_transpose2d.default", "conv_transpose2d"), ("floor_divide.default", "floor_divide")),
            *(("glu.default", "glu"), ("logit.default", "logit"), ("native_group_norm.default", "group_norm")),
            *(("ne.Tensor", "ne"), ("pixel_shuffle.default", "pixel_shuffle"), ("rsub.Scalar", "rsub")),
            *(("pixel_unshuffle.default", "pixel_unshuffle"), ("select_scatter.default", "select_scatter")),
            *(("slice_scatter.default", "slice_scatter"), ("sqrt.default", "sqrt"), ("stack.default", "stack")),
            *(
                ("sum.default", "sum_all"),
                ("tril.default", "tril"),
                ("var.dim", "var"),
                ("vector_norm.default", "norm"),
            ),
        )
    },
    "addmm.default": Probe(of(torch.addmm, (3, 5), (3, 8), (8, 5))),
    "cond.default": Probe(of(choosing, ROWS)),
    "fill.Scalar": Probe(of(lambda x: torch.fill(x, 0.5) * x), MUL),
    "multihead_attention.default": Probe(module(Attention, SHORT)),
    "ne.Scalar": Probe(of(lambda x: x != 0.5)),
    "ones.default": Probe(of(lambda x: x * torch.ones(6)), MUL),
    "sdpa.default": Probe(of(F.scaled_dot_product_attention, SHORT, SHORT, SHORT)),
    "squeeze_copy.dim": Probe(of(lambda x: x.squeeze(0).tanh()), TANH),
    "t_copy.default": Probe(of(lambda x: x.t().tanh(), ROWS), TANH),
    "transpose_copy.int": Probe(of(lambda x: x.transpose(1, 2).tanh()), TANH),
    "unflatten.int": Probe(of(lambda x: x.unflatten(1, (2, 2)).tanh()), TANH),
    "zeros.default": Probe(of(lambda x: x + torch.zeros(IMAGE[-1])), ADD),
}
REWRITTEN = [(name, one.name) for name, table in TABLES.items() for one in table.rewritten]
REFUSED = [(name, row.name) for name, table in TABLES.items() for row in table.refused if row.precisions]
WITHOUT_CASES = [
    (name, row.documented_as or row.name.removeprefix("aten."))
    for name, table in TABLES.items()
    for row in table.refused
    if not row.precisions and "while_loop" not in row.name
]


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probes, where the quantizer's programs are made from."""
    known = {name: probe.sample for name, probe in PROBES.items()}
    monkeypatch.setattr(quantizing, "SAMPLES", {**SAMPLES, **known})


def quantized(name: str, table: str) -> tuple[ExportedProgram, dict[str, str]]:
    """The real quantizer's program of a probe, and its operators by the name of their node."""
    made = quantizing.edge_program(quantizing.theirs, name, TARGETS[table])
    assert made is not None
    calls = [node for node in made.graph.nodes if node.op == "call_function" and not is_qdq(node)]
    return made, {node.name: target_name(node.target) for node in calls if target_name(node.target) != GETITEM}


@pytest.mark.sampled(6)
@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize(("table", "name"), REWRITTEN)
def test_a_rewritten_operator_becomes_the_rows_that_the_table_names(table: str, name: str) -> None:
    (listed,) = [one for one in TABLES[table].rewritten if one.name == name]
    made, operators = quantized(name, table)
    assert set(operators.values()) == set(listed.operators) | PROBES[name].glue
    assert operators.keys() <= peer_answer(made, TARGETS[table]).tags.keys()


@pytest.mark.parametrize(("table", "row"), REFUSED)
def test_a_refused_operator_is_left_out_by_the_real_partitioner(table: str, row: str) -> None:
    for case in by_row(table)[row]:
        made = program(case, table)
        nodes = [node.name for node in made.graph.nodes if target_name(node.target) == row]
        assert nodes and not set(nodes) & peer_answer(made, TARGETS[table]).tags.keys(), case.id


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize(("table", "name"), WITHOUT_CASES)
def test_a_refused_operator_without_cases_is_not_delegated_whole(table: str, name: str) -> None:
    made, operators = quantized(name, table)
    assert operators.keys() - peer_answer(made, TARGETS[table]).tags.keys()


def test_every_operator_of_the_documents_is_probed() -> None:
    assert {name for _, name in (*REWRITTEN, *WITHOUT_CASES)} == PROBES.keys()
