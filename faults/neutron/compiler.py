"""Neutron compilers that write something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import torch

from npu_assay.faults import rewriting, with_compiler
from npu_assay.partitioners.exir import Backend, CompileSpec, PreprocessResult
from npu_assay.partitioners.neutron import backend
from npu_assay.partitioners.neutron.tflite import Model, Operator, Tensor, read, write

Array = np.ndarray[Any, Any]


def compiler(change: Callable[[Model], Model]) -> Backend:
    """The Neutron backend whose compiler changes every model that it writes."""
    return rewriting(backend, lambda blob: write(change(read(blob))))


def operators(change: Callable[[Operator], Operator], *codes: str) -> Backend:
    """A compiler that changes the operators of some codes; of all codes when none is given."""

    def apply(model: Model) -> Model:
        return replace(
            model, operators=tuple(change(one) if not codes or one.code in codes else one for one in model.operators)
        )

    return compiler(apply)


def options(change: Callable[[Mapping[str, Any]], Mapping[str, Any]], *codes: str) -> Backend:
    """A compiler that writes other options."""
    return operators(lambda one: replace(one, options={**one.options, **change(one.options)}), *codes)


def constants(position: int, change: Callable[[Tensor], Tensor], *codes: str) -> Backend:
    """A compiler that writes other constants at a position among an operator's inputs."""

    def apply(model: Model) -> Model:
        places = {one.inputs[position] for one in model.operators if one.code in codes and len(one.inputs) > position}
        tensors = (
            change(tensor) if index in places and tensor.data is not None else tensor
            for index, tensor in enumerate(model.tensors)
        )
        return replace(model, tensors=tuple(tensors))

    return compiler(apply)


def data(change: Callable[[Array], Array]) -> Callable[[Tensor], Tensor]:
    """A tensor with other numbers in it, of the same shape and type."""

    def apply(tensor: Tensor) -> Tensor:
        assert tensor.data is not None
        made = np.ascontiguousarray(change(tensor.data)).reshape(tensor.data.shape).astype(tensor.data.dtype)
        return replace(tensor, data=made)

    return apply


def exchanged(*codes: str) -> Backend:
    """A compiler that gives operators their inputs in the opposite order."""
    return operators(lambda one: replace(one, inputs=one.inputs[::-1]), *codes)


def _reversed_scales(tensor: Tensor) -> Tensor:
    return replace(tensor, scales=tensor.scales[::-1])


def _one_scale(tensor: Tensor) -> Tensor:
    """The first channel's scale for all."""
    return replace(tensor, scales=(tensor.scales[0],) * len(tensor.scales))


