"""What the device of Ethos-U holds and computes at most: the largest that it takes, and one less, for each operator."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from limits import taken_from
from tosa_building import Building

from npu_assay.partitioners.common.machine import DeviceError
from npu_assay.partitioners.ethosu import runtime
from npu_assay.partitioners.ethosu.device import site
from npu_assay.partitioners.ethosu.device.operators import OPERATORS
from npu_assay.partitioners.ethosu.runtime import load_model
from npu_assay.partitioners.ethosu.tosa_model import TModel


def _product(code: str, x: Sequence[int], weights: Sequence[int], outputs: int, **attributes: Any) -> TModel:
    b = Building()
    zero = b.constant([0], "INT8")
    image, bias = b.input(np.zeros(x), "INT8"), b.constant(np.zeros(outputs), "INT32")
    return b.program(
        b.apply(code, image, b.constant(np.ones(weights), "INT8"), bias, zero, zero, acc_type="INT32", **attributes)
    ).model


def _matrices() -> TModel:
    b = Building()
    zero = b.constant([0], "INT8")
    x, y = b.input(np.zeros((2, 3, 5)), "INT8"), b.input(np.zeros((2, 5, 7)), "INT8")
    return b.program(b.apply("MATMUL", x, y, zero, zero)).model


def _pool(code: str) -> TModel:
    b = Building()
    x = b.input(np.zeros((2, 5, 7, 3)), "INT8")
    zeros = [b.constant([0], "INT8")] * 2 if code == "AVG_POOL2D" else []
    kept = {"acc_type": "INT32"} if code == "AVG_POOL2D" else {}
    window: dict[str, Any] = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1, 0, 1), **kept}
    return b.program(b.apply(code, x, *zeros, **window)).model


def _resized() -> TModel:
    b = Building()
    scale, none = b.shape([4, 1, 4, 1]), b.shape([0, 0])
    image = b.input(np.zeros((2, 3, 5, 7)), "INT8")
    return b.program(b.apply("RESIZE", image, scale, none, none, mode="BILINEAR")).model


CONV2D = _product(
    "CONV2D", (2, 5, 7, 3), (2, 3, 2, 3), 2, pad=(1, 1, 0, 1), stride=(2, 1), dilation=(1, 1)
)  # gives [2, 3, 7, 2]
DEPTHWISE = _product(
    "DEPTHWISE_CONV2D", (2, 5, 7, 3), (3, 2, 3, 13), 39, pad=(1, 1, 0, 1), stride=(2, 1), dilation=(1, 1)
)  # gives [2, 3, 7, 39]
CONV3D = _product(
    "CONV3D", (2, 4, 5, 7, 3), (2, 2, 3, 2, 3), 2,
    pad=(0, 0, 1, 1, 0, 1), stride=(2, 2, 1), dilation=(1, 1, 1),
)  # gives [2, 2, 3, 7, 2]  # fmt: skip
TRANSPOSED = _product(
    "TRANSPOSE_CONV2D", (2, 3, 5, 7), (11, 4, 2, 7), 11, out_pad=(0, 0, 0, 0), stride=(2, 3)
)  # gives [2, 8, 14, 11]
APART = _product("TRANSPOSE_CONV2D", (2, 3, 5, 7), (11, 1, 1, 7), 11, out_pad=(0, 0, 0, 0), stride=(2, 3))

WORK = {
    "AVG_POOL2D": (_pool("AVG_POOL2D"), (2 * 3 * 7 * 3) * (3 * 2)),
    "CONV2D": (CONV2D, (2 * 3 * 7 * 2) * (3 * 2 * 3)),
    "CONV3D": (CONV3D, (2 * 2 * 3 * 7 * 2) * (2 * 3 * 2 * 3)),
    "DEPTHWISE_CONV2D": (DEPTHWISE, (2 * 3 * 7 * 39) * (3 * 2)),
    "MATMUL": (_matrices(), (2 * 3 * 7) * 5),
    "TRANSPOSE_CONV2D": (TRANSPOSED, (2 * 3 * 5) * (11 * 4 * 2 * 7)),
    "MAX_POOL2D": (_pool("MAX_POOL2D"), (2 * 3 * 7 * 3) * (3 * 2)),
}
"""A model, and how often it multiplies; of a pool, the numbers in its windows."""

GATHERED = {
    "windows": (CONV2D, (2 * 3 * 7) * (3 * 2 * 3)),
    "windows of one multiplier": (DEPTHWISE, 2 * 7 * 8 * 39),
    "boxes": (CONV3D, (2 * 2 * 3 * 7) * (2 * 3 * 2 * 3)),
    "products of each pixel": (TRANSPOSED, (2 * 3 * 5) * (11 * 4 * 2)),
    "a result with pixels apart": (APART, 2 * 5 * 13 * 11),
    "a padded image": (_pool("MAX_POOL2D"), 2 * 7 * 8 * 3),
    "what is between pixels": (_resized(), 2 * 9 * 17 * 7),
}
"""A model, and the largest tensor that its kernel makes besides its operands.

A depthwise convolution has more in its padded image, as wide as its results, than in its windows.
"""


LIMITS: dict[str, tuple[TModel, int, ModuleType, str, str]] = {
    **{
        f"work of {name}": (*found, runtime, "WORK_LIMIT", "multiplications of all operators")
        for name, found in WORK.items()
    },
    **{name: (*found, site, "ELEMENT_LIMIT", "elements to gather") for name, found in GATHERED.items()},
}


@pytest.mark.parametrize("name", LIMITS)
def test_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, least, module, limit, what = LIMITS[name]
    message = f"{what} is {least}, expected at most {least - 1}"
    taken_from(least, module, limit, monkeypatch, lambda: load_model(model), message, DeviceError)


def test_every_operator_with_work_is_asked() -> None:
    assert {code for code, row in OPERATORS.items() if row.work} == set(WORK)
