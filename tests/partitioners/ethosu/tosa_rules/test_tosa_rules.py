"""The rules that TOSA 1.0 has for arithmetic, rescales and movement, on both sides of every limit.

Results are by the formulas of TOSA's specification.
"""

from __future__ import annotations

from typing import Any

import pytest
from tosa_asking import ZERO, ZERO16, ZERO32, Answers, Asked, ask, c, s, t

from npu_assay.partitioners.ethosu.tosa_model import TTensor
from npu_assay.partitioners.exir.flatbuffer import FormatError

ANSWERS = Answers()
accepted, refused = ANSWERS.accept, ANSWERS.refuse

# ------------------------------------------------------------------------------------------------ element by element

ROW, COLUMN = t("INT32", 1, 3), t("INT32", 2, 1)
for code in ("ADD", "SUB", "INTDIV", "MAXIMUM", "MINIMUM"):
    accepted(ask(code, ROW, COLUMN), "INT32", 2, 3)
    refused(ask(code, t("INT8", 3), t("INT8", 3)), r"types is .*, expected one of \['INT32'\] for all")
    refused(ask(code, t("INT32", 3), t("INT32", 1, 3)), "shapes is .*, expected one rank, sizes equal or 1")
    refused(ask(code, t("INT32", 3), t("INT32", 2)), "shapes is")
for code in ("EQUAL", "GREATER", "GREATER_EQUAL"):
    accepted(ask(code, COLUMN, ROW), "BOOL", 2, 3)
    refused(ask(code, t("INT16", 3), t("INT16", 3)), "types is")
for code in ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR"):
    for dtype in ("INT8", "INT16", "INT32"):
        accepted(ask(code, t(dtype, 3), t(dtype, 3)), dtype, 3)
    refused(ask(code, t("BOOL", 3), t("BOOL", 3)), "types is")
for code in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"):
    accepted(ask(code, t("BOOL", 3), t("BOOL", 3)), "BOOL", 3)
    refused(ask(code, t("INT8", 3), t("INT8", 3)), "types is")
accepted(ask("LOGICAL_NOT", t("BOOL", 4)), "BOOL", 4)
accepted(ask("BITWISE_NOT", t("INT16", 4)), "INT16", 4)
accepted(ask("ABS", t("INT32", 4)), "INT32", 4)
accepted(ask("IDENTITY", t("INT48", 4)), "INT48", 4)
refused(ask("ABS", t("INT16", 4)), "types is")

accepted(ask("MUL", ROW, COLUMN, c("INT8", 63)), "INT32", 2, 3)
accepted(ask("MUL", t("INT16", 1, 3), t("INT16", 2, 1), ZERO), "INT32", 2, 3)
refused(ask("MUL", ROW, COLUMN, c("INT8", 64)), "shift is 64, expected from 0 to 63")
refused(ask("MUL", ROW, COLUMN, c("INT8", -1)), "shift is -1, expected from 0 to 63")
refused(ask("MUL", t("INT16", 3), t("INT16", 3), c("INT8", 1)), "shift is 1, expected from 0 to 0")
refused(ask("MUL", ROW, t("INT16", 2, 1), ZERO), "types is")
refused(ask("MUL", ROW, COLUMN, ZERO32), "operand 2 is INT32")
refused(ask("MUL", ROW, t("INT32", 2, 2), ZERO), "shapes is")

accepted(ask("NEGATE", t("INT8", 2, 3), c("INT8", 1), c("INT8", 2)), "INT8", 2, 3)
accepted(ask("NEGATE", ROW, ZERO32, ZERO32), "INT32", 1, 3)
refused(ask("NEGATE", ROW, c("INT32", 1), ZERO32), "zero point of INT32 is 1, expected 0")
refused(ask("NEGATE", ROW, ZERO32, c("INT32", 1)), "zero point of INT32 is 1, expected 0")
refused(ask("NEGATE", t("BOOL", 3), ZERO, ZERO), "types is")
refused(ask("NEGATE", t("INT8", 3), ZERO16, ZERO), r"operand 1 is INT16 \[1\], expected INT8 \[1\]")
refused(ask("NEGATE", t("INT8", 3), ZERO, ZERO16), r"operand 2 is INT16 \[1\], expected INT8 \[1\]")

