"""Broken copies of the Ethos-U backends, each with one fault that a vendor could ship.

Certify one as a new user would: `PYTHONPATH=tests assay certify faulty_ethosu:bias_dropped`. `without_CODE` and
`misnamed_CODE` are partitioners that lack the rules of a code, or give another reason; both may have `u85_` before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from faulty import Patch, rewriting, with_compiler, with_device
from torch import Tensor, fx

from partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, boundary, ethos_u55, ethos_u85
from partitioners.ethosu import partitioner as partitioner_module
from partitioners.ethosu.device import elementwise as device_elementwise
from partitioners.ethosu.device import operators
from partitioners.ethosu.device.site import Kernel, Site, Step
from partitioners.ethosu.support import common, movement, pooling, products, reduction, resizing
from partitioners.ethosu.support.codes import SENTENCES
from partitioners.ethosu.tosa_format import read, write
from partitioners.ethosu.tosa_model import Array, TModel, TOperator, TShape, TTensor
from partitioners.exir import Backend, CompileSpec, PartitionResult, PreprocessResult
from partitioners.exir.backend import Rejection
from partitioners.exir.nodes import shape
from partitioners.exir.rules import rejection
from reference.int8 import accumulate, sums
from reference.int8 import products as float_products
from reference.rescale import tosa_single_round
from reference.tosa import images
from reference.tosa import rescale as scaling
from reference.tosa.numbers import Codes

# ------------------------------------------------------------------------------------ the partitioner

TARGETS = {"ethos-u55": "ethos-u55-128", "ethos-u85": "ethos-u85-256"}
Found = tuple[Rejection, ...]


def with_partitioner(backend: Backend, change: Callable[[Found], Found], patches: Any = ()) -> Backend:
    """A backend whose partitioner judges nodes under patches, and whose judgement is changed."""

    def of_partition(nodes: Any, graph: fx.Graph) -> Any:
        found = boundary.partition_rejections(nodes, graph)
        changed = {node: change(reasons) for node, reasons in (found or {}).items()}
        return changed if any(changed.values()) else None

    class Judging(EthosUPartitioner):
        def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
            with ExitStack() as stack:
                for target, name, value in (*patches, (partitioner_module, "partition_rejections", of_partition)):
                    stack.enter_context(patch.object(target, name, value))
                return super().partition(exported_program)

        def _all_rejections(self, node: fx.Node, context: Any, modules: Any) -> Found:
            return change(super()._all_rejections(node, context, modules))

    def partitioner(**options: Any) -> EthosUPartitioner:
        return Judging(EthosUCompileSpec(TARGETS[backend.name]), **options)

    return replace(backend, partitioner=partitioner)


def without(backend: Backend, code: str) -> Backend:
    """A partitioner that lacks the rules of a code."""
    return with_partitioner(backend, lambda found: tuple(one for one in found if one.code != code))


def misnamed(backend: Backend, code: str) -> Backend:
    """A partitioner that gives another reason."""
    return with_partitioner(
        backend, lambda found: tuple(replace(one, code="mood") if one.code == code else one for one in found)
    )


def limited(backend: Backend, module: ModuleType, name: str, value: object) -> Backend:
    """A partitioner with another number for a limit."""
    return with_partitioner(backend, lambda found: found, ((module, name, value),))


def __getattr__(name: str) -> Backend:
    """Partitioners without a rule, by its code."""
    backend, rest = (ethos_u85, name[4:]) if name.startswith("u85_") else (ethos_u55, name)
    for prefix, make in (("without_", without), ("misnamed_", misnamed)):
        if rest.startswith(prefix) and rest.removeprefix(prefix) in SENTENCES:
            return make(backend, rest.removeprefix(prefix))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def off_by(backend: Backend, module: ModuleType, name: str) -> tuple[Backend, Backend]:
    """Limits one too large and one too small."""
    right = getattr(module, name)
    return limited(backend, module, name, right + 1), limited(backend, module, name, right - 1)


rank_loosened, rank_tightened = off_by(ethos_u55, common, "MAX_RANK")
conv_height_loosened, conv_height_tightened = off_by(ethos_u55, products, "MAX_KERNEL_HEIGHT")
conv_area_loosened, conv_area_tightened = off_by(ethos_u55, products, "MAX_KERNEL_AREA")
weight_sum_loosened, weight_sum_tightened = off_by(ethos_u55, products, "MAX_WEIGHT_SUM")
matrix_size_loosened, matrix_size_tightened = off_by(ethos_u55, products, "MAX_SIZE")
pool_height_loosened, pool_height_tightened = off_by(ethos_u55, pooling, "MAX_KERNEL_HEIGHT")
padded_pool_loosened, padded_pool_tightened = off_by(ethos_u55, pooling, "MAX_PADDED_KERNEL")
pool_stride_loosened, pool_stride_tightened = off_by(ethos_u55, pooling, "MAX_STRIDE")
windows_loosened, windows_tightened = off_by(ethos_u55, movement, "MAX_WINDOWS")
argmax_loosened, argmax_tightened = off_by(ethos_u55, reduction, "MAX_ARGMAX_CHANNELS")
reduced_loosened, reduced_tightened = off_by(ethos_u55, reduction, "MAX_SIZE")
summed_loosened, summed_tightened = off_by(ethos_u55, reduction, "MAX_KERNEL_HEIGHT")
resize_loosened, resize_tightened = off_by(ethos_u85, resizing, "MAX_SCALE")


def _width_first(right: Callable[[fx.Node], tuple[int, int]]) -> Callable[[fx.Node], tuple[int, int]]:
    def exchanged(node: fx.Node) -> tuple[int, int]:
        height, width = right(node)
        return width, height

    return exchanged


conv_wrong_axis = limited(ethos_u55, products, "plane", _width_first(products.plane))
pool_wrong_axis = limited(ethos_u55, pooling, "kernel", _width_first(pooling.kernel))
stride_of_one_axis = limited(ethos_u55, pooling, "strides", lambda node: (pooling.kernel(node)[0],) * 2)
depth_of_last_axis = limited(ethos_u55, products, "shape", lambda node: _deep_last(shape(node)))
marks_ignored = limited(ethos_u55, common, "MARK", "_another_mark")
u55_as_u85 = replace(ethos_u55, partitioner=lambda **options: EthosUPartitioner(EthosUCompileSpec("ethos-u85-256")))


def _deep_last(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes whose depth, of three-dimensional convolutions, stands behind height and width."""
    return (*sizes[:2], *sizes[3:], sizes[2]) if len(sizes) == 5 else sizes


