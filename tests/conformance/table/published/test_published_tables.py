"""Published tables lose nothing: what is not read right is marked, and what is not in the table is listed."""

from __future__ import annotations

import io
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import openpyxl
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, assume, given, settings

from npu_assay.conformance.cli import main
from npu_assay.conformance.table.published import Imported, imported, read_file, read_text
from npu_assay.conformance.table.published.cells import read_constraints
from npu_assay.conformance.table.published.names import meant_by

# ------------------------------------------------------------------------------------ phrases

OTHERS = [
    ("permute_copy.default", "Only specific transpositions supported", ""),
    ("convolution.default", "kernel <= 3x3", "kernel_h <= 3 and kernel_w <= 3"),
    ("convolution.default", "Kernel size must be at most 11x7.", "kernel_h <= 11 and kernel_w <= 7"),
    ("convolution.default", "max. kernel 5", ""),
    ("convolution.default", "max kernel 5", "kernel_h <= 5 and kernel_w <= 5"),
    ("convolution.default", "stride 1 or 2", "stride_h in (1, 2) and stride_w in (1, 2)"),
    ("convolution.default", "kernel 1x1, 3x3 or 5x5", "(kernel_h, kernel_w) in ((1, 1), (3, 3), (5, 5))"),
    ("convolution.default", "kernel height in the range [1, 64]", "kernel_h >= 1 and kernel_h <= 64"),
    ("convolution.default", "kernel_h * kernel_w <= 4096", "kernel_h * kernel_w <= 4096"),
    ("convolution.default", "input channels divisible by 8", "in_channels % 8 == 0"),
    ("convolution.default", "groups=1 or groups=channels_count (depthwise)", "groups == 1 or groups == channels"),
    ("convolution.default", "constant weights", "weight.is_constant"),
    ("convolution.default", "no bias", "bias is None"),
    ("convolution.default", "only 3x3 kernels supported", "kernel_h == 3 and kernel_w == 3"),
    ("max_pool2d.default", "ceil_mode=True not supported", "not ceil_mode"),
    ("clamp.default", "Bounds = (-1, 1) or (0, None)", "bounds in value"),
    ("constant_pad_nd.default", "H or W padding only", "0 not in padded and 1 not in padded"),
    ("add.Tensor", "no broadcasting", "x.shape == y.shape"),
    ("add.Tensor", "4D tensors only", "all(t.rank == 4 for t in operands)"),
    ("linear.default", "in_features <= 4096", "x.shape[-1] <= 4096"),
    ("linear.default", "weights of at most 8 KiB", "weight.bytes <= 8192"),
    ("_softmax.default", "last axis only", "dim == x.rank - 1"),
    ("addmm.default", "in_features <= 64", "mat1.shape[-1] <= 64"),
    ("relu.default", "channels must be a multiple of 16", "channels % 16 == 0"),
    ("relu.default", "each dimension <= 4", "all(size <= 4 for size in x.shape)"),
    ("relu.default", "height and width must be even", "height % 2 == 0 and width % 2 == 0"),
]
MISLEADING = [
    ("convolution.default", "dilation supported"),
    ("convolution.default", "stride 2 supported"),
    ("convolution.default", "bias not required"),
    ("convolution.default", "filters <= 64"),
    ("mean.dim", "keepdim not required"),
    ("convolution.default", "kernel <= 3, unless groups = 1"),
    ("convolution.default", "for depthwise, kernel <= 3, stride <= 2"),
    ("convolution.default", "int16: channels % 4 = 0, rank <= 4"),
    ("convolution.default", "stride 1 when dilation > 1"),
    ("convolution.default", "kernel must not be 3"),
    ("convolution.default", "kernel size in [1, 8]"),
    ("convolution.default", "kernel <= 4k"),
    ("convolution.default", "kernel <= 3 pixels or so"),
    ("convolution.default", "height / width <= 4"),
    ("relu.default", "dimensions <= 65536"),
    ("mm.default", "N <= 1024"),
    ("constant_pad_nd.default", "value = 0"),
    ("relu.default", "{value} <= 3"),
    ("relu.default", "channels % 0 = 0"),
    ("argmax.default", "dim = 1"),
    ("clamp.Tensor", "Bounds = (0, 1)"),
]
"""Phrases that would be read wrongly if a word of them were passed over."""


