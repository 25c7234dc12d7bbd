"""Published tables as vendors print them: every line is counted, and every predicate has a call on either side."""

from __future__ import annotations

import csv
import re
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from npu_assay.conformance.cases import every_operator
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.predicates.evaluation import truth
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.predicates.grammar import parse_predicate
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.table import FOLDER
from npu_assay.conformance.table.published import imported, read_text
from npu_assay.conformance.table.published.cells import read_constraints
from npu_assay.conformance.table.published.kinds import precisions
from npu_assay.conformance.table.published.names import meant_by
from npu_assay.conformance.table.published.tracing import traced
from npu_assay.reference.golden.aten import aten, bound


def t(*shape: int, dtype: str = "float32", **more: Any) -> Operand:
    return Operand(shape, dtype, **{"scale": 0.1, "zero_point": 0, **more})


def meta(found: Any) -> Any:
    if isinstance(found, Operand):
        return torch.empty(found.shape, dtype=getattr(torch, found.dtype), device="meta")
    return [*map(meta, found)] if isinstance(found, list | tuple) else found


def holds(predicate: str, operator: str, call: Sequence[Any]) -> bool | None:
    """The value of a predicate for a call of an operator; torch works out the results."""
    more = call[-1] if isinstance(call[-1], dict) else {}
    args = tuple(tuple(each) if isinstance(each, list) else each for each in (call[:-1] if more else call))
    made = aten(operator)(*map(meta, args), **more)
    results = tuple(t(*each.shape) for each in (made if isinstance(made, tuple | list) else (made,)))  # float32
    named = {
        name: tuple(each) if isinstance(each, list) else each for name, each in bound(operator, args, more).items()
    }
    return truth(parse_predicate(predicate).tree, Application(operator, named, results).find)


