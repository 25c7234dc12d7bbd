"""What XNNPACK's partitioner is asked in several tests."""

from __future__ import annotations

from typing import Any

from xnnpack_graphs import coded, graph, partitioned, real, step

from npu_assay.conformance.programs.graph import Graph, Quant
from npu_assay.partitioners.xnnpack import (
    ConfigPrecisionType,
)

FP32, STATIC, DYNAMIC = ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT, ConfigPrecisionType.DYNAMIC_QUANT

CHAIN = graph([real("x", 2, 3)], [step("first", "abs", "x"), step("second", "relu", "first")])
LAYERS = graph(
    [
        real("x", 2, 4),
        *(real(f"w{i}", 4, 4, constant=True) for i in (1, 2)),
        *(real(f"b{i}", 4, constant=True) for i in (1, 2)),
    ],
    [
        step("one", "linear", "x", "w1", "b1"),
        step("middle", "sigmoid", "one"),
        step("two", "linear", "middle", "w2", "b2"),
        step("last", "relu", "two"),
    ],
)
AT_RUN_TIME = graph(
    [real("x", 2, 4), coded("w", 3, 4, quant=Quant((0.01,) * 3, 0, -127, axis=0), constant=True)],
    [step("product", "linear", "x", "w", dynamic="per_token")],
)


def taken(model: Graph, **options: Any) -> dict[str, bool]:
    """Which steps are delegated."""
    return {name: found is not None for name, found in partitioned(model, **options).steps.items()}
