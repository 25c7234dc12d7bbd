"""Two releases of Neutron's table, one backend: what 1.4 changes, and that each table tells them apart."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

import pytest
import torch
from click.testing import CliRunner
from places import ROOT

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.loosened import KEPT
from npu_assay.conformance.cases.witnesses import shipped
from npu_assay.conformance.cli import main
from npu_assay.conformance.compare.releases import page
from npu_assay.conformance.covering.renew import answers_of
from npu_assay.conformance.predicates.applications import application
from npu_assay.conformance.predicates.definitions import defined
from npu_assay.conformance.predicates.evaluation import holds
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.execution import Job, run_chunk
from npu_assay.conformance.table import FOLDER, TableError, load_table, read_table, row_before
from npu_assay.conformance.table.published import read_text
from npu_assay.conformance.table.published.names import meant_by
from npu_assay.partitioners.exir import to_backend, to_edge
from npu_assay.partitioners.neutron import NeutronPartitioner, generate_neutron_compile_spec
from npu_assay.partitioners.neutron.operators import OPERATORS, operators

FIRST, NEXT = load_table("neutron@1.3"), load_table("neutron@1.4")
MARKER = "<!-- From here on: assay table diff neutron@1.3 neutron@1.4 --page -->\n"
NEW = {row.name for row in NEXT.rows if row_before(FIRST, row) is None}
CHANGED = {
    *("aten.add.Tensor", "aten.bmm.default", "aten.cat.default", "aten.mean.dim", "aten.mul.Tensor"),
    *("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"),
    *("aten.prelu.default", "aten.upsample_bilinear2d.vec", "aten.upsample_nearest2d.vec"),
}
"""Rows whose limits let other programs through."""
TOLD = {"aten.clone.default", "aten.dim_order_ops._clone_dim_order.default"}
"""Rows whose new limit is what the partitioner did already, for another reason."""


@cache
def cases(table: str) -> tuple[Case, ...]:
    return cases_for(load_table(table))


# ------------------------------------------------------------------------------------ tables


def test_eight_operators_are_new_and_none_is_gone() -> None:
    assert (len(FIRST.rows), len(NEXT.rows), len(NEW)) == (40, 48, 8)
    assert all(row_before(NEXT, row) is not None for row in FIRST.rows)


def test_the_rows_are_those_of_the_published_table_word_for_word() -> None:
    name = "neutron@1.4.csv"
    published = read_text((FOLDER / "documents" / name).read_text(), name).entries
    assert [[*meant_by(entry.operator)[0]] for entry in published] == [[row.name] for row in NEXT.rows]
    assert [entry.constraints for entry in published] == [row.document for row in NEXT.rows]


def test_a_row_whose_text_did_not_change_keeps_its_limits() -> None:
    for row in NEXT.rows:
        old = row_before(FIRST, row)
        if old is not None and old.document == row.document and row.name not in TOLD:
            assert old.constraints == row.constraints, row.name


def test_a_renamed_row_is_one_line_of_the_difference() -> None:
    lines = CliRunner().invoke(main, ["table", "diff", "neutron@1.3", "neutron@1.4"]).output.splitlines()
    assert "aten.slice.Tensor: name: aten.slice_copy.Tensor -> aten.slice.Tensor" in lines
    assert sorted(line.split(":")[0] for line in lines if line.endswith(": row: none -> promised")) == sorted(NEW)
    back = CliRunner().invoke(main, ["table", "diff", "neutron@1.4", "neutron@1.3"]).output
    assert "aten.slice_copy.Tensor: name: aten.slice.Tensor -> aten.slice_copy.Tensor" in back


@pytest.mark.long
def test_the_page_of_the_migration_is_what_the_tables_say() -> None:
    text = (ROOT / "docs/migrating-neutron-1.4.md").read_text()
    printed = page(FIRST, NEXT)
    title, rest = printed.split("\n", 1)
    assert text.startswith(f"{title}\n") and text.split(MARKER)[1] == rest
    result = CliRunner().invoke(main, ["table", "diff", "neutron@1.3", "neutron@1.4", "--page"])
    assert (result.exit_code, result.output) == (1, printed)


def test_a_page_and_json_at_once_are_an_error() -> None:
    result = CliRunner().invoke(main, ["table", "diff", "neutron@1.3", "neutron@1.4", "--page", "--json"])
    assert result.exit_code == 2 and "--json and --page: found both" in result.output


def test_the_code_of_the_page_names_the_release() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/migrating-neutron-1.4.md").read_text(), re.DOTALL)
    found: dict[str, object] = {}
    exec(code, found)
    assert found["partitioner"].release == found["quantizer"].release == "1.4"  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------ what is taken now


def test_what_the_release_before_excludes_is_tried() -> None:
    """Each limit that is gone has such cases, but for one that the new limit's own cases are about."""
    found = {case.id for case in cases("neutron@1.4") if "/no_longer_" in case.id}
    gone = {
        (row.name, c.code)
        for row in NEXT.rows
        if (old := row_before(FIRST, row)) is not None
        for c in old.constraints
        if c.code not in {mine.code for mine in row.constraints}
    }
    assert {
        pair for pair in gone if not any(f"{pair[0]}/operator/accept/no_longer_{pair[1]}_" in i for i in found)
    } == set()
    assert len(found) > 200


def test_they_keep_every_limit_of_the_row() -> None:
    for case in cases("neutron@1.4")[::3]:
        if "/no_longer_" in case.id:
            known, row = application(case.graph, case.subject), NEXT.row(case.row)
            for each in defined(NEXT, row, None):
                assert holds(each.predicate, known.with_value(each.value).find) is True, (case.id, each.code)


