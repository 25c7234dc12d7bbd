"""The rules of the Ethos-U partitioner and the constraints of its tables are the same, row by row."""

from __future__ import annotations

import re

import pytest

from npu_assay.conformance.table import Row, Table, load_table
from npu_assay.partitioners.ethosu.boundary import SENTENCES
from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.partitioner import ADDITIONAL_CHECK
from npu_assay.partitioners.ethosu.preservation import preserved_operators
from npu_assay.partitioners.ethosu.support.common import EVERY_NODE
from npu_assay.partitioners.ethosu.support.quantization import AROUND
from npu_assay.partitioners.ethosu.support.rules import REFUSED, RULES, all_rules, supported_operators
from npu_assay.partitioners.exir.ops import DEQUANTIZE, GETITEM, QUANTIZE, target_name

U55, U85 = load_table("ethos_u55@1.5"), load_table("ethos_u85@1.5")
TABLES = (U55, U85)
PAIRS = [(table, row) for table in TABLES for row in table.rows]
ANYWHERE = {rule.code for rule in (*EVERY_NODE, *AROUND)} | {"not_alone", "uint8"}
"""What the partitioner asks of every operator; a table has it where a case can break it."""
ONLY_U55 = {
    "kernel_depth", "kernel_height", "kernel_area", "max_size", "stride_or_whole", "stride_or_window", "stride",
    "transposed_stride", "no_wide_transposed", "batch", "padded_kernel", "weight_sum", "reduced_size", "summed_size",
    "max_input_rank", "dilated_size", "divided_window", "windows", "transposition", "resize_scale",
}  # fmt: skip
ONLY_U55_OF = {
    ("aten.flip.default", "dims"),
    ("aten.argmax.default", "max_elements"),
    ("aten.argmax.default", "max_channels"),
}
CHANNELS_OF_U55 = ("aten.argmax.default", "aten.linear.default")
"""Rows of Ethos-U55 with `max_channels`: others have `max_size`."""
POOLS = ("aten.max_pool2d.default", "aten.max_pool2d_with_indices.default")
LOGICAL = {f"aten.logical_{name}.default" for name in ("and", "not", "or", "xor")}
COMPARISONS = {f"aten.{name}.{kind}" for name in ("eq", "ge", "gt", "le", "lt") for kind in ("Tensor", "Scalar")}
U85_TYPES = {"aten.where.self", "aten.argmax.default", *POOLS, *LOGICAL, *COMPARISONS}
"""Rows whose `code_dtype` holds on Ethos-U85, too."""
UNREACHABLE = {
    "aten.max_pool2d.default": {"indices_unused"},  # it has none
    "aten.convolution.default": {"rank", "code_dtype"},  # spatial_rank, static_weights and weight_dtype say so first
}
"""Rules that no case can break, by row."""
ALONG = ("aten.any.default", "aten.cumsum.default", "aten.flip.default", "aten.mean.dim")
UNLISTED = {**{name: {"min_rank"} for name in ALONG}, "aten.linear.default": {"spatial_rank"}}
"""What the NPU cannot do, and no table says."""


def implemented(table: Table, row: Row) -> set[str]:
    """The codes that the partitioner can give for a row, but for those that it can give for every operator."""
    codes = {rule.code for rule in RULES[row.rewritten_to or row.operator]}
    own = OPERATORS[row.operator]
    codes |= {"rescale"} if own.scalings else set()
    codes |= {"not_alone"} if own.vanishes else set()
    if table is U55 and row.operator not in CHANNELS_OF_U55:
        codes -= {"max_channels"}
    if table is U85:
        codes -= ONLY_U55 | {code for op, code in ONLY_U55_OF if op == row.operator}
        codes -= {"code_dtype"} if row.operator not in U85_TYPES else set()
    return codes


@pytest.mark.parametrize(("table", "row"), PAIRS, ids=lambda item: item.name)
def test_rules_are_the_constraints_of_their_row(table: Table, row: Row) -> None:
    codes, listed = implemented(table, row), {constraint.code for constraint in row.constraints}
    unseen = UNREACHABLE.get(row.operator, set()) | UNLISTED.get(row.operator, set())
    assert codes - ANYWHERE - listed == unseen & codes
    assert listed <= codes | ANYWHERE


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_the_operators_of_its_device(table: Table) -> None:
    named = {row.rewritten_to or row.operator for row in table.rows} | {row.operator for row in table.rows}
    assert named == set(supported_operators(table is U55)) - QUANTIZE - DEQUANTIZE - {GETITEM}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_sentences_are_those_of_the_partitioner(table: Table) -> None:
    fixed = {**REFUSED, **SENTENCES, "additional_check": ADDITIONAL_CHECK}
    found = [*fixed.items(), *((rule.code, rule.sentence) for rule in all_rules())]
    meanings = {code: re.escape(sentence).replace(r"\{value\}", ".+") for code, sentence in table.meanings}
    assert meanings.keys() <= {code for code, _ in found}
    for code, sentence in found:
        assert code not in meanings or re.fullmatch(meanings[code], sentence), code


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_table_keeps_whole_what_the_partitioner_asks_for(table: Table) -> None:
    asked = {target_name(op) for op in preserved_operators(is_u55=True)}
    rows = {row.operator for row in table.rows}
    assert set(table.preserve) == (asked & rows) - {"aten.eye.default", "aten.linspace.default"}
