"""Reading support tables: the shipped one in full, and one clear error for each way to get one wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from table_files import DOCUMENTED, NEUTRON, SMALL, _load

from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import FOLDER, held, load_table
from npu_assay.conformance.table.constraints import Constraint, parse_constraint, shown

SMALL_INTEGER = (
    SMALL.split("[operators]")[0].replace('"quantized @document"', "").replace('quantized = "must be quantized"\n', "")
    + """[operators]
"aten.abs.default" = { document = "", precisions = ["int8"], constraints = [] }
"""
)


# ------------------------------------------------------------------------------------ what is read


def test_neutron_has_the_rows_of_the_document() -> None:
    assert len(NEUTRON.rows) == 40
    assert NEUTRON.backend_id == "NeutronBackend"
    assert dict(NEUTRON.parameters)["macs"] == 8
    assert len(NEUTRON.sha256) == 64


def test_a_row_holds_its_parsed_constraints() -> None:
    row = NEUTRON.row("aten.clamp.default")
    assert row.constraint("bounds") == Constraint("bounds", ((-1, 1), (0, 1), (0, 6), (0, None)), "document")
    assert NEUTRON.codes(row)[0] == "quantized"
    with pytest.raises(KeyError, match="has no constraint 'rank'"):
        row.constraint("rank")


def test_operator_is_the_row_unless_spelled_otherwise() -> None:
    assert NEUTRON.row("aten.abs.default").operator == "aten.abs.default"
    clone = NEUTRON.row("aten.dim_order_ops._clone_dim_order.default")
    assert clone.operator == "dim_order_ops._clone_dim_order.default"
    assert NEUTRON.row("aten.div.Tensor").rewritten_to == "aten.mul.Tensor"


def test_every_constraint_reads_as_a_sentence() -> None:
    for row in NEUTRON.rows:
        for constraint in (*NEUTRON.common, *row.constraints):
            assert "{" not in NEUTRON.sentence(constraint)
    assert NEUTRON.sentence(Constraint("bounds", ((-1, 1), (0, None)), "document")) == (
        "the bounds must be one of (-1, 1) or (0, None)"
    )


def test_every_source_is_known() -> None:
    sources = {c.source for row in NEUTRON.rows for c in row.constraints}
    assert sources == {"document", "v1.3.1", "decision"}


def test_a_row_and_its_precisions_say_where_they_are_from(tmp_path: Path) -> None:
    row = '{ document = "8x8", precisions = ["int8", "int16 @1.5.1"], '
    table = _load(tmp_path, SMALL.replace('{ document = "rank 4", ', row))
    relu, absolute = table.row("aten.relu.default"), table.row("aten.abs.default")
    assert (relu.precisions, relu.source) == (("int8", "int16"), "document")
    assert (relu.source_of("int8"), relu.source_of("int16"), relu.source_of("")) == ("document", "1.5.1", "document")
    assert (absolute.precisions, absolute.source_of("")) == ((), "document")
    beyond = _load(tmp_path, SMALL.replace('{ document = "rank 4", ', f'{row}source = "1.5", '))
    assert [beyond.row("aten.relu.default").source_of(name) for name in ("int8", "int16")] == ["1.5", "1.5.1"]


def test_the_documents_other_rows(tmp_path: Path) -> None:
    table = _load(tmp_path, SMALL + DOCUMENTED)
    (refused,), (rewritten,) = table.refused, table.rewritten
    assert refused == table.row("aten.neg.default") == table.every_row[-1]
    assert refused not in table.rows and refused.constraint("rank").source == "1.5.1"
    assert (rewritten.name, rewritten.document, rewritten.operators) == ("sqrt.default", "8x8", ("aten.abs.default",))
    (case,) = [case for case in all_cases(_load(tmp_path, SMALL_INTEGER + DOCUMENTED)) if case.row == refused.name]
    assert case.id == "aten.neg.default/int8/rank/outside/baseline"
    assert (case.expect, case.reason) == ("reject", "rank")


def test_loading_twice_gives_equal_tables(tmp_path: Path) -> None:
    assert load_table("neutron@1.3") == NEUTRON
    assert load_table(str(FOLDER / "neutron@1.3.toml")) == NEUTRON
    assert _load(tmp_path, SMALL).row("aten.relu.default").document == "rank 4"


def test_a_table_that_is_held_is_read_once(tmp_path: Path) -> None:
    before = _load(tmp_path, SMALL)
    path = tmp_path / "toy@1.0.toml"
    with held(str(path)):
        path.write_text(SMALL.replace("toy", "boy"))
        with held(str(path)) as data:
            assert data.decode() == SMALL
        assert load_table(str(path)) == before
    assert load_table(str(path)).name == "boy"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rank @document", None),
        ("rank = 4 @document", 4),
        ("rank = false @document", False),
        ("rank = [1, 2] @v1.3.1", (1, 2)),
        ("rank = [[0, inf], [0, null]] @document", ((0, float("inf")), (0, None))),
        ("rank = [0.00390625, -128] @document", (0.00390625, -128)),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse_constraint(text).value == value


def test_values_as_readers_write_them() -> None:
    assert shown(8) == "8"
    assert shown((1, 2)) == "(1, 2)"
    assert shown(((0, None), (0, 1))) == "(0, None) or (0, 1)"
