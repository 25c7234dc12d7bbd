"""Ethos-U compilers that write something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import torch

from npu_assay.faults import rewriting, with_compiler
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.ethosu.tosa_format import read, write
from npu_assay.partitioners.ethosu.tosa_model import Array, TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.exir import Backend, CompileSpec, PreprocessResult


def compiler(change: Callable[[TModel], TModel], backend: Backend = ethos_u55) -> Backend:
    """A backend whose compiler changes every graph that it writes."""
    return rewriting(backend, lambda blob: write(change(read(blob))))


def each(*codes: str) -> Callable[[Callable[[TModel, TOperator], TOperator]], Callable[[TModel], TModel]]:
    """A change of every operator of some codes."""

    def of_model(change: Callable[[TModel, TOperator], TOperator]) -> Callable[[TModel], TModel]:
        def apply(model: TModel) -> TModel:
            made = (change(model, one) if one.code in codes else one for one in model.operators)
            return replace(model, operators=tuple(made))

        return apply

    return of_model


def attribute(code: str, **changes: Callable[[Any], Any]) -> Callable[[TModel], TModel]:
    """Other values of attributes."""

    def change(model: TModel, operator: TOperator) -> TOperator:
        made = {name: new(operator.attributes[name]) for name, new in changes.items()}
        return replace(operator, attributes={**operator.attributes, **made})

    return each(code)(change)


def exchanged(*codes: str) -> Callable[[TModel], TModel]:
    """The last two tensors among the operands change places."""
    return each(*codes)(lambda _, one: replace(one, inputs=(*one.inputs[:-2], one.inputs[-1], one.inputs[-2])))


def constants(
    position: int, change: Callable[[Array], Array], *codes: str, dtype: str = ""
) -> Callable[[TModel], TModel]:
    """Other data of the constant operands at a position; operators that share a constant with others get their own."""

    def apply(model: TModel) -> TModel:
        tensors = {tensor.name: tensor for tensor in model.tensors}
        made: list[TTensor] = []
        operators = []
        for number, one in enumerate(model.operators):
            tensor = tensors[one.inputs[position]] if one.code in codes and position < len(one.inputs) else None
            if tensor is None or tensor.data is None or (dtype and tensors[one.inputs[0]].dtype != dtype):
                operators.append(one)
                continue
            own = replace(
                tensor, name=f"{tensor.name}_{position}_of_{number}", data=np.ascontiguousarray(change(tensor.data))
            )
            made.append(own)
            inputs = (*one.inputs[:position], own.name, *one.inputs[position + 1 :])
            operators.append(replace(one, inputs=inputs))
        return replace(model, tensors=(*model.tensors, *made), operators=tuple(operators))

    return apply


def shapes(position: int, change: Callable[[tuple[int, ...]], tuple[int, ...]], code: str) -> Any:
    """Other numbers in the SHAPE operands at a position."""

    def apply(model: TModel) -> TModel:
        named = {each.name: each for each in model.shapes}
        made, operators = [], []
        for number, one in enumerate(model.operators):
            if one.code == code:
                old = named[one.inputs[position]]
                made.append(TShape(f"{old.name}_{number}", change(old.values)))
                one = replace(one, inputs=(*one.inputs[:position], made[-1].name, *one.inputs[position + 1 :]))
            operators.append(one)
        return replace(model, shapes=(*model.shapes, *made), operators=tuple(operators))

    return apply


CONVOLUTIONS = ("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
SMALLEST, LARGEST = -128, 127


def _sides_exchanged(pads: tuple[int, ...]) -> tuple[int, ...]:
    """What is before and after each axis change places."""
    return tuple(pads[position ^ 1] for position in range(len(pads)))


def _transposed(first: int, second: int) -> Callable[[Array], Array]:
    """Data in another order, said to be in the right one."""
    return lambda data: np.swapaxes(data, first, second).reshape(data.shape)


def _smallest_zero_point(position: int) -> Callable[[TModel], TModel]:
    return constants(position, lambda data: np.full_like(data, SMALLEST), "AVG_POOL2D")


bias_dropped = compiler(constants(2, np.zeros_like, *CONVOLUTIONS))
bias_reversed = compiler(constants(2, lambda data: data[::-1], *CONVOLUTIONS))
strides_exchanged = compiler(attribute("CONV2D", stride=lambda stride: stride[::-1]))
pads_exchanged = compiler(attribute("CONV2D", pad=_sides_exchanged))
dilation_lost = compiler(attribute("CONV2D", dilation=lambda _: (1, 1)))
scales_reversed = compiler(constants(1, lambda data: data[::-1], "RESCALE"))
scales_doubled = compiler(constants(2, lambda data: data - 1, "RESCALE", dtype="INT32"))
multipliers_of_16_bits = compiler(constants(1, lambda data: data >> 16 << 16, "RESCALE", dtype="INT32"))
weights_transposed = compiler(constants(1, _transposed(1, 2), "CONV2D"))
depthwise_transposed = compiler(constants(1, _transposed(0, 1), "DEPTHWISE_CONV2D"))
input_zero_point_lost = compiler(constants(3, np.zeros_like, *CONVOLUTIONS))
result_zero_point_lost = compiler(constants(4, np.zeros_like, "RESCALE", dtype="INT32"))
operand_zero_point_lost = compiler(constants(3, np.zeros_like, "RESCALE", dtype="INT8"))
matrix_zero_point_lost = compiler(constants(3, np.zeros_like, "MATMUL"))
pool_zero_point_lost = compiler(constants(1, np.zeros_like, "AVG_POOL2D"))
pool_zero_points_smallest = compiler(
    lambda model: _smallest_zero_point(2)(_smallest_zero_point(1)(model))  # both: other ties, nothing else
)
clamp_lost = compiler(attribute("CLAMP", min_val=lambda _: SMALLEST))
upper_limit_lost = compiler(attribute("CLAMP", max_val=lambda _: LARGEST))
table_unsigned = compiler(constants(1, lambda data: np.roll(data, 128), "TABLE", dtype="INT8"))
table_off_by_one = compiler(constants(1, lambda data: np.roll(data, 1), "TABLE", dtype="INT8"))
last_entry_repeated = compiler(constants(1, lambda data: np.append(data[:-1], data[-2]), "TABLE", dtype="INT16"))
padding_code_zero = compiler(constants(2, np.zeros_like, "PAD"))
padding_reversed = compiler(shapes(1, _sides_exchanged, "PAD"))
parts_exchanged = compiler(exchanged("CONCAT"))
difference_exchanged = compiler(exchanged("SUB"))
permutation_inverted = compiler(attribute("TRANSPOSE", perms=lambda perms: tuple(np.argsort(perms).tolist())))
reversed_elsewhere = compiler(attribute("REVERSE", axis=lambda axis: axis - 1))
begin_off_by_one = compiler(shapes(1, lambda values: tuple(max(n - 1, 0) for n in values), "SLICE"))
extremes_exchanged = compiler(
    each("REDUCE_MAX", "REDUCE_MIN")(
        lambda _, one: replace(one, code="REDUCE_MIN" if one.code == "REDUCE_MAX" else "REDUCE_MAX")
    )
)
offsets_lost = compiler(shapes(2, lambda values: (0, 0), "RESIZE"), ethos_u85)
or_equal_lost = compiler(each("GREATER_EQUAL")(lambda _, one: replace(one, code="GREATER")), ethos_u85)
choices_exchanged = compiler(exchanged("SELECT"), ethos_u85)
shifts_rounded = compiler(attribute("ARITHMETIC_RIGHT_SHIFT", round=lambda _: True), ethos_u85)
_numbers = count()


def _preprocess_dated(program: torch.export.ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
    """A compiler whose blobs carry a number that grows."""
    model = read(ethos_u55.details.preprocess(program, specs).processed_bytes)
    return PreprocessResult(write(replace(model, shapes=(*model.shapes, TShape("build", (next(_numbers),))))))


dated = with_compiler(ethos_u55, _preprocess_dated)
