"""Published tables as vendors print them: every line is counted, and every predicate has a call on either side."""

from __future__ import annotations

import csv
import re
import time
import tomllib
from collections.abc import Sequence
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
P, POOL = t(1, 8, 5000, 8), "max_pool2d.default"
UP, EACH = "upsample_nearest2d.vec", "out.shape[{}] / x.shape[{}]"
HIGH, WIDE = EACH.format(2, 2), EACH.format(3, 3)
FLOATS = "all(t.real in ('bfloat16', 'float16', 'float32', 'float64') for t in all_tensors)"
LINE = (t(1, 8, 8), t(8, 8, 3), None, [1], [0], [1])
PRINTED = [
    # NXP
    ("avg_pool2d.default", "ceil_mode=False", "not ceil_mode", (X, [2, 2]), (X, [2, 2], [2, 2], [0, 0], True)),
    (
        *("avg_pool2d.default", "count_include_pad=False", "not count_include_pad"),
        *((X, [2, 2], {"count_include_pad": False}), (X, [2, 2])),
    ),
    (
        *("avg_pool2d.default", "divisor_override=False", "divisor_override is None"),
        *((X, [2, 2]), (X, [2, 2], {"divisor_override": 4})),
    ),
    ("add.Tensor", "alpha = 1", "alpha == 1", (X, Y), (X, Y, {"alpha": 2})),
    ("add.Tensor", "input tensors of equal shape", "x.shape == y.shape", (X, Y), (X, t(8))),
    (
        *("bmm.default", "quantization zero points of inputs are equal", "x.zero_point == y.zero_point"),
        *((t(1, 4, 4), t(1, 4, 4)), (t(1, 4, 4), t(1, 4, 4, zero_point=1))),
    ),
    (
        *("cat.default", "all inputs share quantization parameters"),
        "all(t.scale == x.scale and t.zero_point == x.zero_point for t in operands)",
        *(([X, Y],), ([X, t(1, 8, 8, 8, scale=0.2)],)),
    ),
    (
        *("cat.default", "input_channels % 8 = 0", "all(t.shape[1] % 8 == 0 for t in operands)"),
        *(([X, Y],), ([t(1, 4, 8, 8), t(1, 4, 8, 8)], 1)),
    ),
    ("cat.default", "output_channels %8 = 0", "out.shape[1] % 8 == 0", ([X, Y],), ([X, t(1, 1, 8, 8)], 1)),
    (
        *("clone.default", "node has memory format specified", "memory_format is not None"),
        *((X, {"memory_format": torch.contiguous_format}), (X,)),
    ),
    (
        *("constant_pad_nd.default", "H or W padding only", "0 not in padded and 1 not in padded"),
        *((X, [1, 1]), (X, [0, 0, 0, 0, 1, 1])),
    ),
    ("convolution.default", "1D or 2D convolution", "weight.rank in (3, 4)", (X, W, *CONV), (V, V3, *CONV3)),
    ("convolution.default", "constant weights", "weight.is_constant", (X, C, *CONV), (X, W, *CONV)),
    (
        *("convolution.default", "groups=1 or groups=channels_count (depthwise)", "groups == 1 or groups == channels"),
        *((X, t(8, 1, 3, 3), *CONV[:-1], 8), (X, t(8, 4, 3, 3), *CONV[:-1], 2)),
    ),
    (
        *("div.Tensor", "divisor - static tensor or scalar value", "len(operands) == 1 or y.is_constant"),
        *((X, t(8, is_constant=True)), (X, Y)),
    ),
    (POOL, "dilation=1", "dilation_h == 1 and dilation_w == 1", (X, [2, 2]), (X, [2, 2], [1, 1], [0, 0], [1, 2])),
    (POOL, "stride < 4096", "stride_h < 4096 and stride_w < 4096", (P, [2, 2], [4095, 1]), (P, [2, 2], [4096, 1])),
    (POOL, "batch_size=1", "batch == 1", (X, [2, 2]), (t(2, 8, 8, 8), [2, 2])),
    (POOL, "stride_h=1 or 2", "stride_h in (1, 2)", (X, [2, 2]), (X, [2, 2], [3, 2])),
    ("max_pool1d.default", "stride < 4096", "stride_w < 4096", (t(1, 8, 8), [2]), (t(1, 8, 5000), [2], [4096])),
    ("mean.dim", "4D tensor only", "x.rank == 4", (X, [2, 3]), (t(8, 8), [1])),
    (
        "pad.default",
        "Only reflect mode supported for torch.nn.functional.pad",
        "mode == 'reflect'",
        (t(8, 8, 8), [1, 1], "reflect"),
        (X, [1, 1]),
    ),
    ("prelu.default", "rank = 4", "x.rank == 4", (X, t(1)), (t(8, 8), t(1))),
    ("_softmax.default", "rank > 1", "x.rank > 1", (t(8, 8), 1, False), (t(8), 0, False)),
    (POOL, "channels % 8 = 0", "channels % 8 == 0", (X, [2, 2]), (t(1, 9, 8, 8), [2, 2])),
    (POOL, "channels <= 2040", "channels <= 2040", (t(1, 2040, 8, 8), [2, 2]), (t(1, 2041, 8, 8), [2, 2])),
    ("_softmax.default", "channels < 2048", "channels < 2048", (t(1, 2047), 1, False), (t(1, 2048), 1, False)),
    (
        *("_softmax.default", "flat input size / channels <= 4096", "x.elements / channels <= 4096"),
        *((t(4096, 8), 1, False), (t(4097, 8), 1, False)),
    ),
    (
        *("_softmax.default", "flat input size <= 524288", "x.elements <= 524288"),
        *((t(524288, 1), 1, False), (t(524289, 1), 1, False)),
    ),
    (
        *(UP, "H_scale and W_scale = 1, 2, 4 or 8", f"{HIGH} in (1, 2, 4, 8) and {WIDE} in (1, 2, 4, 8)"),
        *((X, [16, 64], None), (X, [16, 24], None)),
    ),
    (
        UP,
        "H_scale = W_scale = 2 or 4",
        f"{HIGH} == {WIDE} and {HIGH} in (2, 4)",
        (X, [16, 16], None),
        (X, [16, 32], None),
    ),
    # XNNPACK
    ("_to_copy.default", "no dtype conversion", "out.real == x.real", (X,), (t(8, dtype="float16"),)),
    (
        *("avg_pool2d.default", "divisor_override=pooling_region"),
        "divisor_override is None or divisor_override == kernel_h * kernel_w",
        *((X, [2, 3], {"divisor_override": 6}), (X, [2, 3], {"divisor_override": 4})),
    ),
    ("constant_pad_nd.default", "no negative padding values", "min(pad) >= 0", (X, [0, 1]), (X, [-1, 1])),
    (
        POOL,
        "stride \N{LESS-THAN OR EQUAL TO} kernel_size",
        "stride_h <= kernel_h and stride_w <= kernel_w",
        (X, [2, 2]),
        (X, [2, 2], [2, 3]),
    ),
    (
        *(POOL, "ceil_mode only for static shapes", "not ceil_mode or all(t.open_sizes == 0 for t in operands)"),
        *(
            (X, [2, 2], [2, 2], [0, 0], [1, 1], True),
            (t(1, 8, 8, 8, open_axes=(0,)), [2, 2], [2, 2], [0, 0], [1, 1], True),
        ),
    ),
    (
        *("mean.dim", "dims=[-2,-1] or [-1,-2]", "min(reduced) == x.rank - 2 and max(reduced) == x.rank - 1"),
        *((X, [-1, -2]), (X, [1, 2])),
    ),
    ("pow.Tensor_Scalar", "power=2 only", "exponent == 2", (X, 2), (X, 3)),
    (
        "slice_copy.Tensor",
        "no dynamic shapes",
        "all(t.open_sizes == 0 for t in operands)",
        (X, 1),
        (t(8, 8, open_axes=(0,)), 1),
    ),
    ("_softmax.default", "dim must be last dimension", "dim == x.rank - 1", (X, -1, False), (X, 0, False)),
    # Vulkan
    (
        *("_to_copy.default", "dtype conversion between float types only", f"out.real == x.real or {FLOATS}"),
        *((t(8, dtype="float16"),), (t(8, dtype="int32"),)),
    ),
    ("amax.default", "keepdim=True required", "keepdim", (X, [1], True), (X, [1])),
    ("amax.default", "max 2D reductions", "len(reduced) <= 2", (X, [1, 2]), (X, [1, 2, 3])),
    (
        *("convolution.default", "batch=1 for 2D conv", "not (weight.rank == 4) or batch == 1"),
        *((X, W, *CONV), (t(2, 8, 8, 8), W, *CONV)),
    ),
    (
        *("convolution.default", "no transposed 1D conv", "not transposed or weight.rank != 3"),
        *((*LINE, False, [0], 1), (*LINE, True, [0], 1)),
    ),
    ("convolution.default", "no 3D conv", "weight.rank != 5", (X, W, *CONV), (V, V3, *CONV3)),
]
UNSEEN = [
    # a sentence that no document here has, the predicate that it says, a call within and a call without
    ("max_pool2d.default", "kernel height at most 8", "kernel_h <= 8", (X, [8, 1]), (t(1, 8, 9, 9), [9, 1])),
    ("convolution.default", "only constant weights", "weight.is_constant", (X, C, *CONV), (X, W, *CONV)),
    ("relu.default", "no zero-sized dimensions", "all(t.elements > 0 for t in operands)", (X,), (t(1, 0),)),
    ("relu.default", "non-empty inputs", "all(t.elements > 0 for t in operands)", (X,), (t(0),)),
    ("_softmax.default", "dim must be the last", "dim == x.rank - 1", (X, -1, False), (X, 1, False)),
    ("add.Tensor", "alpha must be 1", "alpha == 1", (X, Y), (X, Y, {"alpha": 2})),
    ("relu.default", "input rank 4 or less", "x.rank <= 4", (X,), (t(1, 1, 1, 1, 1),)),
    ("relu.default", "input must be 4D", "x.rank == 4", (X,), (t(8, 8, 8),)),
    ("max_pool2d.default", "channels divisible by 8", "channels % 8 == 0", (X, [2, 2]), (t(1, 9, 8, 8), [2, 2])),
    ("relu.default", "all dimensions divisible by 8", "all(size % 8 == 0 for size in x.shape)", (t(8, 8),), (X,)),
    ("relu.default", "one dimension must be a multiple of 8", "any(size % 8 == 0 for size in x.shape)", (X,), (t(9),)),
    ("relu.default", "last dimension at most 8", "x.shape[-1] <= 8", (X,), (t(8, 9),)),
    ("add.Tensor", "inputs must have identical shapes", "x.shape == y.shape", (X, Y), (X, t(8))),
    ("mul.Tensor", "both operands of equal rank", "x.rank == y.rank", (X, Y), (X, t(8))),
    ("add.Tensor", "inputs share scale", "x.scale == y.scale", (X, Y), (X, t(8, scale=0.2))),
    ("cat.default", "same rank for all inputs", "all(t.rank == x.rank for t in operands)", ([X, Y],), ([X, t(0)],)),
    (
        "cat.default",
        "channels % 8 = 0",
        "all(t.shape[1] % 8 == 0 for t in operands)",
        ([X, Y], 1),
        ([X, t(1, 1, 8, 8)], 1),
    ),
    ("cat.default", "output channels <= 16", "out.shape[1] <= 16", ([X, Y], 1), ([X, Y, X], 1)),
    (
        *("max_pool2d.default", "input and output must share quantization parameters"),
        *(
            "x.scale == out.scale and x.zero_point == out.zero_point",
            (X, [2, 2]),
            (t(1, 8, 8, 8, zero_point=1), [2, 2]),
        ),
    ),
    ("mul.Tensor", "second input must be static", "y.is_constant", (X, t(8, is_constant=True)), (X, Y)),
    (
        *("convolution.default", "bias must be constant", "bias is None or bias.is_constant"),
        *((X, C, *CONV), (X, C, t(8), *CONV[1:])),
    ),
    ("linear.default", "symmetric weights", "weight.zero_point == 0", (X, t(8, 8)), (X, t(8, 8, zero_point=1))),
    (
        "max_pool2d.default",
        "padding must be zero",
        "padding_h == 0 and padding_w == 0",
        (X, [2, 2]),
        (X, [2, 2], [], [1, 1]),
    ),
    ("leaky_relu.default", "negative_slope must be non-negative", "negative_slope >= 0", (X, 0.5), (X, -0.5)),
    ("slice_copy.Tensor", "stride 1 only", "step == 1", (X, 1, 0, 4, 1), (X, 1, 0, 4, 2)),
    ("gelu.default", "only tanh approximation", "approximate == 'tanh'", (X, {"approximate": "tanh"}), (X,)),
    (
        *("max_pool2d.default", "stride at most 2 in both directions", "stride_h <= 2 and stride_w <= 2"),
        *((X, [2, 2], [2, 2]), (X, [2, 2], [1, 3])),
    ),
    (
        *("max_pool2d.default", "kernel height = kernel width = 2 or 3"),
        *("kernel_h == kernel_w and kernel_h in (2, 3)", (X, [3, 3]), (X, [2, 3])),
    ),
    (
        *("convolution.default", "no dilated convolutions", "dilation_h == 1 and dilation_w == 1"),
        *((X, W, *CONV), (X, W, None, [1, 1], [0, 0], [2, 1], False, [0, 0], 1)),
    ),
    (
        *("convolution.default", "bias only if groups = 1", "bias is None or groups == 1"),
        *((X, W, *CONV), (X, t(8, 4, 3, 3), t(8), *CONV[1:-1], 2)),
    ),
    ("div.Tensor", "constant divisor", "len(operands) == 1 or y.is_constant", (X, t(8, is_constant=True)), (X, Y)),
]
STAYS = """add.Tensor: second input may be constant | add.Tensor: one dimension must be a multiple of 8 | relu.default: any dimension <= 64
relu.default: no dimension larger than 64 | slice_copy.Tensor: no zero-dim tensors | pad.default: only inference mode
convolution.default: weights need not be constant | convolution.default: weights and input must match | add.Tensor: same shape not required
where.self: all inputs must have the same shape | convolution.default: constant weights supported | add.Tensor: static inputs
add.Tensor: inputs of the same shape or broadcasting along the last axis | clamp.default: range (0, 6) | constant_pad_nd.default: only zero padding
_softmax.default: same as before | mul.Tensor: tensor size % 8 = 0 | relu.default: see page 3 | mean.dim: see the mean of others
expand_copy.default: no resize support | add.Tensor: no constant inputs | convolution.default: constant weights unless groups = 1"""
"""Sentences that say less than they seem to, or something else, each after its operator."""