def _swap(first: str, second: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda found: {first: found[second], second: found[first]} if first in found else {}


def _shared_constants(model: Model) -> Model:
    """Constants of one shape and type are stored once: the first one's numbers."""
    seen: dict[tuple[str, tuple[int, ...]], Array] = {}
    tensors = []
    for tensor in model.tensors:
        if tensor.data is not None:
            tensor = replace(tensor, data=seen.setdefault((tensor.dtype, tensor.shape), tensor.data))
        tensors.append(tensor)
    return replace(model, tensors=tuple(tensors))


def _inputs_shifted(model: Model) -> Model:
    """What enters has the next zero point."""
    entering = {one.inputs[0] for one in model.operators if one.code in RESCALING} & set(model.inputs)
    tensors = (
        replace(tensor, zero_points=tuple(min(point + 1, 127) for point in tensor.zero_points))
        if index in entering
        else tensor
        for index, tensor in enumerate(model.tensors)
    )
    return replace(model, tensors=tuple(tensors))


def _outputs_rescaled(model: Model) -> Model:
    """What products write has a scale that is 1 % larger."""
    leaving = {one.outputs[0] for one in model.operators if one.code in PRODUCTS}
    tensors = (
        replace(tensor, scales=tuple(scale * 1.01 for scale in tensor.scales)) if index in leaving else tensor
        for index, tensor in enumerate(model.tensors)
    )
    return replace(model, tensors=tuple(tensors))


PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
RESCALING = (*PRODUCTS, "ADD", "SUB", "MUL", "ABS", "LEAKY_RELU")
POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
WINDOWS = ("CONV_2D", "DEPTHWISE_CONV_2D", *POOLS)

bias_dropped = constants(2, data(np.zeros_like), *PRODUCTS)
bias_reversed = constants(2, data(lambda codes: codes[::-1]), *PRODUCTS)
bias_doubled = constants(2, data(lambda codes: codes * 2), *PRODUCTS)
bias_of_16_bits = constants(2, data(lambda codes: codes.astype(np.int16)), *PRODUCTS)
strides_exchanged = options(_swap("stride_w", "stride_h"))
filter_exchanged = options(_swap("filter_width", "filter_height"), *POOLS)
dilations_exchanged = options(_swap("dilation_w_factor", "dilation_h_factor"), "CONV_2D", "DEPTHWISE_CONV_2D")
dilation_lost = options(lambda _: {"dilation_w_factor": 1, "dilation_h_factor": 1}, "CONV_2D", "DEPTHWISE_CONV_2D")
padded_always = options(lambda _: {"padding": "SAME"}, *WINDOWS)
scales_reversed = constants(1, _reversed_scales, *PRODUCTS)
first_scale_for_all = constants(1, _one_scale, *PRODUCTS)
weights_mirrored = constants(1, data(lambda codes: codes[:, ::-1]), "CONV_2D", "DEPTHWISE_CONV_2D")
weights_transposed = constants(1, data(lambda codes: np.swapaxes(codes, 1, 2)), "CONV_2D", "DEPTHWISE_CONV_2D")
channels_reversed = constants(1, data(lambda codes: codes[..., ::-1]), "CONV_2D")
matrix_transposed = constants(1, data(np.transpose), "FULLY_CONNECTED")
weights_negated = constants(1, data(lambda codes: -codes), *PRODUCTS)
weights_of_7_bits = constants(1, data(lambda codes: codes & ~1), *PRODUCTS)
constants_shared = compiler(_shared_constants)
zero_point_shifted = compiler(_inputs_shifted)
scale_of_result = compiler(_outputs_rescaled)
activation_lost = options(lambda _: {"fused_activation_function": "NONE"}, *RESCALING)
relu6_for_relu = operators(lambda one: replace(one, code="RELU6"), "RELU")
relu_for_relu6 = operators(lambda one: replace(one, code="RELU"), "RELU6")
relu_for_relu1 = operators(lambda one: replace(one, code="RELU"), "RELU_0_TO_1", "RELU_N1_TO_1")
matrices_exchanged = exchanged("BATCH_MATMUL")
parts_exchanged = exchanged("CONCATENATION")
axis_before = options(lambda found: {"axis": found["axis"] - 1}, "CONCATENATION")
permutation_inverted = constants(1, data(np.argsort), "TRANSPOSE")
begin_off_by_one = constants(1, data(lambda begin: np.maximum(begin - 1, 0)), "SLICE")
begin_lost = constants(1, data(np.zeros_like), "SLICE")
pads_exchanged = constants(1, data(lambda pads: pads[:, ::-1]), "PAD", "PADV2")
pad_axes_exchanged = constants(1, data(lambda pads: pads[[0, 2, 1, 3]] if len(pads) == 4 else pads), "PAD", "PADV2")
pad_code_zero = constants(2, data(np.zeros_like), "PADV2")
axes_off_by_one = constants(1, data(lambda axes: axes - 1), "MEAN")
size_exchanged = constants(1, data(lambda size: size[::-1]), "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
corners_forgotten = options(lambda _: {"align_corners": False}, "RESIZE_BILINEAR")
corners_always = options(lambda _: {"align_corners": True, "half_pixel_centers": False}, "RESIZE_BILINEAR")
half_pixels_forgotten = options(lambda _: {"half_pixel_centers": False}, "RESIZE_BILINEAR")
slope_negated = options(lambda found: {"alpha": -found["alpha"]}, "LEAKY_RELU")
slope_by_default = options(lambda _: {"alpha": 0.01}, "LEAKY_RELU")
slopes_reversed = constants(1, data(lambda codes: np.flip(codes).copy()), "PRELU")
beta_doubled = options(lambda _: {"beta": 2.0}, "SOFTMAX")
tanh_for_logistic = operators(lambda one: replace(one, code="TANH"), "LOGISTIC")
maximum_for_average = operators(lambda one: replace(one, code="MAX_POOL_2D"), "AVERAGE_POOL_2D")
_numbers = count()


def _preprocess_dated(program: torch.export.ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
    """A compiler whose blobs carry a number that grows."""
    model = read(backend.details.preprocess(program, specs).processed_bytes)
    return PreprocessResult(write(replace(model, description=f"build {next(_numbers)}")))


dated = with_compiler(backend, _preprocess_dated)
