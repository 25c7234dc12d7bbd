"""From a partitioner's tags to a verdict on the case's subject."""

from __future__ import annotations

import fake_backend
import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.record.results import Reason
from npu_assay.conformance.run.outline import Node, outline
from npu_assay.conformance.run.partitioning import tags_of
from npu_assay.conformance.run.tagging import prepare, subject_nodes, tag, verdict
from npu_assay.conformance.table import load_table

TABLE = load_table(fake_backend.TABLE)
CASES = {case.id: case for case in cases_for(TABLE)}
NEG = CASES["aten.neg.default/operator/accept/baseline"]
ROW = TABLE.row("aten.neg.default")


def test_the_subject_is_the_node_of_the_rows_operator() -> None:
    program = prepare(NEG, fake_backend.backend, TABLE)
    assert [node.name for node in subject_nodes(NEG, ROW, outline(program.graph))] == ["aten_neg_default"]


def test_an_accepted_subject() -> None:
    tagging = tag(NEG, fake_backend.backend, ROW, prepare(NEG, fake_backend.backend, TABLE))
    assert (tagging.verdict, tagging.reasons) == ("accept", ())
    assert set(tagging.tags.values()) == {"fake_0"} and "aten_neg_default" in tagging.tags


def test_a_rejected_subject_keeps_its_reasons_only() -> None:
    tagging = tag(NEG, fake_backend.refuses, ROW, prepare(NEG, fake_backend.refuses, TABLE))
    assert tagging.verdict == "reject"
    assert tagging.reasons == (Reason("mood", "a bad one", "the mood must be good"),)


def test_tags_are_read_by_node_name() -> None:
    program = prepare(NEG, fake_backend.backend, TABLE)
    assert tags_of(program.graph) == {}
    fake_backend.FakePartitioner()(program)
    assert len(tags_of(program.graph)) == 3


@pytest.mark.parametrize(
    ("tagged", "expected"), [((), "reject"), (("a",), "partial"), (("a", "b"), "accept"), (("b", "c"), "partial")]
)
def test_verdicts(tagged: tuple[str, ...], expected: str) -> None:
    nodes = [Node(name, "aten.neg.default", "s", ()) for name in ("a", "b")]
    assert verdict(nodes, dict.fromkeys(tagged, "t")) == expected


def test_a_subject_that_the_passes_removed_is_absent() -> None:
    assert verdict((), {"a": "t"}) == "absent"
