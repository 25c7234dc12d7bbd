"""The rules that TOSA 1.0 has for convolutions, products, pools and resizes, on both sides of every limit.

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

# ------------------------------------------------------------------------------------------------ convolutions


X, W, B = t("INT8", 1, 5, 6, 3), t("INT8", 4, 3, 2, 3), t("INT32", 4)


def conv(
    x: TTensor = X,
    w: TTensor = W,
    bias: TTensor = B,
    zeros: tuple[TTensor, ...] = (ZERO, ZERO),
    **attributes: Any,
) -> Asked:
    usual: dict[str, Any] = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": "INT32"}
    return ask("CONV2D", x, w, bias, *zeros, **(usual | attributes))


def column(size: int, kernel: int, **attributes: Any) -> Asked:
    """A convolution of one column."""
    return conv(t("INT8", 1, size, 1, 1), t("INT8", 1, kernel, 1, 1), t("INT32", 1), **attributes)


accepted(conv(), "INT32", 1, 3, 5, 4)
accepted(conv(pad=(1, 0, 2, 1)), "INT32", 1, 4, 8, 4)
accepted(conv(pad=(1, 0, 2, 1), stride=(3, 7)), "INT32", 1, 2, 2, 4)
accepted(conv(dilation=(2, 5)), "INT32", 1, 1, 1, 4)
accepted(conv(bias=t("INT32", 1)), "INT32", 1, 3, 5, 4)
accepted(conv(zeros=(c("INT8", -5), c("INT8", 7))), "INT32", 1, 3, 5, 4)
WIDE: dict[str, Any] = {
    "x": t("INT16", 2, 5, 6, 3),
    "bias": t("INT48", 4),
    "zeros": (ZERO16, ZERO),
    "acc_type": "INT48",
}
accepted(conv(**WIDE), "INT48", 2, 3, 5, 4)
accepted(column(8192, 8192), "INT32", 1, 1, 1, 1)
accepted(column(4097, 2, dilation=(4096, 1)), "INT32", 1, 1, 1, 1)
accepted(column(8193, 1, stride=(8192, 1)), "INT32", 1, 2, 1, 1)
accepted(column(2, 1, pad=(8192, 0, 0, 0)), "INT32", 1, 8194, 1, 1)
refused(column(8193, 8193), "dilation \\* kernel is 8193, expected from 1 to 8192")
refused(column(8200, 2, dilation=(4097, 1)), "dilation \\* kernel is 8194")
refused(column(9000, 1, stride=(8193, 1)), "stride is .*, expected 2 numbers from 1 to 8192")
refused(column(2, 1, stride=(0, 1)), "stride is")
refused(column(2, 1, dilation=(0, 1)), "dilation is .*, expected 2 numbers from 1 to 8192")
refused(column(2, 1, dilation=(1,)), "dilation is")
refused(column(2, 1, stride=(1, 1, 1)), "stride is")
refused(column(2, 1, pad=(8193, 0, 0, 0)), "pad is .*, expected 4 numbers from 0 to 8192")
refused(column(2, 1, pad=(0, -1, 0, 0)), "pad is")
refused(column(2, 1, pad=(0, 0, 0)), "pad is")
refused(column(2, 3), "padded side less the window is -1, expected a multiple of the stride 1, from 0")
refused(column(2, 3, stride=(2, 1)), "padded side less the window is -1, expected a multiple of the stride 2")
refused(conv(pad=(1, 0, 0, 0), stride=(2, 1)), "padded side less the window is 3, expected a multiple of the stride 2")
refused(conv(pad=(0, 0, 0, 1), stride=(1, 2)), "padded side less the window is 5, expected a multiple of the stride 2")
refused(conv(x=t("INT8", 5, 6, 3)), "rank is 3, expected 4")
refused(conv(w=t("INT8", 4, 3, 3)), "rank is 3, expected 4")
refused(conv(w=t("INT8", 4, 3, 2, 5)), "input channels of the weights is 5, expected 3")
refused(conv(w=t("INT16", 4, 3, 2, 3)), "type of the weights is INT16, expected INT8")
refused(conv(x=t("INT32", 1, 5, 6, 3)), r"types is .'INT32'., expected one of .'INT8', 'INT16'. for all")
refused(conv(acc_type="INT48"), "acc_type is INT48, expected INT32")
refused(conv(**WIDE | {"acc_type": "INT32"}), "acc_type is INT32, expected INT48")
refused(conv(bias=t("INT32", 3)), r"bias is INT32 \[3\], expected INT32 \[4\] or \[1\]")
refused(conv(bias=t("INT48", 4)), "bias is INT48")
refused(conv(zeros=(ZERO16, ZERO)), r"operand 3 is INT16 \[1\], expected INT8 \[1\]")
refused(conv(zeros=(ZERO, ZERO32)), r"operand 4 is INT32 \[1\], expected INT8 \[1\]")
refused(conv(zeros=(c("INT8", 0, 0), ZERO)), r"operand 3 is INT8 \[2\]")
refused(conv(zeros=(t("INT8", 1), ZERO)), "operand 3 is computed, expected a constant tensor")
refused(conv(zeros=(ZERO, t("INT8", 1))), "operand 4 is computed")
refused(conv(**WIDE | {"zeros": (c("INT16", 1), ZERO)}), "zero point of INT16 is 1, expected 0")


def conv3d(x: TTensor, w: TTensor, **attributes: Any) -> Asked:
    usual: dict[str, Any] = {"pad": (0,) * 6, "stride": (1,) * 3, "dilation": (1,) * 3, "acc_type": "INT32"}
    return ask("CONV3D", x, w, t("INT32", 4), ZERO, ZERO, **(usual | attributes))


VOLUME, CUBE = t("INT8", 2, 4, 5, 6, 3), t("INT8", 4, 2, 3, 1, 3)
accepted(conv3d(VOLUME, CUBE), "INT32", 2, 3, 3, 6, 4)
accepted(conv3d(VOLUME, CUBE, pad=(0, 1, 0, 0, 2, 3)), "INT32", 2, 4, 3, 11, 4)
accepted(conv3d(VOLUME, CUBE, stride=(2, 1, 5), dilation=(1, 2, 1)), "INT32", 2, 2, 1, 2, 4)
refused(conv3d(VOLUME, CUBE, stride=(1, 1, 2)), "padded side less the window is 5, expected a multiple of the stride 2")
refused(conv3d(VOLUME, CUBE, pad=(0,) * 4), "pad is .*, expected 6 numbers from 0")
refused(conv3d(VOLUME, CUBE, stride=(1, 1)), "stride is .*, expected 3 numbers")
refused(conv3d(t("INT8", 4, 5, 6, 3), CUBE), "rank is 4, expected 5")
refused(conv3d(VOLUME, t("INT8", 4, 3, 1, 3)), "rank is 4, expected 5")


B6 = t("INT32", 6)


def depthwise(x: TTensor, w: TTensor, bias: TTensor = B6, **attributes: Any) -> Asked:
    usual: dict[str, Any] = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": "INT32"}
    return ask("DEPTHWISE_CONV2D", x, w, bias, ZERO, ZERO, **(usual | attributes))


IMAGE, TAPS = t("INT8", 2, 5, 7, 3), t("INT8", 3, 4, 3, 2)
accepted(depthwise(IMAGE, TAPS), "INT32", 2, 3, 4, 6)
accepted(depthwise(IMAGE, TAPS, pad=(1, 2, 0, 3)), "INT32", 2, 6, 7, 6)
accepted(depthwise(IMAGE, TAPS, bias=t("INT32", 1), stride=(2, 3)), "INT32", 2, 2, 2, 6)
refused(depthwise(IMAGE, TAPS, bias=t("INT32", 3)), r"bias is INT32 \[3\], expected INT32 \[6\] or \[1\]")
refused(depthwise(IMAGE, t("INT8", 3, 4, 2, 2)), "input channels of the weights is 2, expected 3")
refused(depthwise(t("INT8", 5, 7, 3), TAPS), "rank is 3, expected 4")
refused(depthwise(IMAGE, t("INT8", 3, 4, 3)), "rank is 3, expected 4")
refused(depthwise(IMAGE, TAPS, stride=(1, 2)), "padded side less the window is 3")
refused(depthwise(IMAGE, TAPS, pad=(0, 0)), "pad is .*, expected 4 numbers from 0")


def turned(size: tuple[int, int] = (4, 5), kernel: tuple[int, int] = (3, 4), **attributes: Any) -> Asked:
    x, w = t("INT8", 1, *size, 3), t("INT8", 2, *kernel, 3)
    usual: dict[str, Any] = {"out_pad": (0, 0, 0, 0), "stride": (2, 3), "acc_type": "INT32"}
    return ask("TRANSPOSE_CONV2D", x, w, t("INT32", 2), ZERO, ZERO, **(usual | attributes))


accepted(turned(), "INT32", 1, 9, 16, 2)
accepted(turned(out_pad=(-1, 0, 1, -2)), "INT32", 1, 8, 15, 2)
accepted(turned(out_pad=(-2, 0, 0, -3)), "INT32", 1, 7, 13, 2)
accepted(turned((1, 1), out_pad=(-1, -1, 0, -3)), "INT32", 1, 1, 1, 2)
accepted(turned(out_pad=(8192, 0, 0, 0)), "INT32", 1, 8201, 16, 2)
accepted(turned((1, 1), (8192, 1)), "INT32", 1, 8192, 1, 2)
refused(turned((1, 1), (8193, 1)), "kernel is 8193, expected from 1 to 8192")
refused(turned(out_pad=(8193, 0, 0, 0)), "out_pad is .*, expected 4 numbers to 8192")
refused(turned(out_pad=(0, 0, 0)), "out_pad is")
refused(turned(out_pad=(-3, 0, 0, 0)), "out_pad is .*, expected more than -3 on axis 0")
refused(turned(out_pad=(0, -3, 0, 0)), "out_pad is .*, expected more than -3 on axis 0")
refused(turned(out_pad=(0, 0, 0, -4)), "out_pad is .*, expected more than -4 on axis 1")
refused(turned((1, 1), out_pad=(-2, -1, 0, 0)), r"sides of the result is \[0, 4\], expected at least 1")
refused(turned((1, 1), out_pad=(0, 0, -2, -2)), r"sides of the result is \[3, 0\]")
refused(turned(stride=(0, 1)), "stride is .*, expected 2 numbers from 1 to 8192")
TURNED: dict[str, Any] = {"out_pad": (0, 0, 0, 0), "stride": (1, 1), "acc_type": "INT32"}
for turned_x, turned_w, text in (
    (t("INT8", 4, 5, 3), t("INT8", 2, 3, 4, 3), "rank is 3, expected 4"),
    (t("INT8", 1, 4, 5, 3), t("INT8", 2, 3, 3), "rank is 3, expected 4"),
    (t("INT8", 1, 4, 5, 3), t("INT8", 2, 3, 4, 2), "input channels of the weights is 2, expected 3"),
):
    refused(ask("TRANSPOSE_CONV2D", turned_x, turned_w, t("INT32", 2), ZERO, ZERO, **TURNED), text)

# ------------------------------------------------------------------------------------------------ matrices and pools

LEFT, RIGHT = t("INT8", 2, 3, 4), t("INT8", 2, 4, 5)
accepted(ask("MATMUL", LEFT, RIGHT, c("INT8", 3), c("INT8", -4)), "INT32", 2, 3, 5)
accepted(ask("MATMUL", t("INT16", 2, 3, 4), t("INT16", 2, 4, 5), ZERO16, ZERO16), "INT48", 2, 3, 5)
refused(ask("MATMUL", LEFT, t("INT16", 2, 4, 5), ZERO, ZERO), "types is .'INT8', 'INT16'.")
refused(ask("MATMUL", LEFT, t("INT8", 1, 4, 5), ZERO, ZERO), r"shapes is .*, expected \[N, H, C\] and \[N, C, W\]")
refused(ask("MATMUL", LEFT, t("INT8", 2, 3, 5), ZERO, ZERO), "shapes is")
refused(ask("MATMUL", t("INT8", 3, 4), RIGHT, ZERO, ZERO), "rank is 2, expected 3")
refused(ask("MATMUL", LEFT, t("INT8", 4, 5), ZERO, ZERO), "rank is 2, expected 3")
WIDE_PAIR = t("INT16", 2, 3, 4), t("INT16", 2, 4, 5)
refused(ask("MATMUL", *WIDE_PAIR, c("INT16", 1), ZERO16), "zero point of INT16 is 1, expected 0")
refused(ask("MATMUL", *WIDE_PAIR, ZERO16, c("INT16", 2)), "zero point of INT16 is 2, expected 0")


PLANES = t("INT8", 2, 5, 6, 3)


def pooled(code: str, x: TTensor = PLANES, zeros: tuple[TTensor, ...] = (), **attributes: Any) -> Asked:
    usual: dict[str, Any] = {"kernel": (3, 2), "stride": (1, 1), "pad": (0, 0, 0, 0)}
    return ask(code, x, *zeros, **(usual | attributes))


AVERAGED: dict[str, Any] = {"zeros": (ZERO, ZERO), "acc_type": "INT32"}
for pool, more in (("MAX_POOL2D", {}), ("AVG_POOL2D", AVERAGED)):
    accepted(pooled(pool, **more), "INT8", 2, 3, 5, 3)
    accepted(pooled(pool, **more, pad=(2, 1, 0, 1)), "INT8", 2, 6, 6, 3)
    accepted(pooled(pool, **more, stride=(2, 4)), "INT8", 2, 2, 2, 3)
    accepted(pooled(pool, **more, kernel=(2, 5), pad=(1, 0, 4, 3)), "INT8", 2, 5, 9, 3)
    accepted(pooled(pool, **more, kernel=(5, 2), pad=(3, 4, 0, 1)), "INT8", 2, 8, 6, 3)
    refused(pooled(pool, **more, pad=(3, 0, 0, 0)), r"pad is .*, expected less than the kernel \[3, 2\]")
    refused(pooled(pool, **more, pad=(0, 3, 0, 0)), "pad is")
    refused(pooled(pool, **more, pad=(0, 0, 2, 0)), "pad is")
    refused(pooled(pool, **more, pad=(0, 0, 0, 2)), "pad is")
    refused(pooled(pool, **more, pad=(-1, 1, 0, 0)), "pad is .*, expected 4 numbers from 0 to 8192")
    refused(pooled(pool, **more, kernel=(0, 2)), "kernel is .*, expected 2 numbers from 1 to 8192")
    refused(pooled(pool, **more, kernel=(3,)), "kernel is")
    refused(
        pooled(pool, **more, stride=(2, 3)), "padded side less the window is 4, expected a multiple of the stride 3"
    )
    refused(pooled(pool, t("INT8", 5, 6, 3), **more), "rank is 3, expected 4")
    refused(pooled(pool, t("INT32", 2, 5, 6, 3), **more), "types is")
accepted(pooled("MAX_POOL2D", t("INT16", 2, 5, 6, 3)), "INT16", 2, 3, 5, 3)
accepted(pooled("AVG_POOL2D", zeros=(c("INT8", 1), c("INT8", 2)), acc_type="INT32"), "INT8", 2, 3, 5, 3)
refused(pooled("AVG_POOL2D", zeros=(ZERO, ZERO), acc_type="INT48"), "acc_type is INT48, expected INT32")
for first, second in ((c("INT16", 1), ZERO16), (ZERO16, c("INT16", 1))):
    wide = pooled("AVG_POOL2D", t("INT16", 2, 5, 6, 3), (first, second), acc_type="INT32")
    refused(wide, "zero point of INT16 is 1, expected 0")

# ------------------------------------------------------------------------------------------------ resizes


def resized(
    sizes: tuple[int, ...] = (3, 4),
    scale: tuple[int, ...] = (1, 1, 1, 1),
    offset: tuple[int, ...] = (0, 0),
    border: tuple[int, ...] = (0, 0),
    mode: str = "NEAREST",
    dtype: str = "INT8",
) -> Asked:
    return ask("RESIZE", t(dtype, 2, *sizes, 3), s(*scale), s(*offset), s(*border), mode=mode)


def scaled(size: int, n: int, d: int, offset: int = 0, border: int = 0) -> Asked:
    """Of the height alone."""
    return resized((size, 1), (n, d, 1, 1), (offset, 0), (border, 0))


accepted(resized(scale=(4, 2, 6, 3)), "INT8", 2, 5, 7, 3)
accepted(resized(scale=(4, 2, 6, 3), mode="BILINEAR"), "INT32", 2, 5, 7, 3)
accepted(resized(dtype="INT16"), "INT16", 2, 3, 4, 3)
accepted(resized(dtype="INT16", mode="BILINEAR"), "INT48", 2, 3, 4, 3)
accepted(resized(scale=(4, 2, 6, 3), offset=(-2, 3), border=(2, -3)), "INT8", 2, 7, 5, 3)
for rows, one in (
    (1, scaled(1, 2048, 8)),
    (1, scaled(1, 256, 1)),
    (1, scaled(1, 1, 15)),
    (3, scaled(1, 2, 1, offset=-2)),
    (2, scaled(17, 2, 1, offset=31)),
    (1, scaled(17, 2, 1, border=-32)),
    (2, scaled(1, 2, 1, border=1)),
    (16383, scaled(16383, 1, 1)),
    (16383, scaled(8192, 2, 1)),
):
    accepted(one, "INT8", 2, rows, 1, 3)
refused(scaled(1, 2049, 9), r"scale is \[2049, 9\], expected n to 2048, d under 16 n")
refused(scaled(1, 0, 1), "scale is")
refused(scaled(1, 1, 0), r"scale is \[1, 0\], expected n to 2048")
refused(scaled(1, 1, 16), r"scale is \[1, 16\]")
refused(scaled(1, 257, 1), r"scale is \[257, 1\], expected a ratio to 256")
refused(scaled(1, 2, 1, offset=-3), "offset is -3, expected from -2 to 31")
refused(scaled(18, 2, 1, offset=32), "offset is 32, expected from -2 to 31")
refused(scaled(18, 2, 1, border=-33), "border is -33, expected from -32 to 1")
refused(scaled(1, 2, 1, border=2), "border is 2, expected from -32 to 1")
refused(scaled(1, 2, 1, offset=1), "scaled side is -1, expected a multiple of 1, from 0")
refused(scaled(2, 3, 2), "scaled side is 3, expected a multiple of 2")
refused(scaled(16384, 1, 2), "side is 16384, expected from 1 to 16383")
refused(scaled(8192, 2, 1, border=1), "side of the result is 16384, expected from 1 to 16383")
refused(resized(scale=(1, 1, 1)), r"scale is \[1, 1, 1\], expected 4 numbers")
refused(resized(offset=(0,)), r"offset is \[0\], expected 2 numbers")
refused(resized(border=(0, 0, 0)), "border is .*, expected 2 numbers")
refused(resized((3,)), "rank is 3, expected 4")
refused(resized(dtype="INT32"), "types is")
refused(ask("RESIZE", t("INT8", 1, 2, 2, 1), ZERO, s(0, 0), s(0, 0), mode="NEAREST"), "operand 1 is a tensor")
accepted(resized(scale=(1, 1, 1, 3)), "INT8", 2, 3, 2, 3)
refused(resized(scale=(1, 1, 1, 2)), "scaled side is 3, expected a multiple of 2")


@pytest.mark.parametrize(("asked", "dtype", "shape"), ANSWERS.accepted, ids=lambda item: getattr(item, "code", None))
def test_what_follows_from_operands_and_attributes(asked: Asked, dtype: str, shape: tuple[int, ...]) -> None:
    assert asked.result() == (dtype, shape)


@pytest.mark.parametrize(("asked", "message"), ANSWERS.refused, ids=lambda item: getattr(item, "code", None))
def test_what_an_operator_does_not_take(asked: Asked, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        asked.result()