def test_what_is_recorded_of_them_is_what_predicates_say() -> None:
    """So that listing the cases of this release needs no torch; `covering.renew` writes it."""
    recorded = {key: told[KEPT] for key, told in shipped().items() if KEPT in told}
    assert answers_of(NEXT) == recorded and {True, False} <= {
        each for told in recorded.values() for each in told.values()
    }


def test_without_a_table_before_it_there_are_none() -> None:
    text = (FOLDER / "neutron@1.4.toml").read_text()
    alone = read_table(text.replace('follows = "neutron@1.3"\n', "").encode(), "alone.toml")
    assert not [case.id for case in cases_for(alone) if "/no_longer_" in case.id]


def test_a_table_before_it_that_is_not_there_is_an_error() -> None:
    text = (FOLDER / "neutron@1.4.toml").read_text().replace('"neutron@1.3"', '"neutron@1.2"')
    with pytest.raises(TableError, match=r"no table 'neutron@1\.2', did you mean"):
        cases_for(read_table(text.encode(), "other.toml"))


# ------------------------------------------------------------------------------------ each judged by the other's table


def failing(backend: str, table: str, every: int) -> dict[str, set[str]]:
    """The checks that fail by row, in every so manyth case of a changed row, and in three of every other."""
    by_row = defaultdict[str, list[str]](list)
    for case in cases(table):
        by_row[case.row].append(case.id)
    ids = [i for row, found in by_row.items() for i in _asked(row, found, every)]
    results = run_chunk(Job(f"npu_assay.partitioners.neutron:{backend}", table), tuple(ids))
    checks = defaultdict[str, set[str]](set)
    for result in results:
        for failure in result.failures:
            checks[result.row].add(failure.check)
    return dict(checks)


def _asked(row: str, found: list[str], every: int) -> list[str]:
    if row in CHANGED | NEW:
        return found[::every]
    return [*found[:2], found[-1], *(i for i in found if "/memory_format_given/" in i)]


@pytest.mark.long
def test_the_partitioner_of_1_3_fails_the_table_of_1_4_where_that_changed() -> None:
    found = failing("backend", "neutron@1.4", 6)
    assert set(found) == CHANGED | NEW | TOLD
    assert all("tag" in checks for row, checks in found.items() if row not in TOLD)
    assert all(found[row] == {"reason"} for row in TOLD)


@pytest.mark.long
def test_the_partitioner_of_1_4_fails_the_table_of_1_3_where_that_changed() -> None:
    found = failing("backend_1_4", "neutron@1.3", 4)
    assert set(found) == CHANGED and all("tag" in checks for checks in found.values())


@pytest.mark.long
def test_each_passes_its_own() -> None:
    assert failing("backend_1_4", "neutron@1.4", 12) == {} == failing("backend", "neutron@1.3", 12)


# ------------------------------------------------------------------------------------ partitioner and quantizer


def test_a_row_without_changes_is_the_same_one() -> None:
    later = operators("1.4")
    assert {name for name, row in OPERATORS.items() if later[name] is not row} == {
        *("aten.add.Tensor", "aten.bmm.default", "aten.cat.default", "aten.clone.default", "aten.mean.dim"),
        *("aten.max_pool2d_with_indices.default", "aten.mul.Tensor", "aten.prelu.default"),
        *("aten.upsample_bilinear2d.vec", "aten.upsample_nearest2d.vec", "dim_order_ops._clone_dim_order.default"),
    }
    assert later.keys() - OPERATORS.keys() == NEW


def test_what_both_releases_take_is_compiled_to_the_same_bytes() -> None:
    """So that a comparison of two runs shows what a release changes, and nothing else."""
    case = next(case for case in cases("neutron@1.3") if case.id == "aten.abs.default/operator/accept/baseline")
    blobs = set[bytes]()
    for release in ("1.3", "1.4"):
        partitioner = NeutronPartitioner(generate_neutron_compile_spec("imxrt700", release=release))
        lowered = to_backend(build(case.graph), partitioner)
        blobs |= {module.processed_bytes for _, module in lowered.graph_module.named_children()}
    assert len(blobs) == 1


class Products(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(torch.relu(a), b)


class Extremes(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.maximum(a, b).amax(-1) + torch.minimum(a, b).sum(-1)


class Functions(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.exp(a)) - b


MODELS = (
    (Products(), (torch.linspace(-2, 3, 80).reshape(2, 5, 8), torch.linspace(-1, 4, 48).reshape(2, 8, 3))),
    (Extremes(), (torch.linspace(-2, 3, 15).reshape(3, 5), torch.linspace(4, -1, 15).reshape(3, 5))),
    (Functions(), (torch.linspace(-2, 3, 15).reshape(3, 5), torch.linspace(4, -1, 5))),
)


@pytest.mark.parametrize(("model", "inputs"), MODELS, ids=lambda each: type(each).__name__)
def test_a_model_goes_to_the_npu_with_the_release_that_has_its_operators(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> None:
    assert undelegated(model, inputs, "1.3") and not undelegated(model, inputs, "1.4")


def undelegated(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], release: str) -> list[str]:
    """The operators that stay, but for those that convert, after a release's quantizer and partitioner."""
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from npu_assay.partitioners.neutron.quantizer import NeutronQuantizer

    prepared = prepare_pt2e(torch.export.export(model.eval(), inputs).module(), NeutronQuantizer(release))
    prepared(*inputs)
    program = torch.export.export(convert_pt2e(prepared), inputs)
    partitioner = NeutronPartitioner(generate_neutron_compile_spec("imxrt700", release=release))
    lowered = to_edge(program).to_backend(partitioner).exported_program()
    names = [str(node.target) for node in lowered.graph.nodes if node.op == "call_function"]
    return [name for name in names if name.startswith("aten.")]
