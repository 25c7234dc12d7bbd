"""Predicates end soon whatever they say: what would not is refused by one message, which names the constraint."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from npu_assay.conformance.cases.make import spread
from npu_assay.conformance.cli import main
from npu_assay.conformance.predicates.applications import application
from npu_assay.conformance.predicates.evaluation import STEPS, distance, holds
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.predicates.grammar import LISTS_WITHIN, PredicateError, parse_predicate
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import TableError, load_table

SOON = 20.0  # seconds of processor time; what is not bounded takes hours
TABLE = """schema = 2
name = "npu"
version = "1.0"
backend_id = "NpuBackend"
source = "of a test"
rescale = "tflite_double_round"

[parameters]

[common]
constraints = ["quantized @document"]

[constraints]
quantized = "static int8"
limit = {{ says = "a limit{said}", holds = "{holds}" }}

[operators]
"aten.abs.default" = {{ document = "", constraints = ["limit{value} @document"] }}
"""


def table(folder: Path, holds: str, value: str = "") -> Path:
    """A table of one row with this predicate."""
    path = folder / "npu@1.0.toml"
    path.write_text(TABLE.format(holds=holds, value=value and f" = {value}", said=value and " of {value}"))
    return path


def nested(kinds: str, levels: int) -> str:
    """`all(all(a + b < c for a in x.shape) ...)`, of so many levels, of one kind or of both in turns."""
    names = [f"i{number}" for number in range(levels)]
    text = f"{' + '.join(names)} < 9"
    for number, name in enumerate(names):
        text = f"{kinds.split()[number % len(kinds.split())]}({text} for {name} in x.shape)"
    return text


@pytest.mark.parametrize("levels", range(LISTS_WITHIN + 1, 11))
@pytest.mark.parametrize("kinds", ["all", "any", "all any"])
def test_lists_in_one_another_are_few(kinds: str, levels: int) -> None:
    with pytest.raises(PredicateError, match=f"found {levels} of 'all' and 'any' in one another, expected at most"):
        parse_predicate(f"x.rank < 4 or not {nested(kinds, levels)}")
    parse_predicate(nested(kinds, LISTS_WITHIN))


@pytest.mark.parametrize("command", ["table lint", "show neutron --table", "certify neutron --table", "table coverage"])
def test_every_command_refuses_such_a_table(command: str, tmp_path: Path) -> None:
    path = table(tmp_path, nested("all", 9))
    ended = CliRunner().invoke(main, [*command.split(), str(path)])
    assert ended.exit_code == 2, ended.output
    expected = "assay: npu@1.0.toml: constraints: limit: holds: found 9 of 'all' and 'any' in one another, expected at"
    assert ended.output.startswith(expected) and ended.output.count("\n") == 1


@pytest.mark.parametrize("lists", range(1, LISTS_WITHIN + 1))
def test_the_steps_of_a_predicate_are_counted(lists: int) -> None:
    """Each item costs two parts and more, and those of inner lists cost it again."""
    size = int(STEPS ** (1 / lists)) + 1
    known = Application("aten.abs.default", {"self": Operand((1,) * size, "int8")}, ())
    started = time.process_time()
    with pytest.raises(PredicateError, match=rf"^limit: '\(i0.*found more than {STEPS} steps to evaluate it"):
        holds(parse_predicate(nested("all", lists)), known.find, "limit")
    assert time.process_time() - started < SOON


def test_the_steps_of_one_list_are_not_those_of_the_next() -> None:
    known = Application("aten.abs.default", {"self": Operand((1,) * (STEPS // 4), "int8")}, ())
    once = nested("all", 1)
    assert holds(parse_predicate(f"{once} and {once} and {once}"), known.find) is True


def test_a_row_that_takes_too_many_steps_names_the_constraint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_assay.conformance.predicates.evaluation.STEPS", 8)
    ended = CliRunner().invoke(main, ["table", "coverage", str(table(tmp_path, nested("all", 2)))])
    assert ended.exit_code == 2
    assert ended.output.startswith(
        "assay: npu@1.0: aten.abs.default: limit: '(all((i0 + i1 < 9 for i0 in x.shape)) for"
    )


CHAINS = {
    "chains": "a < ({}) < b",
    "chains of three": "a < b < ({}) < c",
    "pairs": "({}, a) in ((1, 2), (3, 4))",
    "chains beside pairs": "(a < ({}) < b, c) == (1, 2)",
    "joined": "a < (a and {}) < b",
}


@pytest.mark.parametrize("form", CHAINS.values(), ids=[*CHAINS])
def test_comparisons_within_comparisons_are_refused_at_once(form: str) -> None:
    """Splitting them would write twice as much at every level."""
    text = "a"
    while len(form.format(text)) <= 390:
        text = form.format(text)
    started = time.process_time()
    with pytest.raises(PredicateError, match=r"which is compared|nested too deeply"):
        parse_predicate(text)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "text",
    [
        "(" + "-" * 380 + "1) is 3",
        "x" + ".shape" * 60,
        "x" + "[0]" * 120,
        "a == " + "(" * 90 + "1," + ")," * 89 + ")",
        "a < " + "+".join("1" * 190),
        "a < " + "**".join("2" * 120),
        "not " * 90 + "a",
    ],
)
def test_deep_texts_are_one_message(text: str) -> None:
    with pytest.raises(PredicateError, match=r"nested too deeply|expected|is not an expression"):
        parse_predicate(text)


POWER = f"({' * '.join(['x.elements'] * 14)}) * ({' * '.join(['x.elements'] * 14)})"
"""1,120 bits for a square of a million rows: no float is that large."""


@pytest.mark.parametrize(
    "text",
    [
        "x.elements * 10 ** 9 < 1",
        f"{POWER} < 1",
        f"{POWER} * 1.5 < 1",
        f"0.5 + {POWER} > value",
        "value * value * value / 1.5 < x.elements",
    ],
)
def test_large_numbers_hold_or_are_one_message(text: str) -> None:
    predicate = parse_predicate(text)
    find = Application("aten.abs.default", {"self": Operand((2**20, 2**20), "int8")}, (), 10**999).find
    try:
        assert holds(predicate, find) in (True, False)
    except PredicateError as error:
        assert "too large" in str(error)
    assert distance(predicate.atoms[0], find) is not None


def test_a_list_beside_a_constraint_is_bounded(tmp_path: Path) -> None:
    values = f"[{', '.join(map(str, range(1, 301)))}]"
    with pytest.raises(TableError, match=r"aten.abs.default: .*found a list of 300 items, expected at most 256"):
        load_table(str(table(tmp_path, "x.rank in value", values)))
    assert load_table("neutron@1.3").rows


def test_scales_of_very_many_channels_are_no_objects_of_their_own() -> None:
    """A search for `x.rank < 4` asks for a million channels 64 times, and once kept 32 of them."""
    many = spread(0.5, 2**20)
    assert len(many) == 2**20 and len(set(map(id, many))) <= 2**16
    assert max(many) == 0.5 and min(many) == pytest.approx(0.05)


def test_a_strange_limit_is_searched_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_ASSAY_CACHE", "")
    started = time.process_time()
    cases = all_cases(load_table(str(table(tmp_path, "x.rank < 4"))))
    assert time.process_time() - started < SOON
    ranks = {application(case.graph, case.subject).find("x").rank for case in cases if case.expect == "accept"}
    assert ranks and max(ranks) < 4
