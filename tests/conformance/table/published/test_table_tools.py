"""`assay table`: import, lint, diff, reference, upgrade."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import strict_backend
from calling import call
from click.testing import Result

from npu_assay.conformance.table import FOLDER, load_table, read_table
from npu_assay.conformance.table.changes import changes
from npu_assay.conformance.table.published import imported, read_text
from npu_assay.conformance.table.published.cells import read_constraints
from npu_assay.conformance.table.published.names import meant_by

NEUTRON = (FOLDER / "neutron@1.3.toml").read_text()
STRICT = Path(strict_backend.TABLE).read_text()
CSV = """Operator,Compute DType,Quantization,Constraints
# a remark
aten.abs.default,int8,static int8,
aten.mean.dim,int8,static int8,"4D tensor only, keepdim=True"
aten.max_pool2d.default,int8,static int8,"dilation=1, ceil_mode=False, stride < 4096, whatever (a, b) is"
aten.sub.Tensor,int8,static int8,alpha = 1
aten.frobnicate.default,int8,static int8,
aten.split.default,N/A,N/A,
"""
MARKDOWN = """# Operators

Some words.

| EdgeIR operator | Compute DType | Quantization |
| --------------- | ------------- | ------------ |
| abs.default | Static integer quantization | 8x8 |
| add.Tensor | Static integer quantization | 16x8 / 8x8 |
| bitwise_not.default | Static integer quantization | 8x8 |
"""


def table(*arguments: object) -> Result:
    return call("table", *arguments)


def made(text: str) -> dict[str, object]:
    """The rows of an imported table: constraints and precisions by operator."""
    found = read_table(imported(read_text(text, "t"), "t", "1", "T", "s").text.encode(), "t.toml")
    return {row.name: ([c.code for c in row.constraints], list(row.precisions)) for row in found.rows}


# ------------------------------------------------------------------------------------ import


def test_a_published_csv_becomes_rows() -> None:
    assert made(CSV) == {
        "aten.abs.default": ([], []),
        "aten.mean.dim": (["c_4d_tensor_only", "keepdim_true"], []),
        "aten.max_pool2d.default": (
            ["dilation_1", "ceil_mode_false", "stride_below_4096", "unread_whatever_a_b_is"],
            [],
        ),
        "aten.sub.Tensor": (["alpha_1"], []),
        "aten.split.default": ([], []),
    }


def test_a_published_table_of_markdown_becomes_rows() -> None:
    assert made(MARKDOWN) == {
        "aten.abs.default": ([], ["int8"]),
        "aten.add.Tensor": ([], ["int8", "int16"]),
        "aten.bitwise_not.default": ([], ["integers"]),
    }


def test_what_is_not_known_or_not_read_is_marked() -> None:
    found = imported(read_text(CSV, "t"), "t", "1", "T", "s")
    text = found.text
    assert [(each.line, each.text) for each in found.left] == [
        (2, "# a remark"),
        (7, "aten.frobnicate.default | int8 | static int8"),
    ]
    assert all(f"# {each}\n" in text for each in found.left)
    assert [(each.line, each.text) for each in found.unread] == [(5, "whatever (a, b) is")]
    assert (
        'unread_whatever_a_b_is = { says = "whatever (a, b) is", unchecked = "not read from the published table" }'
        in text
    )


@pytest.mark.parametrize(
    ("row", "text", "expected"),
    [
        ("aten.mean.dim", "keepdim=True required; max 2D reductions", ["keepdim", "len(reduced) <= 2"]),
        ("aten.max_pool2d.default", "stride < 4096", ["stride_h < 4096 and stride_w < 4096"]),
        ("aten.max_pool1d.default", "stride < 4096", ["stride_w < 4096"]),
        ("aten.avg_pool2d.default", "divisor_override=False", ["divisor_override is None"]),
        ("aten._softmax.default", "rank > 1, channels % 8 = 0", ["x.rank > 1", "channels % 8 == 0"]),
        (
            "aten.upsample_nearest2d.vec",
            "H_scale = 1, 2, 4 or 8",
            ["out.shape[2] / x.shape[2] in (1, 2, 4, 8)"],
        ),
        ("aten.abs.default", "N/A", []),
        ("aten.clamp.default", "Bounds = (-1, 1) or (0, 1)", ["bounds in value"]),
    ],
)
def test_what_is_read_of_words(row: str, text: str, expected: list[str]) -> None:
    assert [read.holds for read in read_constraints(row, text)] == expected


def test_a_name_without_overload_is_every_overload() -> None:
    overloads = ("Scalar", "Scalar_mode", "Tensor", "Tensor_mode")
    assert meant_by("div") == ({f"aten.div.{overload}": "" for overload in overloads}, ())
    assert meant_by("abs.default") == ({"aten.abs.default": ""}, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found no table"),
        ("a,b\n1,2\n", "found the headings ['a', 'b'], expected one of them to be 'operator'"),
        ("# only a remark\n", "found no table"),
        ("x" * 2**21, "expected at most"),
        ("Operator,Notes\n", "found headings and no line below them"),
    ],
)
def test_what_is_no_published_table_is_one_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    result = table("import", tmp_path / "t.csv", "--name", "t", "--out", tmp_path / "t.toml")
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "t.toml").exists()


def test_an_imported_table_is_clean_but_for_what_was_not_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    assert table("import", tmp_path / "t.csv", "--name", "t", "--out", tmp_path / "t.toml").exit_code == 0
    assert table("import", tmp_path / "t.csv", "--name", "t", "--out", tmp_path / "t.toml").exit_code == 2
    result = table("lint", tmp_path / "t.toml")
    assert result.exit_code == 1
    (found, count) = result.output.splitlines()
    assert "unread_whatever_a_b_is: no case checks it in aten.max_pool2d.default: not read from the pub" in found
    assert count == "1 finding"


@pytest.mark.parametrize("data", [b"\xff\xfe", None])
def test_a_file_that_cannot_be_read_is_one_error(data: bytes | None, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "t.csv").write_bytes(data)
    result = table("import", tmp_path / "t.csv", "--name", "t")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


# ------------------------------------------------------------------------------------ lint


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.toml")))
def test_the_tables_that_ship_are_clean(name: str) -> None:
    result = table("lint", name)
    lines = result.output.splitlines()
    unknown = [line for line in lines if "the suite has no cases for this operator" in line]
    reasons = {rule.unchecked for rule in load_table(name).own.definitions if rule.unchecked}
    told = [
        line
        for line in lines
        if "no case checks it" in line and line.partition(" checks it in ")[2].partition(": ")[2] in reasons
    ]
    assert len(unknown) + len(told) == len(lines) - 1
    assert all("while_loop" in line or "cond" in line or "ne." in line or "select_scatter" in line for line in unknown)


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('"keepdim"', '"keepdims"', "did you mean 'keepdim'?"),
        (
            '"aten.mean.dim"',
            '"aten.meen.dim"',
            "aten.meen.dim: the suite has no cases for this operator; nearest: aten.mean.dim",
        ),
        ("own_axis = 3", "own_axis = 99999999", "no program near the plain one was found for which own_axis"),
        (
            '"aten.mean.dim" = { document = "", precisions = ["int8"], constraints = ["kept @document"] }',
            '"aten.mean.dim" = { document = "kept", constraints = [] }',
            "no operator uses 'kept'",
        ),
    ],
)
def test_every_fault_is_found(old: str, new: str, finding: str, tmp_path: Path) -> None:
    """And all of them in one go: two faults are two lines."""
    small = "\n".join(line for line in STRICT.splitlines() if "convolution" not in line or '"aten.conv' not in line)
    for code in ("images", "reach", "odd_kernels", "weights_fit", "in_lanes", "out_lanes"):
        small = "\n".join(line for line in small.splitlines() if not line.startswith(f"{code} ="))
    assert old in small
    (tmp_path / "t.toml").write_text(small.replace(old, new))
    result = table("lint", tmp_path / "t.toml")
    assert result.exit_code in (1, 2)
    assert finding in result.output
    assert "Traceback" not in result.output


def test_what_all_rows_have_in_common_needs_one_row_that_shows_it(tmp_path: Path) -> None:
    """No case of softmax over the last dimension alone has an open size; certify takes such a table, too."""
    text = """schema = 2
