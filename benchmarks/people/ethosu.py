"""Mistakes in Ethos-U backends: 12 for Ethos-U55, then 12 for Ethos-U85."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx

from benchmarks.people import Holds, calling, checking, fault, wrapped
from npu_assay.faults.kernels import after, operator
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.ethosu.device import operators
from npu_assay.partitioners.ethosu.device.site import Site
from npu_assay.partitioners.ethosu.kernels import pooling
from npu_assay.partitioners.ethosu.lowering import convolution, elementwise, layout, resize, tables
from npu_assay.partitioners.ethosu.lowering.context import Context as Compilation
from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.scaling import code_of
from npu_assay.partitioners.ethosu.operators import LOWERINGS
from npu_assay.partitioners.ethosu.support import common, reduction
from npu_assay.partitioners.ethosu.support.linear import per_axis
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.ethosu.support.rules import RULES
from npu_assay.partitioners.exir.nodes import argument, operand, rank, shape
from npu_assay.partitioners.exir.ops import QUANTIZE_PER_TENSOR

Patched = AbstractContextManager[Any]
CONVOLUTION = "aten.convolution.default"


def _rule(target: str, code: str, holds: Holds) -> Patched:
    return patch.dict(RULES, {target: checking(RULES[target], code, holds)})


def _lowered(change: Any, *targets: str) -> Patched:
    """change: of the operation and the right function for it."""

    def made(right: Any) -> Any:
        return lambda operation: change(operation, right)

    return patch.dict(LOWERINGS, {target: made(LOWERINGS[target]) for target in targets})


@fault(ethos_u55, "rule", "convolution", "pytorch/executorch#11819")
def padding_of_height() -> Patched:
    """Large strides: only the height's padding is looked at."""

    def holds(node: fx.Node, context: Context) -> bool:
        steps, pads, gaps = (per_axis(node, *at) for at in ((3, "stride"), (4, "padding"), (5, "dilation")))
        wide = context.is_u55 and not argument(node, 6, "transposed") and max(steps[-2:]) > common.MAX_STRIDE
        return not wide or (pads[0] == 0 and max(gaps[-2:]) == 1)

    return _rule("aten.convolution.default", "stride_or_whole", holds)


@fault(ethos_u55, "rule", "avg_pool2d", "pytorch/executorch#21572")
def channels_as_batch() -> Patched:
    """Average pool: of three dimensions the channels are the batch."""
    pool = "aten.avg_pool2d.default", "batch"
    return _rule(*pool, lambda node, context: not context.is_u55 or shape(operand(node))[0] == 1)


@fault(ethos_u55, "rule", "mean or sum", "pytorch/executorch#1015")
def reduced_dims_as_written() -> Patched:
    """Reduced sizes: a negative dimension is not counted from the front."""

    def dims(node: fx.Node) -> list[int]:
        found: Any = argument(node, 1, "dim")
        return [found] if isinstance(found, int) else list(found) if found else list(range(rank(operand(node))))

    return patch.object(reduction, "reduced_dims", dims)


@fault(ethos_u55, "rule", "hardtanh or relu or convolution or linear", "pytorch/executorch#21974")
def upper_limit_not_looked_at() -> Patched:
    """An activation fuses whatever its upper limit is."""

    def fused(node: fx.Node, context: Context) -> bool:
        alone = len(node.users) == 1 and common.is_named(next(iter(node.users)), QUANTIZE_PER_TENSOR)
        return alone and context.traits(node).is_activation and common.bounds(node)[0] == 0

    return patch.object(common, "is_fused", fused)


@fault(ethos_u55, "compiler", "relu or hardtanh or clamp", "pytorch/executorch#3092")
def limits_in_operand_codes() -> Patched:
    """Limits are codes of the operand, not of the result."""

    def change(operation: Any, right: Any) -> Any:
        quant = operation.first.quant
        if quant is None:
            return right(operation)
        with patch.object(elementwise, "code_of", lambda number, y: code_of(number, quant)):
            return right(operation)

    return _lowered(change, "aten.relu.default", "aten.hardtanh.default", "aten.clamp.default")