class _Moody(EthosUPartitioner):
    """Refuses all every other time it is asked."""

    turns = count()

    def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
        self.refusing = next(self.turns) % 2 == 1
        return super().partition(exported_program)

    def _all_rejections(self, node: fx.Node, context: Any, modules: Any) -> Found:
        mood = rejection(node, "mood", "none", "the mood must be good")
        return (mood,) if self.refusing else super()._all_rejections(node, context, modules)


moody = replace(ethos_u55, partitioner=lambda **options: _Moody(EthosUCompileSpec(TARGETS["ethos-u55"]), **options))

# ------------------------------------------------------------------------------------ what the compiler writes


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
    """What is before and behind each axis change places."""
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

# ------------------------------------------------------------------------------------ the device


def device(patched: Patch, backend: Backend = ethos_u55) -> Backend:
    """A backend whose device loads and runs under a patch."""
    return with_device(backend, patched)


Finish = Callable[[Tensor, Tensor, Tensor, Codes], Tensor]
"""Accumulators (int64), multipliers, shifts and the result's codes -> codes."""


def rescaling(finish: Finish, backend: Backend = ethos_u55) -> Backend:
    """A device with another RESCALE."""

    def rounded(multiplier: Tensor, shift: Tensor, y: Codes, bound: int, scale32: bool = True) -> Kernel:
        return lambda acc: y.stored(finish(acc.to(torch.int64), multiplier, shift, y).clamp(y.low, y.high))

    def of_product(product: Any, multipliers: Any, shifts: Any, y: Codes, scale32: bool = True) -> Kernel:
        last = rounded(torch.tensor(multipliers), torch.tensor(shifts), y, product.bound)
        offset = torch.zeros(1, dtype=torch.int64) if product.offset is None else product.offset
        return lambda raw: last(raw.to(torch.int64) + offset)

    def patched() -> Any:
        stack = ExitStack()
        stack.enter_context(patch.object(scaling, "rounded", rounded))
        stack.enter_context(patch.object(images, "rounded", rounded))
        stack.enter_context(patch.object(device_elementwise, "of_product", of_product))
        return stack

    return device(patched, backend)