name = "mine"
version = "0.1"
backend_id = "MineBackend"
source = "a document"
rescale = ""
[parameters]
[common]
constraints = ["static_shape @document"]
[constraints]
static_shape = "every dimension must be a known number, at least 1"
last_dim = { says = "over the last dimension only", holds = "dim == x.rank - 1" }
[operators]
"aten._softmax.default" = { document = "", precisions = ["int8"], constraints = ["last_dim @document"] }
"""
    alone, beside = tmp_path / "alone.toml", tmp_path / "beside.toml"
    alone.write_text(text)
    beside.write_text(f'{text}"aten.relu.default" = {{ document = "", precisions = ["int8"], constraints = [] }}\n')
    assert "static_shape: no case outside" in table("lint", alone).output
    found = table("lint", beside)
    assert found.exit_code == 0 and found.output == "0 findings\n"


# ------------------------------------------------------------------------------------ diff


def other(*replaced: tuple[str, str]) -> list[str]:
    text = STRICT
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    return [str(change) for change in changes(read_table(STRICT.encode(), "a"), read_table(text.encode(), "b"))]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('version = "1.0"', 'version = "1.1"', "version: 1.0 -> 1.1"),
        ("few = 65536", "few = 4096", "aten.add.Tensor: constraint: few = 65536 @document -> few = 4096 @document"),
        ('"few = 65536 @document"', '"few = 65536 for int8 @1.5"', "few = 65536 for int8 @1.5"),
        ("fits @document", "fits @1.5", "every row: constraint: fits @document -> fits @1.5"),
        ('holds = "keepdim"', 'holds = "not keepdim"', "kept: definition: keepdim -> not keepdim"),
        ('says = "no broadcasting"', 'says = "none"', "alike: sentence: no broadcasting -> none"),
        ('"aten.mul.Tensor" =', '"aten.sub.Tensor" =', "aten.mul.Tensor: row: promised -> none"),
        ('"aten.mul.Tensor" =', '"aten.sub.Tensor" =', "aten.sub.Tensor: row: none -> promised"),
        (
            '"aten.relu.default" = { document = ""',
            '"aten.relu.default" = { document = "x"',
            "aten.relu.default: document: none -> x",
        ),
    ],
)
def test_a_change_is_one_line(old: str, new: str, expected: str) -> None:
    assert any(expected in line for line in other((old, new)))
    assert len(other((old, new))) <= 2


def test_a_table_is_the_same_as_itself() -> None:
    assert other() == []
    assert table("diff", "neutron@1.3", "neutron@1.3").exit_code == 0


def test_the_tables_of_two_devices_differ() -> None:
    result = table("diff", "ethos_u55@1.5", "ethos_u85@1.5")
    assert result.exit_code == 1
    found = json.loads(table("diff", "ethos_u55@1.5", "ethos_u85@1.5", "--json").output)
    assert result.output.splitlines()[-1] == f"{len(found)} differences"
    assert {"where", "what", "before", "after"} == set(found[0])


# ------------------------------------------------------------------------------------ reference and upgrade


def test_the_page_of_a_table_has_every_row_and_code(tmp_path: Path) -> None:
    result = table("reference", "neutron@1.3", "--out", tmp_path / "n.md")
    assert result.exit_code == 0
    page, neutron = (tmp_path / "n.md").read_text(), load_table("neutron@1.3")
    for row in neutron.rows:
        assert f"\n## {row.name}\n" in page
    for code, _ in neutron.meanings:
        assert f"| `{code}` |" in page
    assert f"{len(neutron.rows)} operators, 3774 cases." in page


def test_an_older_schema_is_rewritten_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    path.write_text(NEUTRON)
    assert "now schema 2" in table("upgrade", path).output
    assert path.read_text() == NEUTRON.replace("schema = 1\n", "schema = 2\n")
    assert "already schema 2" in table("upgrade", path).output
    assert [p.name for p in tmp_path.iterdir()] == ["n.toml"]


@pytest.mark.parametrize("text", ["", "schema = 7\n", NEUTRON.replace("schema = 1\n", "schema = true\n"), None])
def test_what_is_no_table_is_not_rewritten(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    if text is not None:
        path.write_text(text)
    result = table("upgrade", path)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert text is None or path.read_text() == text