@fault(ethos_u55, "compiler", "cat", "pytorch/executorch#18999")
def joined_without_rescale() -> Patched:
    """Cat: operands of other parameters are joined as they are."""

    def change(operation: Any, right: Any) -> Any:
        with patch.object(Compilation, "requantised", lambda self, value, quant, node: value):
            return right(operation)

    return _lowered(change, "aten.cat.default")


@fault(ethos_u55, "compiler", "select", "pytorch/executorch#19973")
def negative_index_kept() -> Patched:
    """Select: a negative index is not counted from the end."""

    def change(operation: Any, right: Any) -> Any:
        x, bound = operation.first, operation.arguments
        place = x.home.index(operation.axis(bound["dim"], x.rank))
        tensor = operation.slice(operation.tensor(x, x.home), place, max(bound["index"], 0), 1)
        return operation.held(tensor, x.home, layout.quant_of(x, operation))

    return _lowered(change, "aten.select_copy.int")


@fault(ethos_u55, "compiler", "convolution", "pytorch/executorch#12671")
def scales_of_first_group() -> Patched:
    """Each group of filters gets the scales of the first."""

    def part(self: Any, start: int, count: int) -> Any:
        found = right(self, start, count)
        return convolution.Weights(found.value, self.scales if len(self.scales) == 1 else self.scales[:count], 0)

    right = convolution.Weights.part
    return patch.object(convolution.Weights, "part", part)


@fault(ethos_u55, "compiler", "sigmoid or tanh or exp", "pytorch/executorch#18873")
def codes_spread_over_range() -> Patched:
    """Tables: 256 codes are spread over a narrower range."""
    return patch.object(tables, "_all_codes", lambda q: torch.linspace(q.qmin, q.qmax, 256).round().to(torch.int8))


@fault(ethos_u55, "device", "convolution", "google/XNNPACK#883")
def first_image_only() -> Any:
    """Depthwise convolutions compute the first image only."""

    def change(site: Site, kernel: Any) -> Any:
        return lambda *values: kernel(*values)[:1].expand(site.y.shape[0], -1, -1, -1).clone()

    return operator(operators.RULES, change, "DEPTHWISE_CONV2D")()


@fault(ethos_u55, "device", "mean or sum", "tensorflow/tflite-micro#3597")
def sums_of_16_bits() -> Any:
    """Sums of 8-bit codes are added up in 16 bits."""

    def change(site: Site, kernel: Any) -> Any:
        low, high = site.spans[0]
        return after(wrapped)(site, kernel) if low >= -255 and high <= 255 else kernel

    return operator(operators.RULES, change, "REDUCE_SUM")()


@fault(ethos_u55, "device", "permute_copy", "pytorch/executorch#7285")
def transposed_backwards() -> Any:
    """Of five and six axes, a transposition is done the other way round."""

    def change(site: Site, kernel: Any) -> Any:
        order = site.attribute("perms")
        if len(order) < 5:
            return kernel
        back = sorted(range(len(order)), key=order.__getitem__)
        return lambda x: x.permute(back).reshape(site.y.shape).contiguous()

    return operator(operators.RULES, change, "TRANSPOSE")()


@fault(ethos_u85, "rule", "gather", "pytorch/executorch#14169")
def gather_dim_as_written() -> Patched:
    """Gather: a negative dimension is another one."""
    return _rule("aten.gather.default", "dims", lambda node, context: bool(argument(node, 1, "dim") == 1))


@fault(ethos_u85, "rule", "convolution", "pytorch/executorch#20763")
def channels_before_folding() -> Patched:
    """Scales per channel are not seen before they are folded."""

    def holds(node: fx.Node, context: Context) -> bool:
        weight = operand(node, 1)
        return weight is None or "scales" not in weight.meta or argument(node, 8, "groups") == 1

    return _rule("aten.convolution.default", "transposed_groups", holds)


