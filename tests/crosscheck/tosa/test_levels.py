"""Kernels, strides and paddings at TOSA's level 8K and one past it, beside Arm's reference model. Needs tosa-tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tosa_reference_model
from tosa_building import Building, Program

from npu_assay.partitioners.ethosu.tosa_format import write
from npu_assay.partitioners.ethosu.tosa_rules import use, windows
from npu_assay.partitioners.exir.flatbuffer import FormatError
from tests.crosscheck.tosa.streams import silence

MOST = 8192
PLAIN: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0)}
ALONE: dict[str, Any] = {"stride": (1, 1), "out_pad": (0, 0, 0, 0)}
DEEP: dict[str, Any] = {"stride": (1, 1, 1), "dilation": (1, 1, 1), "pad": (0, 0, 0, 0, 0, 0)}
WINDOW: dict[str, Any] = {"stride": (1, 1), "pad": (0, 0, 0, 0)}


def convolution(code: str, x: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any]) -> Program:
    """A convolution of zeros to one channel."""
    building = Building()
    zero, bias = building.constant([0], "INT8"), building.constant([0], "INT32")
    values = (building.input(_zeros(x), "INT8"), building.constant(_zeros(weights), "INT8"), bias, zero, zero)
    return building.program(building.apply(code, *values, acc_type="INT32", **attributes))


def pool(code: str, x: tuple[int, ...], attributes: dict[str, Any]) -> Program:
    """A pool of zeros."""
    building = Building()
    operands = [building.input(_zeros(x), "INT8")]
    if code == "AVG_POOL2D":
        operands += [building.constant([0], "INT8")] * 2
        attributes = {**attributes, "acc_type": "INT32"}
    return building.program(building.apply(code, *operands, **attributes))


def _zeros(shape: tuple[int, ...]) -> Any:
    return np.zeros(shape)


def _programs(n: int) -> dict[str, Callable[[], Program]]:
    """Programs with `n` in one place, by what it is."""

    def plane(code: str) -> dict[str, Callable[[], Program]]:
        return {
            f"{code} kernel": lambda: convolution(code, (1, n, 1, 1), _column(code, n), PLAIN),
            f"{code} dilated kernel": lambda: convolution(
                code, (1, n, 1, 1), _column(code, 2), {**PLAIN, "dilation": (n - MOST // 2, 1)}
            ),
            f"{code} stride": lambda: convolution(
                code, (1, n + 1, 1, 1), _column(code, 1), {**PLAIN, "stride": (n, 1)}
            ),
            f"{code} pad": lambda: convolution(code, (1, 2, 1, 1), _column(code, 1), {**PLAIN, "pad": (0, n, 0, 0)}),
            f"{code} dilation": lambda: convolution(
                code, (1, 2, 1, 1), _column(code, 1), {**PLAIN, "dilation": (1, n)}
            ),
        }

    def windows_of(code: str) -> dict[str, Callable[[], Program]]:
        return {
            f"{code} kernel": lambda: pool(code, (1, n, 1, 1), {**WINDOW, "kernel": (n, 1)}),
            f"{code} stride": lambda: pool(code, (1, n + 1, 1, 1), {**WINDOW, "kernel": (1, 1), "stride": (n, 1)}),
        }

    return {
        **plane("CONV2D"),
        **plane("DEPTHWISE_CONV2D"),
        "CONV3D kernel": lambda: convolution("CONV3D", (1, n, 1, 1, 1), (1, n, 1, 1, 1), DEEP),
        "CONV3D stride": lambda: convolution(
            "CONV3D", (1, n + 1, 1, 1, 1), (1, 1, 1, 1, 1), {**DEEP, "stride": (n, 1, 1)}
        ),
        "CONV3D dilation": lambda: convolution(
            "CONV3D", (1, 1, 2, 1, 1), (1, 1, 1, 1, 1), {**DEEP, "dilation": (1, n, 1)}
        ),
        "CONV3D pad": lambda: convolution(
            "CONV3D", (1, 1, 1, 2, 1), (1, 1, 1, 1, 1), {**DEEP, "pad": (0, 0, 0, 0, 0, n)}
        ),
        "TRANSPOSE_CONV2D kernel": lambda: convolution("TRANSPOSE_CONV2D", (1, 2, 1, 1), (1, n, 1, 1), ALONE),
        "TRANSPOSE_CONV2D stride": lambda: convolution(
            "TRANSPOSE_CONV2D", (1, 2, 1, 1), (1, 1, 1, 1), {**ALONE, "stride": (1, n)}
        ),
        "TRANSPOSE_CONV2D out_pad": lambda: convolution(
            "TRANSPOSE_CONV2D", (1, 2, 1, 1), (1, 1, 1, 1), {**ALONE, "out_pad": (0, n, 0, 0)}
        ),
        **windows_of("AVG_POOL2D"),
        **windows_of("MAX_POOL2D"),
    }


def _column(code: str, n: int) -> tuple[int, ...]:
    return (1, n, 1, 1) if code == "CONV2D" else (n, 1, 1, 1)


@pytest.mark.parametrize("n", [MOST, MOST + 1])
@pytest.mark.parametrize("name", _programs(MOST))
def test_a_level_ends_where_the_reference_model_says(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    build = _programs(n)[name]
    with monkeypatch.context() as patch:  # what our rules refuse is built all the same
        for module in (use, windows):
            patch.setattr(module, "SIDE_LIMIT", 10 * MOST)
        program = build()
        blob = write(program.model)
    with silence():
        _, status = tosa_reference_model.run(blob, list(program.inputs), tosa_level="EIGHTK")
    assert (status == tosa_reference_model.GraphStatus.TOSA_VALID) == _is_ours(build) == (n == MOST)


def _is_ours(build: Callable[[], Program]) -> bool:
    try:
        write(build().model)
    except FormatError:
        return False
    return True
