"""Cases follow ordinary limits and fewer of them, and say which they cannot follow."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from limit_tables import TEXT, changed, neutron

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases import cases_for, rows
from npu_assay.conformance.cases.families import FAMILIES
from npu_assay.conformance.cases.kernels import kernel_of
from npu_assay.conformance.cases.limits import LimitError, Limits, around, past
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.cases.witnesses import is_found
from npu_assay.conformance.cli import main
from npu_assay.conformance.coverage import coverage, failures
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import SelectionError, all_cases
from npu_assay.conformance.table import FOLDER, Table, load_table, read_table

NEUTRON = load_table("neutron@1.3")


# ------------------------------------------------------------------------------------ ordinary limits


def alone(name: str, row: str, constraint: str) -> Table:
    """A table of one row with one constraint, besides the common ones of a shipped table."""
    head = (FOLDER / f"{name}.toml").read_text().partition("[operators]")[0]
    data = tomllib.loads(head)
    used = {text.partition(" ")[0] for text in [constraint, *data["common"]["constraints"]]}
    meanings = "".join(f"{c} = {m!r}\n" for c, m in data["constraints"].items() if c in used)
    head = head.partition("[constraints]")[0] + "[constraints]\n" + meanings
    kinds = 'precisions = ["int8"], ' if name != "neutron@1.3" else ""
    text = f'{head}[operators]\n"{row}" = {{ document = "", {kinds}constraints = ["{constraint} @document"] }}\n'
    return read_table(text.encode(), "alone.toml")


def output_rank(case: Case) -> int:
    """The rank of the subject's result, as torch has it."""
    program = build(case.graph)
    node = next(n for n in program.graph.nodes if n.meta.get("step") == SUBJECT and "quantize" not in str(n.target))
    return len(node.meta["val"].shape)


@pytest.mark.parametrize("row", ["aten.abs.default", "aten.add.Tensor", "aten.relu.default"])
@pytest.mark.parametrize("most", [1, 2, 3, 4, 16])
def test_a_largest_rank_is_any_ordinary_number(row: str, most: int) -> None:
    """At the limit, one past it, and nothing else that is accepted beyond it."""
    table = alone("neutron@1.3", row, f"max_rank = {most}")
    cases = cases_for(table)
    assert failures(coverage(table, cases)) == []
    assert {c.id.rpartition("/")[0] for c in cases} >= {f"{row}/operator/accept", f"{row}/operator/value"}
    ranks = {c.id: output_rank(c) for c in cases if c.constraint == "max_rank" or c.expect == "accept"}
    assert max(rank for name, rank in ranks.items() if "/outside/" not in name) == most
    assert min(ranks[c.id] for c in cases if c.reason == "max_rank") == most + 1


def test_cases_of_few_dimensions_have_right_numbers() -> None:
    """Neutron takes up to eight dimensions, so it passes all but those outside."""
    for row in ("aten.neg.default", "aten.mul.Tensor"):
        table = alone("neutron@1.3", row, "max_rank = 2")
        for case in cases_for(table):
            if case.expect == "accept" and "context" not in case.id:
                assert run_case(case, neutron(), table).failures == (), case.id


@pytest.mark.parametrize(
    ("row", "most"),
    [
        *(("aten.convolution.default", n) for n in (1, 2, 3, 7, 256)),
        *((f"aten.{name}", n) for name in ("avg_pool2d.default", "max_pool2d.default") for n in (1, 2, 5, 256)),
    ],
)
def test_a_largest_kernel_height_is_any_ordinary_number(row: str, most: int) -> None:
    table = alone("ethos_u55@1.5", row, f"kernel_height = {most}")
    cases = cases_for(table)
    assert failures(coverage(table, cases)) == []
    heights = {case.id: (kernel_of(case.graph) or (0, 0))[0] for case in cases}
    assert max(heights[c.id] for c in cases if c.expect == "accept") == most
    assert [heights[c.id] for c in cases if c.reason == "kernel_height"] == [most + 1]


@pytest.mark.parametrize("row", ["aten.convolution.default", "aten.avg_pool2d.default"])
@pytest.mark.parametrize("constraint", ["kernel_height = 1", "kernel_area = 4"])
def test_cases_of_small_kernels_have_right_numbers(row: str, constraint: str) -> None:
    """Ethos-U55 takes larger ones, but has other limits that this table does not state."""
    table, backend = alone("ethos_u55@1.5", row, constraint), load_backend("ethos-u55")
    cases = [c for c in cases_for(table) if c.expect == "accept" and "/context/" not in c.id]
    results = [run_case(case, backend, table) for case in cases]
    assert [r.case for r in results if any(f.check != "tag" for f in r.failures)] == []
    written = [r for r in results if "/window_" not in r.case]  # windows also meet the limits that it does not state
    assert sum(r.failures == () for r in written) > 0.9 * len(written)