for low, high in ((-128, 127), (5, 5)):
    accepted(ask("CLAMP", t("INT8", 3), min_val=low, max_val=high), "INT8", 3)
accepted(ask("CLAMP", t("INT16", 3), min_val=-32768, max_val=32767), "INT16", 3)
for low, high in ((-129, 0), (0, 128), (6, 5)):
    refused(ask("CLAMP", t("INT8", 3), min_val=low, max_val=high), "limits is .*, expected ascending, of INT8")
refused(ask("CLAMP", t("INT32", 3), min_val=0, max_val=1), r"types is .*, expected one of \['INT8', 'INT16'\] for all")

accepted(ask("TABLE", t("INT8", 3), c("INT8", *[0] * 256)), "INT8", 3)
accepted(ask("TABLE", t("INT16", 3), c("INT16", *[0] * 513)), "INT32", 3)
refused(ask("TABLE", t("INT8", 3), c("INT8", *[0] * 255)), r"operand 1 is INT8 \[255\], expected INT8 \[256\]")
refused(ask("TABLE", t("INT8", 3), c("INT8", *[0] * 257)), "operand 1 is")
refused(ask("TABLE", t("INT16", 3), c("INT16", *[0] * 512)), r"operand 1 is INT16 \[512\], expected INT16 \[513\]")
refused(ask("TABLE", t("INT16", 3), c("INT16", *[0] * 514)), "operand 1 is")
refused(ask("TABLE", t("INT8", 3), c("INT16", *[0] * 256)), r"operand 1 is INT16 \[256\]")
refused(ask("TABLE", t("INT32", 3), c("INT32", *[0] * 513)), "types is")

accepted(ask("SELECT", t("BOOL", 2, 1), t("INT8", 1, 3), t("INT8", 1, 1)), "INT8", 2, 3)
refused(ask("SELECT", t("INT8", 3), t("INT8", 3), t("INT8", 3)), "type of the condition is INT8, expected BOOL")
refused(ask("SELECT", t("BOOL", 3), t("INT8", 3), t("INT16", 3)), "types is")
refused(ask("SELECT", t("BOOL", 2), t("INT8", 3), t("INT8", 3)), "shapes is")

DATA = ("BOOL", "INT8", "INT16", "INT32")
for source in DATA:
    for target in (*DATA, "INT48"):
        if target in DATA and target != source:
            accepted(ask("CAST", t(source, 3), target=target), target, 3)
        else:
            refused(ask("CAST", t(source, 3), target=target), f"type from {source} is {target}, expected one of")
refused(ask("CAST", t("INT48", 3), target="INT32"), "types is")

# ------------------------------------------------------------------------------------------------ rescales


ONE = c("INT32", 5), c("INT8", 30)