@pytest.mark.parametrize(("row", "text", "predicate", "within", "without"), [*PRINTED, *UNSEEN])
def test_a_sentence_is_read_as_written_by_hand(row: str, text: str, predicate: str, within: Any, without: Any) -> None:
    (read,) = read_constraints(f"aten.{row}", text, "fp32" if row == "_to_copy.default" else "int8")
    assert read.holds == predicate
    assert [holds(predicate, f"aten.{row}", call) for call in (within, without)] == [True, False]


@pytest.mark.parametrize("text", re.split(r" \| |\n", STAYS))
def test_a_sentence_that_may_mean_something_else_stays_unread(text: str) -> None:
    row, _, said = text.partition(": ")
    assert [(each.holds, each.is_unread) for each in read_constraints(f"aten.{row}", said, "int8")] == [("", True)]


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
        pieces = [each for each in re.split(r",\s*(?![^(]*\))|;\s*", cell) if each and not re.fullmatch(r"\d+( or \d+)?", each)]
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
        "Op\nTypes\nSupported\nLimits\nrelu\nint8\nyes\nrank <= 4\nno bias\nabs\nno\nnosuch\nint8\nyes\n"
    )
    assert rows["aten.relu.default"]["constraints"] == ["rank_at_most_4 @document", "unread_no_bias @document"]
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


@pytest.mark.parametrize(
    "name",
    """torch.nn.AvgPool2d torch.nn.functional.conv2d torch.conv2d torch.nn.Linear Tensor.view torch.split torch.Tensor.split torch.mean
    torch.nn.ReLU6 torch.nn.Softmax torch.nn.LayerNorm torch.nn.MaxPool2d torch.cat torch.transpose torch.add torch.nn.PReLU torch.amax
    torch.nn.functional.scaled_dot_product_attention torch.Tensor.__getitem__ torch.reshape torch.swapaxes torch.narrow torch.div
    torch.true_divide torch.linalg.vector_norm torch.nn.ConvTranspose2d torch.nn.functional.pad""".split(),
)
def test_an_api_is_what_torch_makes_of_a_call(name: str) -> None:
    forms = {each.replace(".", "_copy.", 2).replace("_copy.", ".", 1) for each in traced(name)} | {*traced(name)}
    assert forms & {*every_operator()} & {*meant_by(name)[0]}


@pytest.mark.parametrize(
    "name", ["torch.save", "torch.outer", "et_vk.conv_with_clamp", "torch.nn.LSTM"]
)
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