@pytest.mark.parametrize(("row", "text", "expected"), OTHERS)
def test_a_phrase_is_read_right_or_marked(row: str, text: str, expected: str) -> None:
    (read,) = read_constraints(f"aten.{row}", text, "int8")
    assert read.holds == expected
    assert expected or (read.is_unread and read.says == text and read.code.startswith("unread_"))


def test_of_operands_of_one_shape_the_first_tells_the_rank() -> None:
    reads = read_constraints("aten.add.Tensor", "4D tensors only, no broadcasting", "int8")
    assert [read.holds for read in reads] == ["x.rank == 4", "x.shape == y.shape"]


@pytest.mark.parametrize(("row", "text"), MISLEADING)
def test_what_may_mean_something_else_is_not_read(row: str, text: str) -> None:
    reads = list(read_constraints(f"aten.{row}", text, "int8"))
    assert not any(read.holds for read in reads)
    assert ", ".join(read.says for read in reads) == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean_dim", "aten.mean.dim"),
        ("batch_norm", "aten._native_batch_norm_legit_no_training.default"),
        ("layer_norm", "aten.native_layer_norm.default"),
        ("reshape", "aten.view_copy.default"),
        ("torch.nn.functional.avg_pool2d", "aten.avg_pool2d.default"),
        ("nn.LeakyReLU", "aten.leaky_relu.default"),
        ("FULLY_CONNECTED", "aten.linear.default"),
        ("CONCATENATION", "aten.cat.default"),
        ("tosa.RECIPROCAL", "aten.reciprocal.default"),
        ("aten::hardtanh", "aten.hardtanh.default"),
        ("Conv2D (depthwise)", ""),
        ("operator.add", ""),
    ],
)
def test_a_name_of_another_vocabulary_is_the_suites(name: str, expected: str) -> None:
    assert list(meant_by(name)[0]) == ([expected] if expected else [])


# ------------------------------------------------------------------------------------ tables


def table(text: str) -> tuple[dict[str, Any], Imported]:
    made = imported(read_text(text, "t"), "t", "1", "T", "s")
    return tomllib.loads(made.text), made


def limits(data: dict[str, Any], row: str) -> list[str]:
    """Each limit of a row: its predicate or "", and the precisions that it is for."""
    found = []
    for text in data["operators"][row]["constraints"]:
        code, _, rest = text.removesuffix(" @document").partition(" for ")
        found.append(f"{data['constraints'][code].get('holds', '')} {rest}".strip())
    return found


def test_columns_are_known_by_what_their_headings_mean() -> None:
    data, made = table("Op | Data types | Limits\n---|---|---\nrelu | INT8/INT16 | rank <= 4\n")
    assert data["operators"]["aten.relu.default"]["precisions"] == ["int8", "int16"]
    assert limits(data, "aten.relu.default") == ["x.rank <= 4"]
    assert not made.left and not made.unread


def test_a_second_line_of_an_operator_is_about_its_own_type_or_an_alternative() -> None:
    data, made = table(
        "Layer;Precision;Restrictions\n"
        "Conv;s8;kernel <= 5\nConv;s16;kernel <= 3\n"
        "relu;int8, int16;rank <= 3\nrelu;int8, int16;rank == 5\n"
        "abs;8x8;rank <= 3\nabs;8x8;\n"
    )
    assert limits(data, "aten.convolution.default") == [
        "kernel_h <= 5 and kernel_w <= 5 int8",
        "kernel_h <= 3 and kernel_w <= 3 int16",
    ]
    assert limits(data, "aten.relu.default") == ["(x.rank <= 3) or (x.rank == 5)"]
    assert limits(data, "aten.abs.default") == [""]
    assert ["rank <= 3" in each.text for each in made.unread] == [True]