@fault(ethos_u85, "rule", "gather", "apple/coremltools#2841")
def gathered_batches_only() -> Patched:
    """Gather: only the batches of input and indices are compared."""

    def holds(node: fx.Node, context: Context) -> bool:
        sizes, chosen = shape(operand(node)), shape(operand(node, 2))
        return len(sizes) in (2, 3) and len(chosen) == len(sizes) and sizes[0] == chosen[0]

    return _rule("aten.gather.default", "index_shape", holds)


@fault(ethos_u85, "rule", "index.Tensor", "pytorch/executorch#22680")
def gap_between_indices() -> Patched:
    """Index: a dimension without index is looked for in front only."""
    indices = "aten.index.Tensor", "explicit_indices"
    return _rule(*indices, lambda node, context: argument(node, 1, "indices")[0] is not None)


@fault(ethos_u85, "compiler", "upsample", "apache/tvm#2777")
def one_factor_for_both() -> Patched:
    """Resize: the result is divided by the height's factor twice."""

    def change(operation: Any, right: Any) -> Any:
        def rescale(self: Any, tensor: str, ratios: Any, dtype: str, zeros: Any = (0, 0)) -> str:
            return plain(self, tensor, (1 / resize.axes(self.node)[0].numerator ** 2,), dtype, zeros)

        plain = Operation.rescale
        with patch.object(Operation, "rescale", rescale):
            return right(operation)

    return _lowered(change, "aten.upsample_bilinear2d.vec")


@fault(ethos_u85, "compiler", "add or sub", "pytorch/executorch#15100")
def step_of_first_operand() -> Patched:
    """Sums: the common step follows from the first operand alone."""
    return calling(elementwise, "max", lambda *numbers: next(iter(numbers[0])) if len(numbers) == 1 else max(*numbers))


@fault(ethos_u85, "compiler", "split", "microsoft/onnxruntime#19381")
def equal_parts() -> Patched:
    """Split: all parts are as long as the first."""

    def total(sizes: Any) -> int:
        found = list(sizes)
        return len(found) * found[0] if found else 0

    return calling(layout, "sum", total)


@fault(ethos_u85, "compiler", "maximum or minimum", "pytorch/executorch#12959")
def extreme_in_first_scale() -> Patched:
    """Extremes: both operands have the scale of the first."""

    def common_scale(operation: Any, values: Any) -> Any:
        layout, tensors, _ = right(operation, values)
        return layout, tensors, operation.quant_of(values[0]).scale

    right = elementwise.to_common_scale
    return patch.object(elementwise, "to_common_scale", common_scale)


@fault(ethos_u85, "device", "bmm", "uxlfoundation/oneDNN#4149")
def first_matrix_for_all() -> Any:
    """All batches are multiplied by the first matrix."""
    return operator(
        operators.RULES, lambda site, right: lambda a, b: right(a, b[:1].expand_as(b).contiguous()), "MATMUL"
    )()


@fault(ethos_u85, "device", "amax", "openvinotoolkit/openvino#5494")
def maximum_from_zero() -> Any:
    """The largest number is looked for from 0 on."""
    return operator(operators.RULES, after(lambda x: x.clamp(min=0)), "REDUCE_MAX")()


@fault(ethos_u85, "device", "max_pool2d", "pytorch/executorch#16534")
def padded_with_zero() -> Patched:
    """Max pool: padding holds 0."""
    right: Any = pooling.padded_float

    def padded(codes: Tensor, padding: Any, code: int, dtype: torch.dtype) -> Tensor:
        found: Tensor = right(codes, padding, 0 if dtype == torch.float32 else code, dtype)
        return found

    return patch.object(pooling, "padded_float", padded)


@fault(ethos_u85, "device", "sigmoid or tanh", "kulinseth/pytorch#273")
def tables_kept_by_shape() -> Patched:
    """Tables stay where they are for operands of one shape."""
    right, kept = operators.RULES["TABLE"], dict[Any, Any]()

    def rule(site: Site) -> Any:
        step = right(site)
        return replace(step, kernel=kept.setdefault((site.x.shape, site.x.dtype), step.kernel))

    return patch.object(operators, "RULES", {**operators.RULES, "TABLE": rule})
