"""What the device of Neutron holds and computes at most: the largest that it takes, and one more, for each limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from limits import taken_from
from tflite_models import Sketch, transposed_convolution

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.neutron import tflite
from npu_assay.partitioners.neutron.device import convolution, elementwise, matmul, pooling, window
from npu_assay.partitioners.neutron.device.site import Site
from npu_assay.partitioners.neutron.runtime import NeutronRuntime
from npu_assay.partitioners.neutron.tflite import Model


def _convolution() -> Model:
    """x [2, 4, 6, 8] in 2 groups, windows of 5 x 3: two rows more on both sides, and a column behind it."""
    s = Sketch(0)
    x = s.input((2, 4, 6, 8))
    w, b = s.weights((10, 5, 3, 4), 0, x, 9)
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 2}
    return s.model(s.op("CONV_2D", [x, w, b], (2, 4, 3, 10), (0.2, 0), **options))


def _rows(biased: bool = True) -> Model:
    s = Sketch(6)
    x = s.input((3, 24))
    w, b = s.weights((5, 24), 0, x, 9)
    return s.model(s.op("FULLY_CONNECTED", [x, w, b] if biased else [x, w], (3, 5)))


def _unary(code: str, x: Sequence[int], y: Sequence[int], quant: Any = None, **options: Any) -> Model:
    s = Sketch(1)
    return s.model(s.op(code, [s.input(x)], y, quant, **options))


def _products() -> Model:
    s = Sketch(2)
    return s.model(s.op("BATCH_MATMUL", [s.input((2, 3, 4)), s.input((2, 4, 5))], (2, 3, 5), (0.3, 0)))


def _resized() -> Model:
    s = Sketch(3)
    return s.model(s.op("RESIZE_NEAREST_NEIGHBOR", [s.input((1, 2, 3, 1)), s.numbers([4, 9])], (1, 4, 9, 1)))


POOL = {"padding": "VALID", "filter_height": 2, "filter_width": 3, "stride_h": 1, "stride_w": 1}
NEUTRON: dict[str, tuple[Model, Any, str, int, str]] = {
    "multiplications of a convolution": (
        _convolution(), convolution, "WORK_LIMIT", (2 * 4 * 3) * (10 * 5 * 3 * 4), "multiplications",
    ),
    "gathered by a convolution": (
        _convolution(), window, "WINDOW_LIMIT", (2 * 4 * 3) * (5 * 3 * 8), "gathered elements",
    ),
    "side of a window": (_convolution(), window, "SIDE_LIMIT", 5, "kernel"),
    "side of a pool": (_unary("MAX_POOL_2D", (1, 4, 6, 8), (1, 3, 4, 8), **POOL), window, "SIDE_LIMIT", 3, "kernel"),
    "results of a pool, which gathers nothing": (
        _unary("AVERAGE_POOL_2D", (1, 4, 6, 8), (1, 3, 4, 8), **POOL), window, "WINDOW_LIMIT", 3 * 4 * 8, "gathered",
    ),
    "side of a transposed convolution": (transposed_convolution(), convolution, "SIDE_LIMIT", 3, "kernel"),
    "gathered by a transposed convolution": (
        transposed_convolution(), convolution, "WINDOW_LIMIT", (2 * 3 * 5) * (2 * 3 * 7), "gathered elements",
    ),
    "a matrix": (_rows(), matmul, "WORK_LIMIT", 3 * 24 * 5, "multiplications"),
    "a matrix without a bias": (_rows(biased=False), matmul, "WORK_LIMIT", 3 * 24 * 5, "multiplications"),
    "matrices": (_products(), matmul, "WORK_LIMIT", 2 * 3 * 5 * 4, "multiplications"),
    "side of an image": (_resized(), pooling, "SIDE_LIMIT", 9, "size"),
    "row of a softmax": (
        _unary("SOFTMAX", (2, 7), (2, 7), (1 / 256, -128), beta=1.0), elementwise, "ROW_LIMIT", 7, "last axis",
    ),
}  # fmt: skip
"""A model, where its limit stands, and the least with which it is taken."""


@pytest.mark.parametrize("name", NEUTRON)
def test_what_neutron_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, module, limit, least, what = NEUTRON[name]
    taken_from(least, module, limit, monkeypatch, lambda: NeutronRuntime().load(tflite.write(model), []), what)


def test_padded_elements_of_neutron(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of the padding count, of both directions: 4 rows and 4 more, 6 columns and 1 more."""
    model, load = _convolution(), NeutronRuntime().load
    found = 2 * (4 + 4) * (6 + 1) * 8
    monkeypatch.setattr(Site.elements, "__defaults__", (found, "elements"))
    load(tflite.write(model), [])
    monkeypatch.setattr(Site.elements, "__defaults__", (found - 1, "elements"))
    with pytest.raises(FormatError, match=f"number of padded elements is {found}"):
        load(tflite.write(model), [])