def test_lines_without_an_operator_go_on_with_the_one_above() -> None:
    data, _ = table("Operator\tTypes\tNotes\nrelu\tint8\trank <= 4\n\t\tchannels % 8 = 0\n\tint16\t\n")
    assert data["operators"]["aten.relu.default"]["precisions"] == ["int8", "int16"]
    assert limits(data, "aten.relu.default") == ["x.rank <= 4 int8", "channels % 8 == 0 int8"]


def test_columns_of_types_say_yes_or_no() -> None:
    data, made = table("Operator,FP32,INT8,Supported\nabs,yes,no,yes\nneg,no,no,\nrelu,✓,✓,no\nexp,yes,partly,\n")
    assert {name: row["precisions"] for name, row in data["operators"].items()} == {
        "aten.abs.default": ["fp32"],
        "aten.exp.default": ["fp32"],
    }
    assert [each.line for each in made.left] == [1, 3, 4]
    assert "INT8: partly" in data["operators"]["aten.exp.default"]["document"]


def test_what_the_suite_cannot_say_is_left_out_in_so_many_words() -> None:
    _, made = table('Operator,Types,Since\nrelu,"int8, bf16",1.2\nconv2d,"8x8, 8x4",1.0\nfoo,int8,0.9\n')
    assert [(each.line, each.text) for each in made.left] == [
        (1, "Since"),
        (2, "bf16"),
        (3, "int4"),
        (4, "foo | int8 | 0.9"),
    ]


def test_the_generated_tables_of_the_next_release_are_read() -> None:
    data, made = table(
        "# Support\n\n| PyTorch API | Support profile | DType | Quantization mode |\n| --- | --- | --- | --- |\n"
        "| `torch.add` / `+` | INT | `INT8`, `INT16` | 8x8, 16x8 |\n"
        "| `torch.nn.Linear` / `torch.nn.functional.linear` | INT | `INT8`, `INT4` | 8x8, 8x4 |\n"
    )
    assert data["operators"]["aten.add.Tensor"]["precisions"] == ["int8", "int16"]
    assert data["operators"]["aten.linear.default"]["precisions"] == ["int8"]
    assert [each.text for each in made.left] == ["Support profile", "int4"]


def test_headings_stand_below_a_title_that_names_operators() -> None:
    data, made = table("Supported operators,,\nOp,Types,Limits\nrelu,8x8,rank <= 4\n")
    assert limits(data, "aten.relu.default") == ["x.rank <= 4"]
    assert [each.text for each in made.left] == ["Supported operators"]


def test_a_table_without_any_known_operator_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Operator\nfoo\nbar\n")
    done = call("import", tmp_path / "t.csv", "--name", "t")
    assert done.exit_code == 2 and len(done.output.splitlines()) == 1 and "line 2: 'foo'" in done.output


def test_words_beside_a_table_and_drawn_grids() -> None:
    data, made = table(
        "Everything is batch 1.\n\n+----------+-------+-------------+\n| Operator | Types | Notes       |\n"
        "+==========+=======+=============+\n| relu     | int8, | rank <= 4,  |\n|          | int16 | batch = 1   |\n"
        "+----------+-------+-------------+\n"
    )
    assert limits(data, "aten.relu.default") == ["x.rank <= 4", "batch == 1"]
    assert [each.text for each in made.left] == ["Everything is batch 1."]


# ------------------------------------------------------------------------------------ every cell