@pytest.mark.parametrize("multiple", [3, 65, 128, 250])
def test_a_multiple_is_any_ordinary_number(multiple: int) -> None:
    for code in ("channels_multiple_of", "any_dim_multiple_of", "matrix_dims_multiple_of", "sliced_dim_multiple_of"):
        row = next(row.name for row in NEUTRON.rows if any(c.code == code for c in row.constraints))
        table = alone("neutron@1.3", row, f"{code} = {multiple}")
        cases = cases_for(table)
        assert failures(coverage(table, cases)) == []
        assert any(multiple + 1 in value.shape for c in cases if c.reason == code for value in c.graph.values)


# ------------------------------------------------------------------------------------ fewer limits


def test_a_row_or_constraint_that_the_table_drops_has_no_cases(tmp_path: Path) -> None:
    row = next(line for line in TEXT.splitlines(keepends=True) if line.startswith('"aten.neg.default"'))
    dropped = '"stride_h = [1, 2] @document", "indices_unused'
    table = changed(tmp_path, (row, ""), (dropped, '"indices_unused'))
    cases = cases_for(table)
    assert "aten.neg.default" not in {case.row for case in cases}
    indices = "aten.max_pool2d_with_indices.default"
    assert "stride_h" not in {case.constraint for case in cases if case.row == indices}
    assert "stride_h" in {case.constraint for case in cases if case.row == "aten.max_pool2d.default"}
    others = [case for case in cases_for(NEUTRON) if case.row != "aten.neg.default"]
    others = [case for case in others if not (case.row == indices and is_found(case))]  # of a row that said more
    assert set(cases) == {case for case in others if (case.row, case.constraint) != (indices, "stride_h")}


# ------------------------------------------------------------------------------------ what cannot be followed

ERRORS = {
    "rank": (('"rank = 4 @document", "channels', '"rank = 3 @document", "channels'), "aten.prelu.default: rank = 3"),
    "alpha": (("alpha = 1 @document", "alpha = 2 @document"), "aten.add.Tensor: alpha = 2"),
    "ceil_mode": (("ceil_mode = false", "ceil_mode = true"), "aten.avg_pool1d.default: ceil_mode = True"),
    "dilation": (("dilation = 1", "dilation = 2"), "aten.max_pool1d.default: dilation = 2"),
    "batch": (("batch = 1 @v1.3.1", "batch = 4 @v1.3.1"), "aten.convolution.default: batch = 4"),
    "dims": (("dims = [-1, -2]", "dims = [-1]"), "aten.mean.dim: dims = (-1,)"),
    "keepdim": (("keepdim = true", "keepdim = 1"), "aten.mean.dim: keepdim = 1: expected True, the only value that"),
    "step": (("step = 1", "step = 2"), "aten.slice_copy.Tensor: step = 2"),
    "min_inputs": (("min_inputs = 2", "min_inputs = 3"), "aten.cat.default: min_inputs = 3"),
    "no multiple": (
        ('"transposed = 8', '"transposed = 1'),
        "transposed = 1: expected a constraint that excludes something",
    ),
    "fraction": (('"transposed = 8', '"transposed = 8.0'), "transposed = 8.0: expected a whole number from 2 to 256"),
    "positions": (
        ("positions = 4096", "positions = 63"),
        "aten.prelu.default: positions = 63: expected a whole number",
    ),
    "unreachable": (
        ("max_channels = 2048", "max_channels = 100"),
        "max_size = 524288: expected less than 4096 positions",
    ),
    "max_rank of a transposition": (
        ('"max_rank = 8 @decision", "transposition', '"max_rank = 3 @decision", "transposition'),
        "aten.permute_copy.default: max_rank = 3: expected 4 to 16: with fewer dimensions there are no cases for",
    ),
    "min_rank": (("min_rank = 2", "min_rank = 1"), "aten._softmax.default: min_rank = 1"),
    "max_rank": (("max_rank = 5", "max_rank = 3"), "max_rank = 3: expected a whole number from 4 to 16"),
    "max_input_rank": (("max_rank = 7 @", "max_rank = 6 @"), "aten.squeeze.dim: max_input_rank = 8: expected a whole"),
    "scale": (("scale = [2, 4]", "scale = [2.5]"), "scale = (2.5,): expected a list of different whole numbers"),
    "strides": (("stride_h = [1, 2]", "stride_h = 2"), "stride_h = 2: expected a list of different whole numbers"),
    "bounds": (("[0, 6], [0, null]]", "[6, 0]]"), "expected a list of [low, high], numbers or null, not both null"),
    "output": (
        ("[0.0078125, 0]", "[0.0078125, 200]"),
        "expected [scale, zero point] with a positive scale and an int8",
    ),
    "macs": (("macs = 8\n", "macs = 5\n"), "parameters: macs = 5: expected one of [4, 6, 8"),
    "new rule": (
        (
            '"aten.abs.default" = { document = "", constraints = [',
            '"aten.abs.default" = { document = "", constraints = ["keepdim = true @document", ',
        ),
        "aten.abs.default: the suite has no cases of this row for 'keepdim'; it has some for max_rank, quantized,",
    ),
}