def scale(
    source: str = "INT32",
    target: str = "INT8",
    shape: tuple[int, ...] = (2, 3),
    factors: tuple[TTensor, TTensor] = ONE,
    zeros: tuple[int, int] = (0, 0),
    **attributes: Any,
) -> Asked:
    usual: dict[str, Any] = {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": False}
    numbers = c(source, zeros[0]), c(target, zeros[1])
    return ask("RESCALE", t(source, *shape), *factors, *numbers, target=target, **(usual | attributes))


def factors(*pairs: tuple[int, int], dtype: str = "INT32") -> tuple[TTensor, TTensor]:
    return c(dtype, *(m for m, _ in pairs)), c("INT8", *(n for _, n in pairs))


THREE = factors((5, 30), (6, 31), (7, 32))
accepted(scale(zeros=(0, 9)), "INT8", 2, 3)
accepted(scale("INT8", "INT32", zeros=(-7, 0)), "INT32", 2, 3)
accepted(scale("INT16", "INT16"), "INT16", 2, 3)
accepted(scale(shape=(2, 4, 3), factors=THREE, per_channel=True), "INT8", 2, 4, 3)
accepted(scale(factors=factors((0, 2))), "INT8", 2, 3)
accepted(scale(factors=factors((1, 62))), "INT8", 2, 3)
accepted(scale("INT48", factors=factors((5, 9), dtype="INT16"), scale32=False), "INT8", 2, 3)
accepted(scale(factors=factors((5, 9), dtype="INT16"), scale32=False), "INT8", 2, 3)
accepted(scale(shape=()), "INT8")
accepted(scale("INT8", "INT8", input_unsigned=True), "INT8", 2, 3)
accepted(scale("INT16", "INT8", zeros=(-32768, 0), input_unsigned=True), "INT8", 2, 3)
accepted(scale("INT16", "INT8", input_unsigned=True), "INT8", 2, 3)
accepted(scale("INT8", "INT16", zeros=(0, -32768), output_unsigned=True), "INT16", 2, 3)
refused(scale("INT48"), "scale32 is True, expected false for INT48")
refused(scale(rounding_mode="DOUBLE_ROUND"), "rounding_mode is DOUBLE_ROUND, expected SINGLE_ROUND")
refused(scale(target="INT48"), "type of the result is INT48")
refused(scale(target="BOOL"), "type of the result is BOOL")
refused(scale("BOOL"), "types is")
refused(scale(shape=(), per_channel=True), "rank is 0, expected an axis to have multipliers for")
refused(scale(shape=(3, 2), factors=THREE, per_channel=True), r"operand 1 is INT32 \[3\], expected INT32 \[2\]")
refused(scale(factors=THREE), r"operand 1 is INT32 \[3\], expected INT32 \[1\]")
refused(scale(factors=(c("INT32", 5), c("INT8", 30, 30))), r"operand 2 is INT8 \[2\], expected INT8 \[1\]")
refused(scale(scale32=False), r"operand 1 is INT32 \[1\], expected INT16 \[1\]")
refused(scale(factors=factors((5, 30), dtype="INT16")), r"operand 1 is INT16 \[1\], expected INT32 \[1\]")
refused(scale(factors=(c("INT32", 5), c("INT32", 30))), "operand 2 is INT32")
refused(scale(factors=factors((-1, 30))), "multiplier is -1, expected at least 0")
refused(scale(factors=factors((5, 1))), "shift is 1, expected from 2 to 62")
refused(scale(factors=factors((5, 63))), "shift is 63, expected from 2 to 62")
refused(scale(factors=factors((5, 30), (6, 63), (7, 32)), per_channel=True), "shift is 63")
refused(scale(factors=factors((5, 30), (6, 1), (7, 32)), per_channel=True), "shift is 1,")
refused(scale(zeros=(1, 0)), r"zero point of INT32 is 1, expected one of \[0\]")
refused(scale(target="INT16", zeros=(0, 1)), r"zero point of INT16 is 1, expected one of \[0\]")
refused(scale("INT16", "INT8", zeros=(-32768, 0)), "zero point of INT16 is -32768")
refused(scale("INT16", "INT8", zeros=(1, 0), input_unsigned=True), r"zero point of INT16 is 1, .* \[0, -32768\]")
refused(scale("INT8", "INT16", zeros=(0, -32768), input_unsigned=True), "zero point of INT16 is -32768")
refused(scale("INT8", "INT8", input_unsigned=True, output_unsigned=True), "unsigned is input and output")
refused(scale("INT8", "INT32", input_unsigned=True), "unsigned types is .*, expected INT8 and INT16")
refused(scale("INT32", "INT8", output_unsigned=True), "unsigned types is")

# ------------------------------------------------------------------------------------------------ movement

accepted(ask("CONCAT", t("INT8", 2, 3, 4), t("INT8", 2, 5, 4), axis=1), "INT8", 2, 8, 4)
accepted(ask("CONCAT", *[t("BOOL", 1)] * 64, axis=0), "BOOL", 64)
accepted(ask("CONCAT", t("INT8", 2, 3), axis=1), "INT8", 2, 3)
refused(ask("CONCAT", *[t("BOOL", 1)] * 65, axis=0), "number of operands is 65, expected from 1 to 64")
refused(ask("CONCAT", t("INT8", 2, 3), t("INT8", 1, 3), axis=1), "shapes is .*, expected equal but for axis 1")
refused(ask("CONCAT", t("INT8", 2, 3), t("INT8", 3), axis=0), "shapes is")
refused(ask("CONCAT", t("INT8", 2, 3), t("INT8", 2), axis=1), "shapes is")
refused(ask("CONCAT", t("INT8", 2), t("INT16", 2), axis=0), "types is")
refused(ask("CONCAT", t("INT8", 2, 3), axis=2), "axis is 2, expected from 0 to 1")

accepted(ask("PAD", t("INT8", 2, 3, 1), s(1, 0, 2, 4, 0, 1), c("INT8", 9)), "INT8", 3, 9, 2)
accepted(ask("PAD", t("INT8", 1), s(1, 2), c("INT8", 9)), "INT8", 4)
refused(ask("PAD", t("INT8", 2, 3, 1), s(1, 0, 2, 4, 0), c("INT8", 9)), "padding is .*, expected 6 numbers from 0")
refused(ask("PAD", t("INT8", 2, 3), s(1, 0, 2, 4), s(0)), "operand 2 is computed, expected a constant tensor")
refused(ask("PAD", t("INT8", 2, 3), s(1, 0, 2), c("INT8", 9)), "padding is .*, expected 4 numbers from 0")
refused(ask("PAD", t("INT8", 2, 3), s(1, 0, 2, -1), c("INT8", 9)), "padding is")
refused(ask("PAD", t("INT8", 2, 3), s(1, 0, 2, 4), ZERO16), "types is")
refused(ask("PAD", t("INT8", 2, 3), s(1, 0, 2, 4), c("INT8", 1, 2)), r"operand 2 is INT8 \[2\], expected INT8 \[1\]")
refused(ask("PAD", t("INT8"), s(), c("INT8", 9)), "rank is 0, expected at least 1$")
refused(ask("PAD", t("INT8", 2, 3), ZERO, c("INT8", 9)), "operand 1 is a tensor, expected a SHAPE constant")

accepted(ask("RESHAPE", t("INT8", 2, 6), s(3, 4)), "INT8", 3, 4)
accepted(ask("RESHAPE", t("INT8", 1), s()), "INT8")
accepted(ask("RESHAPE", t("INT8", 2, 6), s(1, 1, 12, 1, 1, 1)), "INT8", 1, 1, 12, 1, 1, 1)
refused(ask("RESHAPE", t("INT8", 2, 6), s(1, 1, 12, 1, 1, 1, 1)), "shape is .*, expected 12 elements in at most 6 axes")
refused(ask("RESHAPE", t("INT8", 2, 6), s(2, 5)), "shape is")

accepted(ask("REVERSE", t("BOOL", 2, 3), axis=0), "BOOL", 2, 3)
refused(ask("REVERSE", t("BOOL", 2, 3), axis=2), "axis is 2, expected from 0 to 1")
refused(ask("REVERSE", t("BOOL", 2, 3), axis=-1), "axis is -1")
refused(ask("REVERSE", t("INT48", 2, 3), axis=0), "types is")

accepted(ask("SLICE", t("INT8", 4, 5), s(1, 2), s(3, 3)), "INT8", 3, 3)
accepted(ask("SLICE", t("INT8", 4, 5), s(0, 0), s(4, 1)), "INT8", 4, 1)
for start, size in (
    ((1, 3), (3, 3)),
    ((-1, 0), (2, 2)),
    ((0, 0), (0, 1)),
    ((0,), (1, 1)),
    ((0, 0), (1,)),
    ((0,), (1,)),
):
    refused(ask("SLICE", t("INT8", 4, 5), s(*start), s(*size)), r"start and size is .*, expected within \[4, 5\]")
refused(ask("SLICE", t("INT8"), s(), s()), "rank is 0")

accepted(ask("TILE", t("INT8", 2, 3), s(3, 1)), "INT8", 6, 3)
refused(ask("TILE", t("INT8", 2, 3), s(3, 0)), "multiples is .*, expected 2 numbers from 1")
refused(ask("TILE", t("INT8", 2, 3), s(3)), "multiples is")
refused(ask("TILE", t("INT8"), s()), "rank is 0")

accepted(ask("TRANSPOSE", t("INT8", 2, 3, 4), perms=(2, 0, 1)), "INT8", 4, 2, 3)
refused(ask("TRANSPOSE", t("INT8", 2, 3), perms=(0, 0)), "perms is .*, expected of 2 axes")
refused(ask("TRANSPOSE", t("INT8", 2, 3), perms=(0, 1, 2)), "perms is")
refused(ask("TRANSPOSE", t("INT8"), perms=()), "rank is 0")

accepted(ask("GATHER", t("INT8", 2, 5, 3), t("INT32", 2, 4)), "INT8", 2, 4, 3)
refused(ask("GATHER", t("INT8", 2, 5, 3), t("INT32", 1, 4)), "batch of the indices is 1, expected 2")
refused(ask("GATHER", t("INT8", 2, 5, 3), t("INT16", 2, 4)), "type of the indices is INT16, expected INT32")
refused(ask("GATHER", t("INT8", 2, 5, 3), t("INT32", 2, 4, 1)), "rank is 3, expected 2")
refused(ask("GATHER", t("INT8", 2, 5, 3, 1), t("INT32", 2, 4)), "rank is 4, expected 3")
refused(ask("GATHER", t("INT48", 2, 5, 3), t("INT32", 2, 4)), "types is")

VALUES = t("INT8", 2, 5, 3)
accepted(ask("SCATTER", VALUES, t("INT32", 2, 4), t("INT8", 2, 4, 3)), "INT8", 2, 5, 3)
accepted(ask("SCATTER", VALUES, t("INT32", 2, 5), t("INT8", 2, 5, 3)), "INT8", 2, 5, 3)
refused(ask("SCATTER", VALUES, t("INT32", 2, 6), t("INT8", 2, 6, 3)), "number of indices is 6, expected at most 5")
refused(ask("SCATTER", VALUES, t("INT32", 1, 4), t("INT8", 1, 4, 3)), "batch of the indices is 1, expected 2")
refused(ask("SCATTER", VALUES, t("INT32", 2, 4), t("INT8", 2, 3, 3)), "shape of the input is .2, 3, 3., .* .2, 4, 3.")
refused(ask("SCATTER", VALUES, t("INT32", 2, 4), t("INT8", 2, 4, 2)), "shape of the input is")
refused(ask("SCATTER", VALUES, t("INT16", 2, 4), t("INT8", 2, 4, 3)), "type of the indices is INT16")
refused(ask("SCATTER", VALUES, t("INT32", 2, 4), t("INT16", 2, 4, 3)), "types is")
refused(ask("SCATTER", t("INT8", 2, 5), t("INT32", 2, 4), t("INT8", 2, 4)), "rank is 2, expected 3")

for code, kind in (
    *((code, dtype) for code in ("REDUCE_MAX", "REDUCE_MIN") for dtype in ("INT8", "INT16", "INT32")),
    ("REDUCE_SUM", "INT32"),
    ("REDUCE_ALL", "BOOL"),
    ("REDUCE_ANY", "BOOL"),
):
    for axis, shape in ((0, (1, 3, 4)), (1, (2, 1, 4)), (2, (2, 3, 1))):
        accepted(ask(code, t(kind, 2, 3, 4), axis=axis), kind, *shape)
    refused(ask(code, t(kind, 2, 3, 4), axis=3), "axis is 3, expected from 0 to 2")
    allowed = "'INT8', 'INT16', 'INT32'" if code in ("REDUCE_MAX", "REDUCE_MIN") else f"'{kind}'"
    refused(ask(code, t("INT48", 2, 3, 4), axis=0), rf"types is .*, expected one of \[{allowed}\] for all")
accepted(ask("ARGMAX", t("INT8", 2, 3, 4), axis=1), "INT32", 2, 4)
accepted(ask("ARGMAX", t("INT16", 2, 3), axis=0), "INT32", 3)
refused(ask("ARGMAX", t("INT32", 2, 3), axis=0), r"types is .*, expected one of \['INT8', 'INT16'\] for all")
refused(ask("ARGMAX", t("INT8", 2, 3), axis=2), "axis is 2")


@pytest.mark.parametrize(("asked", "dtype", "shape"), ANSWERS.accepted, ids=lambda item: getattr(item, "code", None))
def test_what_follows_from_operands_and_attributes(asked: Asked, dtype: str, shape: tuple[int, ...]) -> None:
    assert asked.result() == (dtype, shape)


@pytest.mark.parametrize(("asked", "message"), ANSWERS.refused, ids=lambda item: getattr(item, "code", None))
def test_what_an_operator_does_not_take(asked: Asked, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        asked.result()