OPERATORS = {"abs": "abs.default", "aten.relu.default": "relu.default", "Tanh": "tanh.default", "nosuch": ""}
TYPES = {"int8": "int8", "INT16": "int16", "s8": "int8", "fp32": "fp32", "float16": "fp16", "bf16": "", "8x8": "int8"}
PHRASES = ("rank <= 4", "channels % 8 = 0", "batch = 1", "tiles fit (a, b)", "no foo", "up to 5D", "see page 3")
HEADINGS = st.tuples(
    st.sampled_from(["Operator", "Op", "Layer name", "PyTorch API", "**Operation**", "NAME"]),
    st.sampled_from(["Data types", "dtype", "Supported Precision", "Types", "Quantization mode"]),
    st.sampled_from(["Limits", "Constraints", "Restrictions / notes", "Comments", "Conditions", "Remarks"]),
    st.sampled_from(["Since", "Owner", "Ticket"]),
)
LINES = st.lists(
    st.tuples(
        st.sampled_from([*OPERATORS]),
        st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=3, unique=True),
        st.lists(st.sampled_from(PHRASES), max_size=3, unique=True),
        st.sampled_from(["", "1.4", "someone"]),
    ),
    min_size=1,
    max_size=4,
)
JOINED = st.sampled_from([", ", "/", " / ", "; "])


def workbook(lines: Sequence[Sequence[str | None]], *merged: str) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for line in lines:
        sheet.append(list(line))
    for cells in merged:
        sheet.merge_cells(cells)
    return book


def written(form: str, lines: Sequence[Sequence[str]], folder: Path) -> Path:
    path = folder / f"t.{form}"
    if form == "xlsx":
        workbook(lines).save(path)
    elif form == "md":
        rows = [f"| {' | '.join(line)} |" for line in lines]
        path.write_text("\n".join([rows[0], "|---" * len(lines[0]) + "|", *rows[1:]]), encoding="utf-8")
    else:
        mark = {"csv": ",", "tsv": "\t", "ssv": ";"}[form]
        quoted = (mark.join('"' + cell.replace('"', '""') + '"' for cell in line) for line in lines)
        path.write_text("\n".join(quoted), encoding="utf-8")
    return path


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(headings=HEADINGS, lines=LINES, joined=JOINED, form=st.sampled_from(["csv", "tsv", "ssv", "md", "xlsx"]))
def test_every_cell_is_in_the_table_or_listed(
    headings: tuple[str, ...], lines: list[Any], joined: str, form: str, tmp_path: Path
) -> None:
    # An import of no operator, or in no type of the suite, is an error of its own.
    assume(any(OPERATORS[name] and any(map(TYPES.__getitem__, kinds)) for name, kinds, *_ in lines))
    cells = [headings, *((name, joined.join(kinds), "; ".join(said), more) for name, kinds, said, more in lines)]
    made = imported(read_file(written(form, cells, tmp_path)), "t", "1", "T", "s")
    data = tomllib.loads(made.text)
    for number, (name, kinds, said, more) in enumerate(lines, 2 if form != "md" else 3):
        left = {each.text for each in made.left if each.line == number}
        row = data.get("operators", {}).get(f"aten.{OPERATORS[name]}")
        if row is None or not any(map(TYPES.__getitem__, kinds)):  # a line of other types says nothing of the row
            assert any(text.startswith(name) for text in left)
            continue
        promised = {each.removeprefix("static_") for each in row.get("precisions", [])} or {"int8"}
        for kind in kinds:
            assert TYPES[kind] in promised or kind in left, (kind, row)
        says = " ".join(data["constraints"][text.split(" ")[0]]["says"] for text in row["constraints"])
        for phrase in said:
            assert phrase in says, (phrase, row)
        assert more in row["document"]
    extra = any(line[3] for line in lines)
    assert extra == any(each.text == headings[3] for each in made.left)


@settings(max_examples=150, deadline=None)
@given(
    st.text(alphabet=st.sampled_from("kernel stride<=>%x*/()[]{},.;:-0123456789ahdw\n\"'|{value}=ormu"), max_size=60)
)
def test_no_text_breaks_the_import(text: str) -> None:
    cell = text.replace('"', '""')
    data, made = table(f'Operator,Types,Notes\naten.convolution.default,8x8,"{cell}"\n')
    row = data["operators"]["aten.convolution.default"]
    kept = "".join(row["document"].split())
    assert "".join(text.split()).strip() == kept
    assert len(made.unread) <= len(row["constraints"])