@pytest.mark.parametrize("fault", ERRORS)
def test_a_value_that_no_cases_can_follow_is_one_clear_error(fault: str, tmp_path: Path) -> None:
    change, message = ERRORS[fault]
    with pytest.raises(LimitError, match=re.escape(message)) as raised:
        cases_for(changed(tmp_path, change))
    assert str(raised.value).startswith("neutron@1.3: ") and "\n" not in str(raised.value)


def test_a_value_that_a_suite_never_reads_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    row = NEUTRON.row("aten.constant_pad_nd.default")
    hearing = FAMILIES[row.name].static
    assert hearing is not None
    deaf = replace(FAMILIES[row.name], static=lambda precision, limits: hearing(precision, Limits()))
    monkeypatch.setattr(rows, "FAMILIES", {row.name: deaf})
    with pytest.raises(LimitError, match="max_rank: the suite makes its cases of this row without regard to the value"):
        cases_for(replace(NEUTRON, rows=(row,)))


U55_ERRORS = {
    "summed_size": ("[64, 4096]", ("5", "[64]", "[100, 64]", "[1, 4]", "[64.0, 4096]", "[true, 4096]")),
    "divided_window": ("[64, 4096]", ("0", "[]", "[64, 100]", '["a", "b"]')),
    "dims": ("[1, 2]", ("0", "[]", "[3]", "[1, 1]", "[true]")),
    "resize_scale": ("[2, 4, 8]", ("0", '["a"]', "[2, 3]", "[2.0]")),
}


@pytest.mark.parametrize("code", U55_ERRORS)
def test_a_value_of_another_kind_is_one_error_on_ethos_u55(code: str, tmp_path: Path) -> None:
    old, values = U55_ERRORS[code]
    text = (FOLDER / "ethos_u55@1.5.toml").read_text()
    data = tomllib.loads(text)
    name = next(
        n for n, row in data["operators"].items() if any(c.startswith(f"{code} = ") for c in row["constraints"])
    )
    line = next(line for line in text.splitlines() if line.startswith(f'"{name}" = '))
    for value in values:
        head, rows = text.split("[operators]\n")
        used = line.replace(f"{code} = {old}", f"{code} = {value}".replace('"', '\\"'))
        assert used != line
        table = read_table(f"{head}[operators]\n{rows}".replace(line, used).encode(), "u55.toml")
        only = replace(table, rows=(table.row(name),))
        with pytest.raises(LimitError, match=re.escape(f"ethos_u55@1.5: {name} (")) as raised:
            all_cases(only)
        assert f": {code} = " in str(raised.value) and ": expected " in str(raised.value)


@pytest.mark.parametrize("value", [(), 0, -1, True, 2, "x", float("nan")])
def test_the_least_ratio_of_scales_is_a_number(value: object) -> None:
    limits = Limits("t@1: row", ("add_scale_ratio",), {"add_scale_ratio": value})
    with pytest.raises(LimitError, match=r"add_scale_ratio = .*: expected a number from 9\.53674e-07 to 1"):
        limits.real("add_scale_ratio", 2.0**-10, 2.0**-20, 1.0)


@pytest.mark.parametrize(
    ("table", "known", "unknown"),
    [
        ("neutron@1.3", "aten.prelu.default", "aten.where.self"),
        ("xnnpack@1.5", "aten.bmm.default", "aten.where.self"),
        ("ethos_u85@1.5", "aten.where.self", "aten.prelu.default"),
    ],
)
def test_an_operator_without_cases_names_those_that_have_some(table: str, known: str, unknown: str) -> None:
    """Those that have some in the precisions of the row."""
    real = load_table(table)
    strange = replace(real, rows=(replace(real.rows[0], name="aten.frobnicate.default"),))
    with pytest.raises(SelectionError, match=r"none of \d+ is called like it$"):
        all_cases(strange)
    misspelt = {name: ".".join((name.split(".")[0], f"{name.split('.')[1]}s", "x")) for name in (known, unknown)}
    for name, wrong in misspelt.items():
        with pytest.raises(SelectionError, match=re.escape(f"has no cases for {wrong!r}")) as raised:
            all_cases(replace(strange, rows=(replace(real.rows[0], name=wrong),)))
        listed = str(raised.value).rpartition("; ")[2].removeprefix("nearest: ").split(", ")
        assert (name in listed) == (name == known) and len(listed) <= 5


def test_the_command_line_prints_the_error_in_one_line(tmp_path: Path) -> None:
    changed(tmp_path, ERRORS["batch"][0])
    result = CliRunner().invoke(
        main,
        [
            "certify",
            "npu_assay.partitioners.neutron:backend",
            "--table",
            str(tmp_path / "other.toml"),
            "--out",
            str(tmp_path / "out"),
        ],
    )
    assert result.exit_code == 2
    assert result.output.startswith(
        "assay: neutron@1.3: aten.convolution.default: batch = 4: expected 1, the only value"
    )
    assert result.output.count("\n") == 1


def test_counts_around_a_multiple() -> None:
    assert around(8) == (1, 4, 7, 9, 12)
    assert around(2) == (1, 3)
    assert past(3, 0, 3, 4, 4, 2) == (4, 2)