X, Y, W, C = t(1, 8, 8, 8), t(1, 8, 8, 8), t(8, 8, 3, 3), t(8, 8, 3, 3, is_constant=True)
CONV = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
V, V3, CONV3 = t(1, 8, 8, 8, 8), t(8, 8, 3, 3, 3), (None, [1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1)
LINE, P = (t(1, 8, 8), t(8, 8, 3), None, [1], [0], [1]), t(1, 8, 5000, 8)
NAMES = {"X": X, "Y": Y, "W": W, "C": C, "CONV": CONV, "V": V, "V3": V3, "CONV3": CONV3, "LINE": LINE, "P": P, "t": t}
LINES = [line.split(" | ") for line in Path(__file__).with_name("sentences.txt").read_text("utf-8").splitlines()]
READ, UNREAD = ([line for line in LINES if len(line) == count and line[0][0] != "#"] for count in (5, 2))


def full(row: str) -> str:
    return f"aten.{row}" if "." in row else f"aten.{row}.default"


@pytest.mark.parametrize(("row", "text", "predicate", "within", "without"), READ)
def test_a_sentence_is_read_as_written_by_hand(row: str, text: str, predicate: str, within: str, without: str) -> None:
    (read,) = read_constraints(full(row), text, "fp32" if row == "_to_copy" else "int8")
    assert read.holds == predicate
    calls = [eval(f"({call},)", {"torch": torch}, NAMES) for call in (within, without)]
    assert [holds(predicate, full(row), call) for call in calls] == [True, False]


@pytest.mark.parametrize(("row", "text"), UNREAD)
def test_a_sentence_that_may_mean_something_else_stays_unread(row: str, text: str) -> None:
    assert [(each.holds, each.is_unread) for each in read_constraints(full(row), text, "int8")] == [("", True)]


# ------------------------------------------------------------------------------------ lines and cells


BEFORE = (
    "Operator Support#\n\nOperators are the building blocks of a model. This section lists them.\n\n• verbose: more.\n"
)
AFTER = "Quantization#\n\nThe backend quantizes by PT2E, as the page after this one says.\n"
Rows = dict[str, Any]


def printed(name: str) -> list[list[str]]:
    with (FOLDER / "documents" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [[cell.strip() for cell in line] for line in csv.reader(file, skipinitialspace=True)]


def made(text: str) -> tuple[Rows, str, list[Any]]:
    found = imported(read_text(text, "t"), "t", "1", "T", "s")
    rows: Rows = tomllib.loads(found.text)["operators"]
    return rows, found.text, [*found.left]


@pytest.mark.parametrize("name", ["neutron@1.4", "vulkan@1.4"])
def test_every_line_and_sentence_of_a_document_is_counted(name: str) -> None:
    """Counted without the importer: commas outside parentheses, semicolons, and no numbers of a list."""
    lines = printed(name)
    rows, text, left = made((FOLDER / "documents" / f"{name}.csv").read_text())
    of_line = {int(n): rows[row] for n, row in re.findall(r'# line (\d+): .*\n"(\S+)" =', text)}
    lost = {each.line for each in left}
    for number, (*_, cell) in enumerate(lines[1:], 2):
        assert (number in of_line) != (number in lost), lines[number - 1]
        pieces = [
            each
            for each in re.split(r",\s*(?![^(]*\))|;\s*", cell)
            if each and not re.fullmatch(r"\d+( or \d+)?", each)
        ]
        if number in of_line and len(lines[number - 1]) == len(lines[0]):
            assert len(of_line[number]["constraints"]) == len(pieces), lines[number - 1]


@pytest.mark.parametrize("bars", [True, False])
@pytest.mark.parametrize("name", ["neutron@1.4", "vulkan@1.4"])
def test_a_copied_page_says_what_its_table_says(name: str, bars: bool) -> None:
    lines = printed(name)
    if bars:
        cells = [[f"{cell} |" if cell else "|" for cell in line] for line in lines]
        body = "\n".join("\n".join(line) for line in [cells[0], ["|---|---|"], *cells[1:]])
    else:
        body = "\n\n".join(cell for line in lines for cell in line if cell)
    table, expected = ("\n".join(",".join(f'"{c}"' for c in line) for line in lines), made)
    (rows, _, left), (known, _, _) = made(f"{BEFORE}\n{body}\n\n{AFTER}"), expected(table)
    said = {row: (each.get("precisions"), each["constraints"]) for row, each in known.items()}
    assert {row: (each.get("precisions"), each["constraints"]) for row, each in rows.items()} == said
    beside = {each.text for each in left}
    assert beside >= {line for line in (BEFORE + AFTER).splitlines() if line}


def test_cells_of_several_lines_and_lost_ones_find_their_columns() -> None:
    rows, _, left = made(
        "Op\nTypes\nSupported\nLimits\nrelu\nint8\nyes\nrank <= 4\nno bias\n"
        "abs\nno\nneg\nyes\nrank <= 4\nno bias\nnosuch\nint8\nyes\n"
    )
    for name in ("relu", "neg"):
        assert rows[f"aten.{name}.default"]["constraints"] == ["rank_at_most_4 @document", "unread_no_bias @document"]
    assert [each.text.split(" | ")[0] for each in left] == ["abs", "nosuch"]


def test_a_reference_takes_the_constraints_of_its_row() -> None:
    rows, text, _ = made("Op,Notes\nrelu,rank <= 4\nabs,See relu.\nneg,same as exp\nexp,\nsin,see cos\n")
    assert (
        rows["aten.abs.default"]["constraints"]
        == rows["aten.relu.default"]["constraints"]
        == ["rank_at_most_4 @document"]
    )
    assert 'unchecked = "the row that it refers to has no constraint"' in text
    assert rows["aten.sin.default"]["constraints"] == ["unread_see_cos @document"]


@pytest.mark.parametrize(
    "text", ["Partitioner API#\n\nIt tags nodes, operators and all.\n\nArgs:\nnode: one\n", "x" * 2**18]
)
def test_prose_without_a_table_is_one_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"t: .*expected"):
        read_text(text, "t")


@pytest.mark.parametrize(
    "text",
    [
        f"Operator,{','.join(['INT8'] * 9999)}\nrelu{',yes' * 9999}\n",
        f"| Operator | Notes |\n|---|---|\n| relu | a{' ' * 190_000}b |\n",
        "Operator\nNotes\n" + "relu\nrank <= 4\n" * 4000,
    ],
)
def test_a_hostile_document_ends_in_seconds(text: str) -> None:
    begun = time.monotonic()
    made(text)
    assert time.monotonic() - begun < 60


# ------------------------------------------------------------------------------------ names and types


APIS = """torch.nn.AvgPool2d torch.nn.functional.conv2d torch.conv2d torch.nn.Linear Tensor.view torch.split
torch.Tensor.split torch.mean torch.nn.ReLU6 torch.nn.Softmax torch.nn.LayerNorm torch.nn.MaxPool2d torch.cat
torch.transpose torch.add torch.nn.PReLU torch.amax torch.nn.functional.scaled_dot_product_attention
torch.Tensor.__getitem__ torch.reshape torch.swapaxes torch.narrow torch.div torch.true_divide
torch.linalg.vector_norm torch.nn.ConvTranspose2d torch.nn.functional.pad"""


@pytest.mark.parametrize("name", APIS.split())
def test_an_api_is_what_torch_makes_of_a_call(name: str) -> None:
    forms = {each.replace(".", "_copy.", 2).replace("_copy.", ".", 1) for each in traced(name)} | {*traced(name)}
    assert forms & {*every_operator()} & {*meant_by(name)[0]}


@pytest.mark.parametrize("name", ["torch.save", "torch.outer", "et_vk.conv_with_clamp", "torch.nn.LSTM"])
def test_what_is_not_one_operator_is_none(name: str) -> None:
    assert meant_by(name) == ({}, (name,))


def test_an_overload_that_writes_is_the_one_that_does_not() -> None:
    names = ("aten.convolution.out", "aten.add.out", "aten.mean.out")
    assert [[*meant_by(name)[0]] for name in names] == [
        ["aten.convolution.default"],
        ["aten.add.Tensor"],
        ["aten.mean.dim"],
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.float32, FP 16", ("fp32", "fp16")),
        ("int8x8 / INT16x8", ("int8", "int16")),
        ("int16 activations, 8-bit weights", ("int16",)),
        ("weights: 8 bits; activations: 16 bits", ("int8", "int16")),
        ("bf16", None),
        ("8da4w", None),
    ],
)
def test_types_in_every_spelling(text: str, expected: tuple[str, ...] | None) -> None:
    assert precisions("aten.convolution.default", text)[0] == expected