# ------------------------------------------------------------------------------------ the command


def call(*words: object) -> Result:
    return CliRunner().invoke(main, ["table", *map(str, words)])


def test_strict_ends_with_1_where_something_was_lost(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Operator,Types,Notes\nrelu,8x8,rank <= 4\n")
    words = ("import", tmp_path / "t.csv", "--name", "t", "--force", "--out", tmp_path / "t.toml")
    assert call(*words, "--strict").exit_code == 0
    (tmp_path / "t.csv").write_text("Operator,Types,Notes\nrelu,8x8,in full moon\n")
    assert call(*words).exit_code == 0
    done = call(*words, "--strict")
    assert done.exit_code == 1
    assert "t.csv: line 2: 'in full moon': not read, of aten.relu.default" in done.stderr
    assert done.stderr.splitlines()[-1] == "0 predicates read; 1 text not read, 0 left out"


def test_merged_cells_of_a_sheet_stand_in_every_line(tmp_path: Path) -> None:
    lines = (["My NPU"], ["Operator", "Types", "Notes"], ["abs", "int16", "rank <= 4"], ["neg", None, None])
    workbook(lines, "B3:B4", "C3:C4").save(tmp_path / "t.xlsx")
    made = imported(read_file(tmp_path / "t.xlsx"), "t", "1", "T", "s")
    data = tomllib.loads(made.text)
    assert [limits(data, f"aten.{name}.default") for name in ("abs", "neg")] == [["x.rank <= 4"]] * 2
    assert data["operators"]["aten.neg.default"]["precisions"] == ["int16"]
    assert [each.text for each in made.left] == ["My NPU"]


@pytest.mark.parametrize("kind", ["no_zip", "bomb", "entity", "other_zip"])
def test_a_sheet_that_cannot_be_read_is_one_line(kind: str, tmp_path: Path) -> None:
    path, memory = tmp_path / "t.xlsx", io.BytesIO()
    workbook([["Operator"]]).save(memory)
    if kind == "no_zip":
        path.write_bytes(b"PK\3\4" + b"x" * 100)
    else:
        with zipfile.ZipFile(memory) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist() if kind != "other_zip" else ():
                data = old.read(name)
                if kind == "entity" and name.endswith("sheet1.xml"):
                    data = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + data.replace(
                        b"<v>0</v>", b"<v>&b;</v>"
                    )
                new.writestr(name, data)
            new.writestr("more", b"\0" * 2**26 if kind == "bomb" else b"x")
    done = call("import", path, "--name", "t", "--out", tmp_path / "t.toml")
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1 and "t.xlsx" in done.output
    assert ("unpacks to" in done.output) == (kind == "bomb")
    assert not (tmp_path / "t.toml").exists()


def test_without_openpyxl_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    openpyxl.Workbook().save(tmp_path / "t.xlsx")
    done = call("import", tmp_path / "t.xlsx", "--name", "t")
    assert done.exit_code == 2 and "pip install npu-assay[xlsx]" in done.output


# ------------------------------------------------------------------------------------ what is made of it


@pytest.mark.long
def test_read_predicates_have_cases_on_both_sides(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "Layer;Types;Conditions\n"
        "ReLU;int8;rank <= 4, channels multiple of 16\n"
        "_softmax;int8;last axis only\n"
        "add.Tensor;int8;no broadcasting\n"
        "max_pool2d.default;int8;kernel <= 3x3, stride 1 or 2\n"
        "constant_pad_nd;int8;H or W padding only\n"
        "clamp.default;int8;Bounds = (-1, 1) or (0, 6)\n"
    )
    done = call("import", tmp_path / "t.csv", "--name", "t", "--out", tmp_path / "t.toml", "--strict")
    assert done.exit_code == 0, done.output
    found = call("lint", tmp_path / "t.toml")
    assert found.output == "0 findings\n" and found.exit_code == 0
