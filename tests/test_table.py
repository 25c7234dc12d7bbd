"""Reading support tables: the shipped one in full, and one clear error for each way to get one wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npu_assay.conformance.run.selection import SelectionError, all_cases
from npu_assay.conformance.table import FOLDER, RESCALES, Table, TableError, held, load_table
from npu_assay.conformance.table.constraints import Constraint, parse_constraint, shown
from npu_assay.conformance.table.preserved import check_preserved

NEUTRON = load_table("neutron@1.3")

SMALL = """\
schema = 1
name = "toy"
version = "1.0"
backend_id = "ToyBackend"
source = "a test"
rescale = "tflite_double_round"

[parameters]
macs = 8

[common]
constraints = ["quantized @document"]

[constraints]
quantized = "must be quantized"
rank = "the rank must be {value}"

[operators]
"aten.abs.default" = { document = "", constraints = [] }
"aten.relu.default" = { document = "rank 4", constraints = ["rank = 4 @document"] }
"""
RELU = '"aten.relu.default" = { document = "rank 4", constraints = ["rank = 4 @document"] }\n'
NEG = '"aten.neg.default" = { document = "8x8", precisions = ["int8"], constraints = ["rank = 4 @1.5.1"] }\n'
SQRT = '"sqrt.default" = { document = "8x8", operators = ["aten.abs.default"] }\n'
SMALL_INTEGER = (
    SMALL.split("[operators]")[0].replace('"quantized @document"', "").replace('quantized = "must be quantized"\n', "")
    + """[operators]
