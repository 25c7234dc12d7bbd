"""Predicates: what the language takes, what features are, and what is refused, in one clear error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import strict_backend
import torch
from click.testing import CliRunner
from places import ROOT

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.boundaries.search import Limit, Search
from npu_assay.conformance.cases.boundaries.sides import Sides
from npu_assay.conformance.cases.limits import LimitError
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.cases.rows import baseline
from npu_assay.conformance.cli import main
from npu_assay.conformance.predicates.applications import application
from npu_assay.conformance.predicates.derived import DERIVED
from npu_assay.conformance.predicates.evaluation import Undefined, holds, value
from npu_assay.conformance.predicates.features import IMAGE, WINDOW, Application, check_names, largest_window
from npu_assay.conformance.predicates.grammar import ATTRIBUTES, FUNCTIONS, PredicateError, parse_predicate
from npu_assay.conformance.predicates.named import NAMED
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.predicates.surroundings import SURROUNDINGS
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Table, TableError, read_table

FEW = 'kept = { says = "few", holds = "x.elements <= 100" }'
STRICT = Path(strict_backend.TABLE).read_text()
LANES = """schema = 2
name = "lanes"
version = "1"
backend_id = "Lanes"
source = "a test"
rescale = ""
[parameters]
[common]
constraints = []
[constraints]
wide = {{ says = "lanes are a multiple of {{value}}", holds = "{holds}" }}
[operators]
"{row}" = {{ document = "", precisions = ["int8"], constraints = ["wide = 128 @document"] }}
"""


def of(op: str) -> Application:
    """The plain program of a row of static int8."""
    return application(baseline(op), SUBJECT)


CONVOLUTION, POOL, CAT = "aten.convolution.default", "aten.max_pool2d.default", "aten.cat.default"


@pytest.mark.parametrize(
    ("op", "text", "expected"),
    [
        (CONVOLUTION, "in_channels == 3 and out_channels == 5 and kernel_h * kernel_w == 9", True),
        (CONVOLUTION, "weight.shape[0] == 5 and weight.is_constant and weight.rank == 4", True),
        (CONVOLUTION, "weight.bytes == 5 * 3 * 9 and bias.bytes == 20 and weight.is_per_channel", True),
        (CONVOLUTION, "batch == 1 and channels == 3 and height == 6 and width == 7", True),
        (CONVOLUTION, "stride_h == 1 and padding_w == 0 and dilation_h == 1 and groups == 1", True),
        (CONVOLUTION, "not transposed and not x.is_constant and x.is_quantized", True),
        (CONVOLUTION, "kernel_d <= 3", None),
        (CONVOLUTION, "x.rank < 4 or x.shape[4] == 2", None),
        (CONVOLUTION, "x.rank == 4 or x.shape[4] == 2", True),
        (CONVOLUTION, "x.shape[4] == 2 or x.rank == 4", True),
        (CONVOLUTION, "x.rank == 5 and x.shape[4] == 2", False),
        (CONVOLUTION, "1 <= kernel_h <= 3 < height", True),
        (CONVOLUTION, "kernel_h in (1, 5)", False),
        (CONVOLUTION, "kernel_h not in (1, 5)", True),
        (CONVOLUTION, "weight.scale > 0", None),
        (CONVOLUTION, "x.dtype == 'int8' and out.dtype in ('int8', 'int16')", True),
        (CONVOLUTION, "max(kernel_h, kernel_w) <= 2 ** 2 and min(x.shape) == 1", True),
        (CONVOLUTION, "kernel_h / 2 == 1", False),
        (CONVOLUTION, "kernel_h // 2 == 1 and kernel_h / 2 > 1 and kernel_h / 2 < 2 and height / 2 == 3", True),
        (CONVOLUTION, "height / 4 * 2 == 3 and height / 3 % 2 == 0 and 0.5 / 2 == 0.25", True),
        (CONVOLUTION, "height / padding_h > 1", None),
        (CONVOLUTION, "padding_h == 0 or height % padding_h == 0", True),
        (CONVOLUTION, "bias is not None and not bias is None and kernel_d is None", True),
        (CONVOLUTION, "(kernel_h, kernel_w) in ((1, 1), (3, 3))", True),
        (CONVOLUTION, "(kernel_h, kernel_w) in ((1, 3), (3, 1))", False),
        (CONVOLUTION, "(kernel_h, kernel_w) not in ((1, 3), (3, 1)) and (height, width) != (6, 6)", True),
        (CONVOLUTION, "(kernel_h, kernel_w) == (3, 3) and (height,) in ((6,),)", True),
        (CONVOLUTION, "stride in ((1, 1), (2, 2)) and stride not in ((1, 2),)", True),
        (CONVOLUTION, "count(t.is_constant for t in operands) == 2 and count(n == 3 for n in x.shape) == 1", True),
        (CONVOLUTION, "count(t.is_constant for t in operands) + 1 <= 2", False),
        (CONVOLUTION, "count(t.scale > 0 for t in operands) == 3", None),
        ("aten.constant_pad_nd.default", "fill_value == 0", True),
        ("aten.avg_pool2d.default", "divisor_override is None", True),
        (POOL, "kernel_h == 2 and kernel_w == 2 and len(stride) == 2", True),
        (CAT, "len(tensors) == 2 and dim == x.rank - 2 and all(t.rank == 3 for t in tensors)", True),
        (CAT, "any(t.shape[dim] == 5 for t in tensors) and not all(t.shape[dim] == 5 for t in tensors)", True),
        (CAT, "tensors[1].shape[1] - tensors[0].shape[1] == 2 and y.shape[1] // 2 == 2 and -x.rank % 2 == 1", True),
        ("aten.mean.dim", "keepdim and dim[0] == 3 and dim[1] == 2", True),
        ("aten.relu.default", "x.scale > 0.04 and x.zero_point == 3 and x.elements == x.bytes", True),
        ("aten.add.Tensor", "alpha == 1 and x.shape == y.shape and other.rank == y.rank", True),
    ],
)
def test_what_holds_of_the_plain_program_of_a_row(op: str, text: str, expected: bool | None) -> None:
    known, predicate = of(op), parse_predicate(text)
    check_names(predicate, known)
    assert holds(predicate, known.find) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os').system('true')", "found"),
        ("x.__class__ == 1", "unknown feature 'x.__class__'"),
        ("x.ranc <= 4", "did you mean 'rank'?"),
        ("kernel_h", ""),
        ("kernel_h +", "is not an expression"),
        ("kernel_h + 1", "expected a comparison"),
        ("(lambda: 1)() == 1", "expected a number or a feature"),
        ("x.shape[0:2] == 1", "expected a feature"),
        ("9 ** 9 ** 9 > kernel_h", "expected a number or a feature"),
        ("kernel_h < 1e30", "expected a number of at most"),
        ("kernel_h is 3", "expected 'FEATURE is None'"),
        ("weight.scale is None", "expected 'FEATURE is None'"),
        ("bias == None", "expected 'is None'"),
        ("kernel_h in (None, 3)", "expected a number of at most"),
        ("kernel_h % 0 == 1", "found 'kernel_h % 0', expected a divisor that is not 0"),
        ("kernel_h / 0 == 1", "expected a divisor that is not 0"),
        ("(kernel_h, kernel_w) < (3, 3)", "expected one of == != in"),
        ("(kernel_h, kernel_w) in ((1, 1), (3,))", "found '(3,)', expected 2 items"),
        ("(kernel_h, kernel_w) in (1, 3)", "found '1', expected 2 items"),
        ("(kernel_h, kernel_w) in ()", "that have something in them"),
        ("(kernel_h, kernel_w) == stride", "a list that is written out on the right, or 'value'"),
        ("(kernel_h, kernel_w) < value", "one of == != in, of lists"),
        ("(kernel_h, open(x)) in value", "expected a number or a feature"),
        ("kernel_h in ((1, open(x)),)", "expected a number or a feature"),
        ("count(t.rank for t in tensors) == 1", ""),
        ("count(kernel_h) == 1", "expected count(... for t in LIST)"),
        ("count(t.rank == 1 for t in tensors)", "expected a comparison"),
        ("(kernel_h, open(x)) == (1, 1)", "expected a number or a feature"),
        ("all(kernel_h)", "expected all(... for t in LIST)"),
        ("all(t.rank == 1 for t in tensors if t.rank)", "expected all(... for t in LIST)"),
        ("open(kernel_h) == 1", "expected a number or a feature"),
        ("f'{kernel_h}' == 1", "expected a number or a feature"),
        ("x.rank == " + "-" * 90 + "1", "nested too deeply"),
        ("(" * 300 + "1" + ")" * 300, "characters, expected at most"),
        ("not " * 60 + "keepdim", "nested too deeply"),
        ("", "is not an expression"),
        ("a\x00b", "is not an expression"),
    ],
)
def test_what_is_no_predicate_is_one_error(text: str, message: str) -> None:
    if not message:
        parse_predicate(text)
        return
    with pytest.raises(PredicateError) as caught:
        parse_predicate(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel_h == 'a'", "cannot be compared"),
        ("groups", "expected true or false"),
        ("transposed + 1 == 2", "expected a number"),
        ("x.shape < 3", "cannot be compared"),
        ("stride.rank == 1", "expected an operand"),
        ("kernel_h % (1 - 1) == 1", "modulo"),
        ("kernel_h / (1 - 1) == 1", "zero"),
        ("all(t > 1 for t in groups)", "expected a list"),
    ],
)
def test_what_cannot_be_compared_is_one_error(text: str, message: str) -> None:
    with pytest.raises(PredicateError) as caught:
        holds(parse_predicate(text), of(CONVOLUTION).find)
    assert message in str(caught.value)


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(
        PredicateError, match=r"unknown feature 'kernel_hight' of aten.convolution.default, did you mean"
    ):
        check_names(parse_predicate("kernel_hight <= 3"), of(CONVOLUTION))


def test_each_item_of_a_pair_of_features_can_decide_alone() -> None:
    found = parse_predicate("(kernel_h, kernel_w) in ((1, 1), (3, 3))")
    atoms = ["kernel_h == 1", "kernel_w == 1", "kernel_h == 3", "kernel_w == 3"]
    assert [atom.text for atom in found.atoms] == atoms
    search = Search(baseline(POOL), [Limit("windows", found)])
    pairs = Sides(search, 0).pairs(search.bases())
    assert sorted(atom for atom, _ in pairs) == sorted(atoms)
    assert all(pair.good.right and pair.bad.only(0) for pair in pairs.values())


def test_a_missing_feature_is_undefined() -> None:
    with pytest.raises(Undefined):
        value(parse_predicate("x.shape[9] == 1").tree.left, of("aten.relu.default").find)  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", NAMED)
def test_what_the_suite_names_is_a_predicate(code: str) -> None:
    assert parse_predicate(NAMED[code]).atoms


# ------------------------------------------------------------------------------------ tables


def table(*changes: tuple[str, str]) -> Table:
    text = STRICT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return read_table(text.encode(), "strict.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 2", "schema = 1", "constraints: max_dims: a definition needs 'schema = 2', found schema = 1"),
        ("schema = 2", "schema = 3", "schema is 3, expected one of [1, 2]"),
        ('holds = "keepdim"', 'hold = "keepdim"', "constraints: kept: unknown key 'hold', did you mean 'holds'?"),
        ('holds = "keepdim"', "holds = 3", "constraints: kept: holds: expected str"),
        (', holds = "keepdim"', "", "constraints: kept: expected 'holds' or 'unchecked' beside 'says'"),
        ('"keepdim"', '"keepdim", unchecked = 3', "constraints: kept: unchecked: expected str"),
        ('"keepdim"', '"keepdim and"', "constraints: kept: holds: 'keepdim and' is not an expression"),
        (
            '"keepdim"',
            '"keepdim == value"',
            "found it in holds = 'keepdim == value', expected {value} in says = 'reduced dimensions are kept', too",
        ),
        ('kept = { says = "reduced dimensions are kept", holds = "keepdim" }', "kept = 3", "expected a sentence, or"),
        ('unchecked = "every model of the suite fits"', 'unchecked = ""', "expected a name, found ''"),
    ],
)
def test_a_wrong_definition_is_one_error(old: str, new: str, message: str) -> None:
    with pytest.raises(TableError) as caught:
        table((old, new))
    assert str(caught.value).startswith("strict.toml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"keepdim"', '"keepdims"', "unknown feature 'keepdims' of aten.mean.dim, did you mean 'keepdim'?"),
        ('"keepdim"', '"keepdim == 1"', "cannot be compared"),
        ('"keepdim"', '"x.rank > 40"', "no program near the plain one was found for which kept (x.rank > 40)"),
        ('"keepdim"', '"x.rank >= 0"', "kept: no two programs were found of which 'x.rank >= 0'"),
    ],
)
def test_a_limit_that_no_cases_can_be_made_of_is_one_error(old: str, new: str, message: str) -> None:
    with pytest.raises(LimitError) as caught:
        cases_for(only(table((old, new)), "aten.mean.dim"))
    assert message in str(caught.value)


def test_a_constraint_that_no_predicate_says_cannot_stand_beside_a_tables_own() -> None:
    both = table(
        ('"kept @document"]', '"kept @document", "channels_multiple_of = 8 @document"]'),
        ("[constraints]\n", '[constraints]\nchannels_multiple_of = "channels are a multiple of {value}"\n'),
    )
    with pytest.raises(LimitError) as caught:
        cases_for(only(both, "aten.mean.dim"))
    assert "channels_multiple_of has a meaning that no predicate says, and stands beside" in str(caught.value)
    assert "define it, too" in str(caught.value)


def only(found: Table, row: str) -> Table:
    return replace(found, rows=tuple(each for each in found.rows if each.name == row))


def test_the_suites_own_constraints_stand_beside_a_tables() -> None:
    """`max_rank` and `keepdim` as the suite names them, with values that it has no written cases for."""
    both = table(
        ('max_dims = { says = "operands have at most {value} dimensions", holds = "x.rank <= value" }\n', ""),
        ("max_dims = 4 for int8 @document", "max_rank = 3 @document"),
        ("[constraints]\n", '[constraints]\nmax_rank = "at most {value} dimensions"\n'),
        (
            'kept = { says = "reduced dimensions are kept", holds = "keepdim" }',
            FEW,
        ),
    )
    cases = cases_for(only(both, "aten.mean.dim"))
    sides = {(c.constraint, c.side) for c in cases if c.constraint in ("max_rank", "kept")}
    assert sides == {(code, side) for code in ("max_rank", "kept") for side in ("accept", "at_limit", "outside")}
    ranks = {len(c.graph.values[0].shape) for c in cases if c.expect == "accept"}
    assert max(ranks) == 3


@pytest.mark.long
@pytest.mark.parametrize(("row", "listed"), [(CAT, "tensors"), (CAT, "operands"), ("aten.mul.Tensor", "operands")])
def test_a_limit_on_every_tensor_is_kept_by_all_and_broken_by_one(row: str, listed: str) -> None:
    """128 channels of every operand: no operand alone brings the plain program nearer to that."""
    holds = f"all(t.shape[1] % value == 0 for t in {listed})"
    text = LANES.format(row=row, holds=holds).encode()
    cases = [case for case in cases_for(read_table(text, "lanes.toml")) if case.constraint == "wide"]
    channels = {side: [_channels(case) for case in cases if case.side == side] for side in ("at_limit", "outside")}
    assert channels["at_limit"] and all(not n % 128 for each in channels["at_limit"] for n in each)
    assert channels["outside"] and all(any(n % 128 for n in each) for each in channels["outside"])


def _channels(case: Case) -> list[int]:
    return [value.shape[1] for value in case.graph.values if len(value.shape) > 1]


def test_an_argument_that_is_a_number_for_every_dimension_is_turned_as_one() -> None:
    """Pools of lines have cases whose kernel is `3`, where the plain one is `(3,)`."""
    held = '["wide = [1, 3, 5] @document"]'
    row = f'"aten.avg_pool1d.default" = {{ document = "", precisions = ["int8"], constraints = {held} }}'
    wide = 'wide = { says = "kernels are {value}", holds = "kernel_w in value" }'
    found = table(("[operators]\n", f"{wide}\n\n[operators]\n{row}\n"))
    (_, *cases) = cases_for(only(found, "aten.avg_pool1d.default"))
    sides = {case.id.rpartition("/")[2]: case.expect for case in cases if case.constraint == "wide"}
    assert {"kernel_w_1": "accept", "kernel_w_2": "reject", "kernel_w_3": "accept"}.items() <= sides.items()
    kernels = [step.args[1] for case in cases for step in case.graph.steps if step.name == case.subject]
    assert any(isinstance(kernel, int) for kernel in kernels)


@pytest.mark.long
def test_certify_says_what_a_table_defines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(strict_backend.__file__).parent)
    arguments: list[Any] = ["certify", "strict_backend:backend", "-k", "aten.mean.dim", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "report.md").read_text() + (tmp_path / "out" / "report.html").read_text()
    assert "reduced dimensions are kept" in text


def test_show_prints_the_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(strict_backend.__file__).parent)
    result = CliRunner().invoke(main, ["show", "strict_backend:backend", "mean"])
    assert "  kept: reduced dimensions are kept [document] = keepdim" in result.output
    assert (
        "  fits: all of a model must fit the memory [document] (no case: every model of the suite fits)"
        in result.output
    )


@pytest.mark.long
def test_a_table_with_a_wrong_predicate_is_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "wrong@1.toml"
    path.write_text(STRICT.replace('"keepdim"', '"keepdims"'))
    arguments = ["certify", "fake_backend:backend", "--table", str(path), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "did you mean 'keepdim'?" in result.output
    assert "Traceback" not in result.output


# ------------------------------------------------------------------------------------ the page


def test_the_page_lists_what_there_is() -> None:
    """Every feature, every named constraint, and an example that is read."""
    page = (ROOT / "docs" / "predicates.md").read_text()
    assert {name for name in ATTRIBUTES if not hasattr(Operand((1,), "int8"), name)} == set()
    for name in (
        *ATTRIBUTES,
        *DERIVED,
        *SURROUNDINGS,
        *IMAGE,
        *FUNCTIONS,
        "in_channels",
        "out_channels",
        *(f"{kind}_h" for kind in WINDOW),
    ):
        assert f"`{name}" in page, name
    for code, text in NAMED.items():
        assert f"| `{code}` | `{text}` |" in page
    example = page.partition("```toml\n")[2].partition("```")[0]
    for line in example.splitlines():
        if "holds = " in line:
            assert parse_predicate(line.partition('holds = "')[2].partition('"')[0]).atoms


def test_the_largest_window_of_an_adaptive_pool_is_torch_s() -> None:
    for size, outputs in ((size, outputs) for size in range(1, 20) for outputs in range(1, 24)):
        parts = torch.nn.functional.adaptive_avg_pool1d(
            torch.eye(size), outputs
        )  # what each number adds to each output
        assert largest_window(size, outputs) == (parts != 0).sum(0).max(), (size, outputs)
