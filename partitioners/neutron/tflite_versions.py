"""The version each operator carries: the lowest that has what this use of it needs.

The rules are those of `tensorflow/lite/tools/versioning/op_version.cc` for int8 tensors. LEAKY_RELU and
QUANTIZE carry the version that TFLite's quantizer gives them (`tools/optimize/operator_property.cc`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from npu_assay.partitioners.neutron.tflite_model import Tensor
from npu_assay.partitioners.neutron.tflite_schema import OPERATORS

Inputs = Sequence[Tensor | None]
Options = Mapping[str, Any]


def version(code: str, options: Options, inputs: Inputs, outputs: Sequence[Tensor]) -> int:
    """Version of an int8 operator; None stands for an input that is left out."""
    rule = _RAISED.get(code)
    raised = rule(options, inputs, outputs) if rule else None
    return OPERATORS[code].version if raised is None else raised


def _rank(inputs: Inputs) -> int:
    return max((len(tensor.shape) for tensor in inputs if tensor is not None), default=0)


def _present(inputs: Inputs) -> int:
    return sum(tensor is not None for tensor in inputs)


def _grouped(options: Options, inputs: Inputs, outputs: Sequence[Tensor]) -> int | None:
    x, weights = (*inputs, None, None)[:2]
    return 6 if x and weights and x.shape[-1:] != weights.shape[-1:] else None


def _fully_connected(options: Options, inputs: Inputs, outputs: Sequence[Tensor]) -> int | None:
    if len(inputs) == 2:
        return 6
    return 5 if options.get("keep_num_dims", False) else None


def _mul(options: Options, inputs: Inputs, outputs: Sequence[Tensor]) -> int | None:
    scales = [tensor.scales[0] for tensor in (*inputs, *outputs) if tensor and tensor.scales]
    return 3 if len(scales) == 3 and scales[0] * scales[1] / scales[2] >= 1 else None


def _sub(options: Options, inputs: Inputs, outputs: Sequence[Tensor]) -> int | None:
    return 3 if _rank(inputs) > 4 and len({tensor.shape for tensor in inputs if tensor}) > 1 else None


def _transpose(options: Options, inputs: Inputs, outputs: Sequence[Tensor]) -> int | None:
    rank = _rank(inputs[:1])
    return 6 if rank > 5 else 4 if rank > 4 else None


def _beyond_rank_4(number: int) -> Callable[[Options, Inputs, Sequence[Tensor]], int | None]:
    return lambda options, inputs, outputs: number if _rank(inputs[:1]) > 4 else None


def _with_option(number: int, *names: str) -> Callable[[Options, Inputs, Sequence[Tensor]], int | None]:
    return lambda options, inputs, outputs: number if any(options.get(name, False) for name in names) else None


_RAISED: Final[Mapping[str, Callable[[Options, Inputs, Sequence[Tensor]], int | None]]] = {
    "CONV_2D": _grouped,
    "FULLY_CONNECTED": _fully_connected,
    "MUL": _mul,
    "PAD": _beyond_rank_4(4),
    "PADV2": _beyond_rank_4(4),
    "RESIZE_BILINEAR": _with_option(3, "half_pixel_centers"),
    "RESIZE_NEAREST_NEIGHBOR": _with_option(3, "half_pixel_centers", "align_corners"),
    "SLICE": _beyond_rank_4(5),
    "SUB": _sub,
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": lambda options, inputs, outputs: 3 if _present(inputs) == 4 else None,
}
