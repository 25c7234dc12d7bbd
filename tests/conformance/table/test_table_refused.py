"""What a table may not say, and where the message says that it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from table_files import DOCUMENTED, NEUTRON, SMALL, _load

from npu_assay.conformance.run.selection import SelectionError, all_cases
from npu_assay.conformance.table import RESCALES, TableError, load_table
from npu_assay.conformance.table.non_decomposed import check_preserved

RELU = '"aten.relu.default" = { document = "rank 4", constraints = ["rank = 4 @document"] }\n'


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
        "toy@1.0.toml: unknown key 'qqq'; known: backend_id, beside, common,",
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
    "too large": (("macs = 8", "macs = 8 #" + "x " * 2**19), "bytes, expected at most 1048576"),
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