def _half_even(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    up = tosa_single_round(acc, multiplier, shift)
    mask = (torch.ones_like(shift) << shift) - 1
    tie = (acc * multiplier & mask) == (torch.ones_like(shift) << (shift - 1))
    return up - (tie & (up & 1 == 1)).long() + y.zero_point


def _half_away(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return acc.sign() * tosa_single_round(acc.abs(), multiplier, shift) + y.zero_point


def _truncated(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return (acc * multiplier >> shift) + y.zero_point


def _wrapped(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    codes = tosa_single_round(acc, multiplier, shift) + y.zero_point
    return (codes - y.low) % (y.high - y.low + 1) + y.low


def _saturated_first(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return tosa_single_round(acc, multiplier, shift).clamp(y.low, y.high) + y.zero_point


def _double_round(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    """The old rounding of TOSA and TensorFlow Lite: past 31 bits away from zero in a step of its own."""
    nudge = torch.where((acc >= 0) & (shift > 31), 1 << 30, torch.where(shift > 31, -(1 << 30), 0))
    return (acc * multiplier + (torch.ones_like(shift) << (shift - 1)) + nudge >> shift) + y.zero_point


def _in_float32(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    ratio = (multiplier.double() / (torch.ones_like(shift) << shift)).float()
    return torch.floor(acc.float() * ratio + 0.5).long() + y.zero_point


def _first_channel(acc: Tensor, multiplier: Tensor, shift: Tensor, y: Codes) -> Tensor:
    return tosa_single_round(acc, multiplier.flatten()[0], shift.flatten()[0]) + y.zero_point


half_even = rescaling(_half_even)
half_away = rescaling(_half_away)
truncating = rescaling(_truncated)
wrapping = rescaling(_wrapped)
saturating_early = rescaling(_saturated_first)
double_rounding = rescaling(_double_round)
single_precision = rescaling(_in_float32)
first_channel_for_all = rescaling(_first_channel)


def operator(code: str, change: Callable[[Site, Kernel], Kernel], backend: Backend = ethos_u55) -> Backend:
    """A device with a change behind one operator's kernel."""
    right = operators.RULES[code]

    def rule(site: Site) -> Step:
        step = right(site)
        kernel = change(site, step.kernel)
        product = None if step.product is None else replace(step.product, kernel=kernel)
        return replace(step, kernel=kernel, product=product)

    return device(lambda: patch.object(operators, "RULES", {**operators.RULES, code: rule}), backend)


def after(change: Callable[[Tensor], Tensor], *dtypes: str) -> Callable[[Site, Kernel], Kernel]:
    """A change of the results of some types."""
    return lambda site, kernel: (
        kernel if dtypes and site.y.dtype not in dtypes else lambda *values: change(kernel(*values))
    )


def instead(kernel: Callable[[Site], Kernel], *dtypes: str) -> Callable[[Site, Kernel], Kernel]:
    """Another kernel for operands of some types."""
    return lambda site, right: right if dtypes and site.x.dtype not in dtypes else kernel(site)


def _wrap32(acc: Tensor) -> Tensor:
    return ((acc.to(torch.int64) + (1 << 31)) % (1 << 32) - (1 << 31)).double()


def _uninterpolated(site: Site) -> Kernel:
    entries = site.data(1).to(torch.int32)
    return lambda codes: entries[((codes.to(torch.int32) >> 7) + 256).long()] << 7


def _half_interpolated(site: Site) -> Kernel:
    """Between entries the middle."""
    entries = site.data(1).to(torch.int32)

    def apply(codes: Tensor) -> Tensor:
        wide = codes.to(torch.int32)
        place = ((wide >> 7) + 256).long()
        return (entries[place] << 7) + (entries[place + 1] - entries[place]) * (wide & 64)

    return apply


def _clipped_table(site: Site) -> Kernel:
    """The last segment, behind the last entry but one, is flat."""
    entries = site.data(1).to(torch.int32)
    entries[-1] = entries[-2]

    def apply(codes: Tensor) -> Tensor:
        wide = codes.to(torch.int32)
        place = ((wide >> 7) + 256).long()
        return (entries[place] << 7) + (entries[place + 1] - entries[place]) * (wide & 127)

    return apply


def _last_largest(site: Site) -> Kernel:
    axis = site.attribute("axis")
    return lambda x: (x.shape[axis] - 1 - x.flip(axis).argmax(axis)).to(torch.int32)


def _overwriting(site: Site) -> Kernel:
    low, high = site.attribute("min_val"), site.attribute("max_val")
    return lambda x: x.clamp_(low, high)


def _with_zeros_around(right: Any) -> Any:
    """Pools and products whose padding holds the code 0."""

    def padded(codes: Tensor, padding: Any, code: int, *rest: Any) -> Tensor:
        found: Tensor = right(codes, padding, 0, *rest)
        return found

    return padded


def _all_of_window(size: Any, kernel: tuple[int, int], stride: Any, padding: Any) -> Tensor:
    """Averages divide by the whole window, whether inside the image or not."""
    return torch.tensor(kernel[0] * kernel[1])


def _earlier(low: Tensor, high: Tensor, fraction: Tensor, n: int) -> Tensor:
    return torch.where(2 * fraction > n, high, low)


wide_sums_wrap = operator("CONV2D", after(_wrap32, "INT48"))
wide_matrices_wrap = operator("MATMUL", after(_wrap32, "INT48"), ethos_u85)
wide_sums_in_float32 = operator("CONV2D", after(lambda acc: acc.float().double(), "INT48"))
narrow_sums_saturate = operator("CONV2D", after(lambda acc: acc.clamp(-(2**15), 2**15 - 1), "INT32"))
table_uninterpolated = operator("TABLE", instead(_uninterpolated, "INT16"))
table_half_interpolated = operator("TABLE", instead(_half_interpolated, "INT16"))
table_clipped = operator("TABLE", instead(_clipped_table, "INT16"))
last_of_equals = operator("ARGMAX", instead(_last_largest))
constant = operator("TABLE", after(torch.zeros_like))
overwriting = operator("CLAMP", instead(_overwriting))
pool_off_by_one = operator("MAX_POOL2D", after(lambda codes: codes.roll(1, 2)))
sums_of_16_bits = operator("REDUCE_SUM", after(lambda total: total.to(torch.int16).to(torch.int32)))
negation_wraps = operator("NEGATE", instead(lambda site: lambda x: (-x.to(torch.int16)).to(x.dtype), "INT8", "INT16"))
products_wrap = operator("MUL", after(lambda product: product.to(torch.int16).to(torch.int32)))
padding_not_the_zero_point = device(
    lambda: (
        patch.object(sums, "padded", _with_zeros_around(accumulate.padded))
        if sums.has_int8_product()
        else patch.object(float_products, "padded_float", _with_zeros_around(accumulate.padded_float))
    )
)
padding_counted = device(lambda: patch.object(images, "_counts", _all_of_window))
padded_with_zeros = device(lambda: patch.object(images, "padded_float", _with_zeros_around(accumulate.padded_float)))
nearest_earlier = device(lambda: patch.object(images, "_nearest", _earlier), ethos_u85)
corners_exchanged = operator("RESIZE", after(lambda codes: codes.transpose(1, 2)), ethos_u85)
greater_or_equal = operator("GREATER", instead(lambda site: lambda a, b: a >= b), ethos_u85)
first_index_for_all = operator(
    "GATHER", instead(lambda site: lambda x, i: x[:, :1].expand(-1, i.shape[1], -1)), ethos_u85
)
