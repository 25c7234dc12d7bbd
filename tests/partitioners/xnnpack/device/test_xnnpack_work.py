"""How much an XNNPACK operator computes: counted by hand from its shapes."""

from __future__ import annotations

from typing import Any

import pytest

from npu_assay.partitioners.common.machine import DeviceError
from npu_assay.partitioners.xnnpack.device.work import check_work, work
from npu_assay.partitioners.xnnpack.xnn_model import XNode

IMAGE, FILTER, RESULT = (2, 5, 7, 3), (4, 2, 3, 3), (2, 4, 5, 4)


def node(op: str, **options: int) -> XNode:
    return XNode(op, (0,), (1,), options)


@pytest.mark.parametrize(
    ("found", "operands", "result", "expected"),
    [
        (node("Conv2d"), (IMAGE, FILTER), RESULT, 2 * 4 * 5 * (4 * 2 * 3 * 3)),
        (node("Conv2d"), (IMAGE, FILTER, (4,)), RESULT, 2 * 4 * 5 * (4 * 2 * 3 * 3)),
        (node("DepthwiseConv2d"), (IMAGE, (1, 2, 3, 6)), (2, 4, 5, 6), 2 * 4 * 5 * (2 * 3 * 6)),
        (node("ConvTranspose2d"), (IMAGE, FILTER), (2, 6, 9, 4), 2 * 5 * 7 * (4 * 2 * 3 * 3)),
        (node("FullyConnected"), ((6, 5), (11, 5)), (6, 11), 6 * 5 * 11),
        (node("BatchMatrixMultiply"), ((2, 6, 5), (2, 5, 11)), (2, 6, 11), 2 * 6 * 11 * 5),
        (node("MaxPooling2d", pooling_height=2, pooling_width=3), (IMAGE,), (2, 4, 5, 3), 2 * 4 * 5 * 3 * (2 * 3)),
        (node("Softmax"), ((6, 5),), (6, 5), 256 * 30),
        (node("Abs"), ((6, 5),), (6, 5), 30),
        (node("StaticConstantPad"), ((6, 5),), (7, 9), 63),
        (node("StaticSlice"), ((6, 5),), (2, 3), 30),
    ],
    ids=lambda value: value.op if isinstance(value, XNode) else None,
)
def test_multiplications_are_counted(found: XNode, operands: Any, result: Any, expected: int) -> None:
    assert work(found, "fp32", operands, result) == expected


@pytest.mark.parametrize(("dtype", "expected"), [("fp32", 960), ("fp16", 7680), ("bf16", 7680), ("qint8", 60)])
def test_a_multiplication_takes_longer_in_some_types(dtype: str, expected: int) -> None:
    assert work(node("FullyConnected"), dtype, ((6, 10), (16, 10)), (6, 16)) == expected
    assert work(node("Sigmoid"), dtype, ((3, 5),), (3, 5)) == 256 * 15


def test_a_model_may_compute_so_much_and_more_for_each_byte_of_its_constants() -> None:
    for size in (0, 100):
        check_work(2**32 + 64 * size, size, "here")
        with pytest.raises(DeviceError, match=f"is {2**32 + 64 * size + 1}"):
            check_work(2**32 + 64 * size + 1, size, "here")