"aten.abs.default" = { document = "", precisions = ["int8"], constraints = [] }
"""
)
DOCUMENTED = f"[refused]\n{NEG}[rewritten]\n{SQRT}"


def _load(folder: Path, text: str) -> Table:
    path = folder / "toy@1.0.toml"
    path.write_text(text)
    return load_table(str(path))


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


# ------------------------------------------------------------------------------------ what is refused

FAULTS = {
    "unknown key in a row": (
        ('document = "rank 4", ', 'documnt = "rank 4", '),
        "toy@1.0.toml: aten.relu.default: unknown key 'documnt', did you mean 'document'?",
    ),
    "unknown key at the top": (
        ("schema = 1", 'schema = 1\nnmae = "x"'),
        "toy@1.0.toml: unknown key 'nmae', did you mean 'name'?",
    ),
    "unknown key far from any": (
        ("schema = 1", 'schema = 1\nqqq = "x"'),
        "toy@1.0.toml: unknown key 'qqq'; known: backend_id, common,",
    ),
    "missing key at the top": (('version = "1.0"\n', ""), "toy@1.0.toml: key 'version' is missing"),
    "missing key in a row": (
        ('document = "rank 4", ', ""),
        "toy@1.0.toml: aten.relu.default: key 'document' is missing",
    ),
    "duplicate operator": (
        ("[operators]\n", '[operators]\n"aten.abs.default" = { document = "", constraints = [] }\n'),
        'toy@1.0.toml: operator "aten.abs.default" stands twice, again on line 20',
    ),
    "unknown constraint": (
        ("rank = 4 @document", "ranks = 4 @document"),
        "toy@1.0.toml: aten.relu.default: constraints: unknown constraint 'ranks', did you mean 'rank'?",
    ),
    "constraint without a sentence": (
        ("rank = 4 @document", "unfused @document"),
        "toy@1.0.toml: aten.relu.default: constraints: unknown constraint 'unfused': "
        "[constraints] has no sentence for it",
    ),
    "unknown common constraint": (
        ('["quantized @document"]', '["quantised @document"]'),
        "toy@1.0.toml: common: constraints: unknown constraint 'quantised', did you mean 'quantized'?",
    ),
    "constraint twice": (
        ('["rank = 4 @document"]', '["rank = 4 @document", "rank = 3 @decision"]'),
        "toy@1.0.toml: aten.relu.default: constraints: 'rank' stands twice",
    ),
    "value missing": (
        ("rank = 4 @document", "rank @document"),
        "toy@1.0.toml: aten.relu.default: constraints: constraint 'rank' needs a value",
    ),
    "value too many": (
        ('["quantized @document"]', '["quantized = 1 @document"]'),
        "toy@1.0.toml: common: constraints: constraint 'quantized' takes no value, found 1",
    ),
    "value of another kind": (
        ("rank = 4 @document", "rank = four @document"),
        "toy@1.0.toml: aten.relu.default: constraints: 'four' is not a number, truth value or list",
    ),
    "value in quotes": (
        ('"rank = 4 @document"', "'rank = \"4\" @document'"),
        "toy@1.0.toml: aten.relu.default: constraints: '4' is not a number, truth value or list",
    ),
    "source missing": (
        ("rank = 4 @document", "rank = 4"),
        "toy@1.0.toml: aten.relu.default: constraints: 'rank = 4' is not of the form 'id = value @source'",
    ),
    "constraint that is no text": (
        ('["rank = 4 @document"]', "[4]"),
        "toy@1.0.toml: aten.relu.default: constraints: expected str, found 4 (int)",
    ),
    "constraints that are no list": (
        ('["rank = 4 @document"]', '"rank = 4 @document"'),
        "toy@1.0.toml: aten.relu.default: constraints: expected list, found 'rank = 4 @document' (str)",
    ),
    "row that is no table": (
        ('{ document = "", constraints = [] }', "3"),
        "toy@1.0.toml: aten.abs.default: expected dict, found 3 (int)",
    ),
    "parameter that is no number": (
        ("macs = 8", "macs = true"),
        "toy@1.0.toml: parameters: macs: expected int, found True (bool)",
    ),
    "meaning that nobody uses": (
        ("[operators]\n", 'ranked = "x"\n[operators]\n'),
        "toy@1.0.toml: constraints: no operator uses 'ranked', did you mean 'rank'?",
    ),
    "operator without overload": (
        ("aten.relu.default", "aten.relu"),
        "toy@1.0.toml: aten.relu: an operator is named namespace.operator.overload, e.g. aten.add.Tensor",
    ),
    "unknown rescale scheme": (
        ('rescale = "tflite_double_round"', 'rescale = "tflite_double_rounding"'),
        "toy@1.0.toml: rescale: unknown scheme 'tflite_double_rounding', did you mean 'tflite_double_round'?",
    ),
    "rescale scheme like none": (
        ('rescale = "tflite_double_round"', 'rescale = "x"'),
        "toy@1.0.toml: rescale: unknown scheme 'x'; known: tflite_double_round, tosa_single_round, xnnpack_fp32",
    ),
    "no name": (('name = "toy"', 'name = " "'), "toy@1.0.toml: name: expected a name, found ' '"),
    "no delegate": (
        ('backend_id = "ToyBackend"', 'backend_id = ""'),
        "toy@1.0.toml: backend_id: expected a name, found ''",
    ),
    "version in two lines": (
        ('version = "1.0"', 'version = "1\\n0"'),
        "toy@1.0.toml: version: expected a name, found '1\\n0'",
    ),
    "unknown parameter": (
        ("macs = 8", "mac = 8"),
        "toy@1.0.toml: parameters: unknown key 'mac', did you mean 'macs'?",
    ),
    "source misspelt": (
        ("rank = 4 @document", "rank = 4 @documnet"),
        "toy@1.0.toml: aten.relu.default: constraints: constraint 'rank': source 'documnet', did you mean 'document'?",
    ),
    "operator that is empty": (
        ('{ document = "", con', '{ document = "", operator = "", con'),
        "toy@1.0.toml: aten.abs.default: operator: '': an operator is named namespace.operator.overload",
    ),
    "operator with an empty part": (
        ("aten.relu.default", "aten..default"),
        "toy@1.0.toml: aten..default: an operator is named namespace.operator.overload",
    ),
    "nested without end": (
        ("macs = 8", f"macs = {'[' * 5000}{']' * 5000}"),
        "toy@1.0.toml: values are nested too deeply to be read",
    ),
    "a dotted key without end": (
        ("macs = 8", ".".join(["macs"] * 30_000) + " = 8"),
        "toy@1.0.toml: a key of more than 16 parts (at line ",
    ),
    "a dotted key of quoted parts": (
        ("macs = 8", " . ".join(['"a\\"b"', "'c'", "d-e"] * 10_000) + " = 8"),
        "toy@1.0.toml: a key of more than 16 parts (at line ",
    ),
    "a header without end": (
        ("[parameters]", f"[{'.'.join('ab' * 10_000)}]\n[parameters]"),
        "toy@1.0.toml: a key of more than 16 parts (at line ",
    ),
    "a number too long for Python": (("macs = 8", f"macs = {'8' * 5000}"), "toy@1.0.toml: a number of more than 1000"),
    "a hexadecimal number too long to show": (
        ("macs = 8", f"macs = 0x{'f' * 5000}"),
        "toy@1.0.toml: a number of more than 1000 digits (at line ",
    ),
    "a value of a constraint too long for Python": (
        ("rank = 4 @document", f"rank = {'4_' * 3000}4 @document"),
        "toy@1.0.toml: a number of more than 1000 digits (at line ",
    ),
    "a date that does not exist": (("macs = 8", "macs = 2026-02-30"), "toy@1.0.toml: "),
    "too large": (("macs = 8", "macs = 8 #" + "x " * 2**19), "characters, expected at most 1048576"),
    "precision of a source misspelt": (
        ('document = "rank 4", ', 'document = "rank 4", precisions = ["int8 @documnet"], '),
        "toy@1.0.toml: aten.relu.default: precisions: 'int8': source 'documnet', did you mean 'document'?",
    ),
    "precision twice, once with a source": (
        ('document = "rank 4", ', 'document = "rank 4", precisions = ["int8", "int8 @1.5.1"], '),
        "toy@1.0.toml: aten.relu.default: precisions: 'int8' stands twice",
    ),
    "row with a source misspelt": (
        ('document = "rank 4", ', 'document = "rank 4", source = "documents", '),
        "toy@1.0.toml: aten.relu.default: source 'documents', did you mean 'document'?",
    ),
    "refused without a reason": (
        (RELU, RELU + DOCUMENTED.replace('"rank = 4 @1.5.1"', "")),
        "toy@1.0.toml: aten.neg.default: constraints: expected one, the reason of the refusal, found 0",
    ),
    "refused and not in the document": (
        (RELU, RELU + DOCUMENTED.replace('document = "8x8", prec', 'document = "", source = "1.5.1", prec')),
        "toy@1.0.toml: aten.neg.default: source: expected 'document', as only that lists the operator, found '1.5.1'",
    ),
    "refused and promised": (
        (RELU, RELU + DOCUMENTED.replace("aten.neg", "aten.relu")),
        "toy@1.0.toml: refused: 'aten.relu.default' stands in operators, too",
    ),
    "rewritten to no row": (
        (RELU, RELU + DOCUMENTED.replace('["aten.abs.default"]', '["aten.abs.defualt"]')),
        "toy@1.0.toml: rewritten: sqrt.default: operators: unknown row 'aten.abs.defualt', did you mean",
    ),
    "rewritten with another key": (
        (RELU, RELU + DOCUMENTED.replace("operators = [", "rows = [")),
        "toy@1.0.toml: rewritten: sqrt.default: unknown key 'rows'",
    ),
    "other schema": (("schema = 1", "schema = 3"), "toy@1.0.toml: schema is 3, expected one of [1, 2]"),
    "no TOML": (("schema = 1", "schema ="), "toy@1.0.toml: Invalid value (at line 1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_file_operator_and_key(fault: str, tmp_path: Path) -> None:
    (old, new), message = FAULTS[fault]
    assert old in SMALL
    with pytest.raises(TableError, match=re.escape(message)):
        _load(tmp_path, SMALL.replace(old, new))


def test_a_source_can_be_anybodys(tmp_path: Path) -> None:
    table = _load(tmp_path, SMALL.replace("rank = 4 @document", "rank = 4 @datasheet"))
    assert table.row("aten.relu.default").constraint("rank").source == "datasheet"


def test_the_known_schemes_are_those_with_goldens() -> None:
    from npu_assay.conformance.judge.numerics import EXACT_SCHEMES

    assert set(RESCALES) == EXACT_SCHEMES


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "aten.relu.default",
            "aten.rleu.default",
            "the suite has no cases for 'aten.rleu.default'; nearest: aten.relu.default",
        ),
        (
            '"rank 4", ',
            '"rank 4", operator = "aten.rleu.default", ',
            "aten.relu.default: operator: unknown operator 'aten.rleu.default'; nearest: aten.relu.default",
        ),
        (
            '"rank 4", ',
            '"rank 4", rewritten_to = "aten.frobnicate.x", ',
            "aten.relu.default: rewritten_to: unknown operator 'aten.frobnicate.x'; none of ",
        ),
    ],
)
def test_an_operator_that_the_suite_does_not_know(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = SMALL.replace('"rank = 4 @document"', "").replace('rank = "the rank must be {value}"\n', "")
    with pytest.raises(SelectionError, match=re.escape(f"toy@1.0.toml: {message}")):
        all_cases(_load(tmp_path, text.replace(old, new)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aten.lineer.default", "toy@1.0.toml: preserve: torch has no 'aten.lineer.default', did you mean 'linear'?"),
        ("aten.linear.defualt", "toy@1.0.toml: preserve: torch has no 'aten.linear.defualt', did you mean 'default'?"),
        ("aten.linear.default", None),
        ("ours.linear.default", None),
    ],
)
def test_what_is_kept_whole_is_an_operator_of_torch(name: str, message: str | None, tmp_path: Path) -> None:
    table = _load(tmp_path, SMALL.replace("[parameters]", f'preserve = ["{name}"]\n[parameters]'))
    if message is None:
        check_preserved(table)
        return
    with pytest.raises(TableError, match=re.escape(message)):
        check_preserved(table)


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    head, _, _ = SMALL.partition('"aten.abs.default"')
    with pytest.raises(TableError, match="the table is empty"):
        _load(tmp_path, head)


def test_a_missing_table_names_the_nearest() -> None:
    with pytest.raises(TableError, match=r"no table 'neutron@2\.4', did you mean 'neutron@1\.4'\?"):
        load_table("neutron@2.4")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot read the table: No such file"):
        load_table(str(tmp_path / "none.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"schema = \xff")
    with pytest.raises(TableError, match=r"bytes\.toml: not UTF-8 text at byte 9"):
        load_table(str(tmp_path / "bytes.toml"))


def test_an_unknown_row_names_the_nearest() -> None:
    with pytest.raises(TableError, match=r"has no operator 'aten\.clam\.default'; nearest: aten\.clamp\.default"):
        NEUTRON.row("aten.clam.default")
