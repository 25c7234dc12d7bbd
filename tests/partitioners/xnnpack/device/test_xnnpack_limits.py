"""What the device of XNNPACK holds and computes at most: the largest that it takes, and one more, for each limit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import xnn_models as xnn
from limits import taken_from

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack import xnn_check
from npu_assay.partitioners.xnnpack.device import linear as xnn_products
from npu_assay.partitioners.xnnpack.device import pooling as xnn_pooling
from npu_assay.partitioners.xnnpack.device import site as xnn_site
from npu_assay.partitioners.xnnpack.runtime import XnnpackRuntime
from npu_assay.partitioners.xnnpack.xnn_check import check
from npu_assay.partitioners.xnnpack.xnn_format import write
from npu_assay.partitioners.xnnpack.xnn_model import ABSENT, KEEP_DIMS, XModel, XNode
from npu_assay.partitioners.xnnpack.xnn_shapes import output_shape

LARGEST = (2 - 2.0**-23) * 2.0**127
IMAGE = xnn.number("fp32", 1, 4, 5, 3)
XNNPACK: dict[str, tuple[XModel, Any, int, str]] = {
    "side of a pool": (
        xnn.one("MaxPooling2d", IMAGE, flags=KEEP_DIMS, **xnn.POOL), xnn_pooling,
        max(xnn.POOL["pooling_height"], xnn.POOL["pooling_width"]), "window",
    ),
    "side of a convolution": (
        xnn.one("Conv2d", IMAGE, xnn.weights("fp32", 4, 2, 3, 3), **xnn.CONVOLUTION | {"kernel_height": 2}),
        xnn_products, 3, "window",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", XNNPACK)
def test_what_xnnpack_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, module, least, what = XNNPACK[name]
    taken_from(least, module, "SIDE_LIMIT", monkeypatch, lambda: XnnpackRuntime().load(write(model), []), what)


def test_gathered_by_windows_of_xnnpack(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution's windows hold all input channels: 1 x 3 x 3 places of 2 x 3 cells of 3 channels, 4 outputs."""
    options = xnn.CONVOLUTION | {"kernel_height": 2, "padding_top": 0, "padding_left": 0, "padding_bottom": 0}
    options |= {"padding_right": 0, "subsampling_height": 1, "subsampling_width": 1, "dilation_height": 1}
    options |= {"dilation_width": 1}
    model = xnn.one("Conv2d", IMAGE, xnn.weights("fp32", 4, 2, 3, 3), **options)
    found = (1 * 3 * 3) * (2 * 3) * 3
    taken_from(
        found / 4, xnn_site, "ELEMENT_LIMIT", monkeypatch, lambda: XnnpackRuntime().load(write(model), []), str(found)
    )


def test_slopes_of_xnnpack_do_not_broadcast_their_operand() -> None:
    node = XNode("PReLU", (0, 1), (2,))
    assert output_shape(node, [(1, 2, 3, 4), (4,)]) == (1, 2, 3, 4)
    with pytest.raises(FormatError, match=r"shape of the slope is \(3,\), expected one that broadcasts to \(2, 1\)"):
        output_shape(node, [(2, 1), (3,)])


def test_a_transposed_convolution_of_xnnpack_is_larger_than_its_padding() -> None:
    """Of one row and one column, windows of 3 x 3 rows 2 apart make 5 x 3, all but one of which the padding takes."""
    plain = {"dilation_height": 2, "padding_top": 1, "padding_bottom": 3, "padding_left": 0, "padding_right": 2}
    assert _transposed_shape(plain) == (1, 1, 1, 4)
    with pytest.raises(FormatError, match="padding of height is 5, expected less than 5"):
        _transposed_shape(plain | {"padding_top": 2})
    with pytest.raises(FormatError, match="padding of width is 3, expected less than 3"):
        _transposed_shape(plain | {"padding_left": 1})


def _transposed_shape(options: dict[str, int]) -> tuple[int, ...]:
    node = XNode("ConvTranspose2d", (0, 1, ABSENT), (2,), xnn.CONVOLUTION | options)
    return output_shape(node, [(1, 1, 1, 3), (4, 3, 3, 3)])


@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_a_padding_of_xnnpack_may_be_infinite(value: float) -> None:
    amounts: dict[str, Any] = {"pre_paddings": (0, 1), "post_paddings": (0, 0), "padding_value": value}
    model = xnn.one("StaticConstantPad", xnn.number("fp32", 1, 2), y=xnn.number("fp32"), **amounts)
    (found,) = XnnpackRuntime().execute(XnnpackRuntime().load(write(model), []), [torch.ones(1, 2)])
    assert found.tolist() == [[value, 1.0, 1.0]]


def test_an_odd_row_of_4_bits_ends_within_a_byte() -> None:
    """Rows are packed one after the other, each from a byte of its own: 5 codes take 3."""
    matrix = xnn.weights("qcint4", 3, 5)
    model = xnn.dynamic(matrix)
    assert matrix.data is not None and matrix.data.shape == (3, 3)
    x = xnn.reals(4, 2, 5)
    (found,) = XnnpackRuntime().execute(XnnpackRuntime().load(write(model), []), [x])
    wide = xnn.weights("qcint8", 3, 5)
    codes = xnn.codes(2, 3, 5) >> 4
    again = xnn.dynamic(replace(wide, quant=matrix.quant, data=codes.numpy()))
    (expected,) = XnnpackRuntime().execute(XnnpackRuntime().load(write(again), []), [x])
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("scale", "fits"), [(2.0**-126, True), (2.0**-127, False), (LARGEST, True), (math.inf, False)])
def test_scales_are_normal_float32(scale: float, fits: bool) -> None:
    if fits:
        xnn_check._check_scales([scale], "value 0")
    else:
        with pytest.raises(FormatError, match="a positive, normal float32"):
            xnn_check._check_scales([scale], "value 0")


def test_a_value_is_one_argument() -> None:
    """An output that stands there twice, whose value says that it is the last."""
    model = xnn.one("Abs", xnn.number("fp32", 2, 3))
    assert write(model)
    twice = replace(model, outputs=(*model.outputs, *model.outputs))
    values = tuple(
        replace(v, external=len(twice.inputs) + 1) if i in twice.outputs else v for i, v in enumerate(twice.values)
    )
    with pytest.raises(FormatError, match="arguments by value"):
        check(replace(twice, values=values))
