"""Borders around tensors."""

from __future__ import annotations

from npu_assay.reference.operators.home import (
    FIRST,
    PICKED,
    REAL,
    UNNAMED,
    Operator,
    Schemes,
    Shape,
    behind,
    moving,
    tflite,
    tosa,
    written,
)


def _pad(name: str, rank: int, onnx: str) -> Operator:
    """Padding of the last axes, another on each side."""
    widths = (1, 2, 0, 1, 2, 1)[: 2 * rank]
    shape: Shape = (1, 2, 4, 5, 6)[: rank + 2] if rank == 3 else (1, 3, 4, 5)[: rank + 2]
    none = (0,) * (2 * rank)
    spellings = (("nothing", behind(none)), ("one_side", behind((*none[:-1], 2))))
    return moving(name, widths, shape=shape, shapes=(shape[1:],), spellings=spellings, integers=False, onnx=onnx)


PADDING = (
    written(
        "aten.constant_pad_nd.default",
        "weighted:padded",
        schemes=Schemes(tflite("layout:pad"), tosa("tosa:pad", "error_bound_tosa:own_steps"), REAL),
        on_grid=True,
        dtype=FIRST,
        ieee="reals:itself",
        onnx="layout:padded",
    ),
    written(
        "aten.pad.default",
        "selection:pad",
        schemes=Schemes(UNNAMED, tosa("tosa:pad", "error_bound_tosa:own_steps"), UNNAMED),
        dtype=FIRST,
        without_onnx=PICKED,
    ),
    _pad("aten.reflection_pad1d.default", 1, "apart.layout:reflected"),
    _pad("aten.reflection_pad2d.default", 2, "apart.layout:reflected"),
    _pad("aten.reflection_pad3d.default", 3, "apart.layout:reflected"),
    _pad("aten.replication_pad1d.default", 1, "apart.layout:replicated"),
    _pad("aten.replication_pad2d.default", 2, "apart.layout:replicated"),
    _pad("aten.replication_pad3d.default", 3, "apart.layout:replicated"),
)
