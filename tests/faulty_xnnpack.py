"""Broken copies of the XNNPACK backend, each with one fault that a vendor could ship.

Certify one as a new user would: `PYTHONPATH=tests assay certify faulty_xnnpack:bias_dropped`.
The goldens are computed with the same kernels, so faults of the device hold only while it loads or runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

import faulty
import numpy as np
import torch
from faulty import Patch
from torch import Tensor, fx

from partitioners.exir import Backend, CompileSpec, PreprocessResult
from partitioners.exir.reach import union
from partitioners.exir.rules import Rule as AnyRule
from partitioners.exir.rules import rejection
from partitioners.xnnpack import XnnpackBackend as Correct
from partitioners.xnnpack import XnnpackPartitioner, backend
from partitioners.xnnpack.config import PartitionerConfig
from partitioners.xnnpack.device import elementwise, pooling, products
from partitioners.xnnpack.device.operators import RULES
from partitioners.xnnpack.device.site import Kernel, Site, Step
from partitioners.xnnpack.lowering import context
from partitioners.xnnpack.options import ConfigPrecisionType
from partitioners.xnnpack.runtime import Program
from partitioners.xnnpack.site import Rule
from partitioners.xnnpack.site import Site as Subject
from partitioners.xnnpack.xnn_format import read, write
from partitioners.xnnpack.xnn_model import ABSENT, PerChannel, PerGroup, XModel, XNode, XValue
from reference.affine import Affine
from reference.xnnpack import dynamic, rational, static
from reference.xnnpack.output import Bounds, limits

# ------------------------------------------------------------------------------------ the partitioner


def with_config(target: str, **changes: Any) -> Backend:
    """A backend whose config of one operator has other rules or precisions."""

    def partitioner(**options: Any) -> XnnpackPartitioner:
        made = backend.partitioner(**options)
        assert isinstance(made, XnnpackPartitioner)
        if target in made.configs:
            made.configs[target] = _changed(made.configs[target], changes)
        return made

    return replace(backend, partitioner=partitioner)


def _changed(config: PartitionerConfig, changes: Mapping[str, Any]) -> PartitionerConfig:
    """The config with other class attributes; a function makes a new one of the old one."""
    attributes = {name: new(getattr(config, name)) if callable(new) else new for name, new in changes.items()}
    made = type(type(config).__name__, (type(config),), attributes)()
    assert isinstance(made, PartitionerConfig)
    return made


def without(code: str) -> Callable[[tuple[Rule, ...]], tuple[Rule, ...]]:
    """Rules less the one of a code."""
    return lambda rules: tuple(rule for rule in rules if rule.code != code)


def instead(code: str, check: Callable[[fx.Node, Subject], str | None]) -> Callable[[tuple[Rule, ...]], Any]:
    """Rules with another function for the one of a code."""
    return lambda rules: tuple(AnyRule(r.code, r.sentence, check) if r.code == code else r for r in rules)


def named(code: str, other: str) -> Callable[[tuple[Rule, ...]], Any]:
    """Rules of which one gives another reason."""
    return lambda rules: tuple(replace(rule, code=other) if rule.code == code else rule for rule in rules)


def ignoring(option: str) -> Backend:
    """A backend whose partitioner ignores an option."""

    def partitioner(**options: Any) -> XnnpackPartitioner:
        made = backend.partitioner(**{name: value for name, value in options.items() if name != option})
        assert isinstance(made, XnnpackPartitioner)
        return made

    return replace(backend, partitioner=partitioner)


def _rank_up_to_7(node: fx.Node, site: Subject) -> str | None:
    ranks = [source.meta["val"].dim() for source in (*node.all_input_nodes, node)]
    return f"rank {max(ranks)}" if max(ranks) > 7 else None


def _stride_below_kernel(node: fx.Node, site: Subject) -> str | None:
    kernel: Any = node.args[1]
    stride: Any = node.args[2] if len(node.args) > 2 and node.args[2] else kernel
    return f"stride {stride}" if any(s >= k for s, k in zip(stride, kernel, strict=True)) else None


def _absolute_alpha(node: fx.Node, site: Subject) -> str | None:
    alpha: Any = node.kwargs.get("alpha", 1)
    return None if abs(alpha) == 1 else f"alpha = {alpha}"


FLOAT_ONLY = (ConfigPrecisionType.FP32,)

alpha_taken = with_config("aten.add.Tensor", rules=without("alpha"))
minus_taken = with_config("aten.sub.Tensor", rules=instead("alpha", _absolute_alpha))
rank_off_by_one = with_config("aten.abs.default", common=instead("max_rank", _rank_up_to_7))
stride_off_by_one = with_config("aten.max_pool2d.default", rules=instead("stride_within_kernel", _stride_below_kernel))
zero_points_taken = with_config("aten.linear.default", rules=without("weight_zero_point"))
scales_mixed = with_config("aten.cat.default", rules=without("same_qparams"))
scale_unlimited = with_config("aten.linear.default", rules=without("requant_scale"))
doubles_taken = with_config("aten.exp.default", common=without("dtype"))
another_reason = with_config("aten._softmax.default", rules=named("last_dim", "dims"))
never_on_codes = with_config("aten.mul.Tensor", precisions=FLOAT_ONLY)
precision_ignored = ignoring("config_precisions")
per_op_mode_ignored = ignoring("per_op_mode")
configs_ignored = ignoring("configs")


class _Moody(XnnpackPartitioner):
    """Refuses every other time it is asked."""

    turns = count()

    def _own_rejections(self, node: fx.Node, sites: Any) -> Any:
        found = super()._own_rejections(node, sites)
        return found if next(self.turns) % 2 else (rejection(node, "mood", "none", "the mood must be good"),)


class _Greedy(XnnpackPartitioner):
    """Puts everything into one delegate, even what waits for operators outside."""

    def _partitions(self, reach: Any, accepted: Any) -> Any:
        partitions, refused = super()._partitions(reach, accepted)
        return ({0: union(partitions.values())} if partitions else {}), refused


def of_class(kind: type[XnnpackPartitioner]) -> Backend:
    """A backend with another partitioner, which takes the same options."""

    def partitioner(**options: Any) -> XnnpackPartitioner:
        made = kind()
        vars(made).update(vars(backend.partitioner(**options)))
        return made

    return replace(backend, partitioner=partitioner)


moody = of_class(_Moody)
cycles_closed = of_class(_Greedy)

# ------------------------------------------------------------------------------------ what the compiler writes


def compiler(change: Callable[[XModel], XModel]) -> Backend:
    """A backend whose compiler changes every subgraph that it writes."""
    return faulty.rewriting(backend, lambda blob: write(change(read(blob))))


def compiling_with(patched: Patch) -> Backend:
    """A backend whose compiler runs under a patch."""
    return faulty.compiling_with(backend, patched)


def nodes(change: Callable[[XNode], XNode]) -> Callable[[XModel], XModel]:
    """A change of every node."""
    return lambda model: replace(model, nodes=tuple(map(change, model.nodes)))


def values(change: Callable[[XValue], XValue]) -> Callable[[XModel], XModel]:
    """A change of every value."""
    return lambda model: replace(model, values=tuple(map(change, model.values)))


def options(**names: str) -> Callable[[XNode], XNode]:
    """Options of a node that take the values of others."""

    def change(node: XNode) -> XNode:
        swapped = {name: node.options[other] for name, other in names.items() if name in node.options}
        return replace(node, options={**node.options, **swapped})

    return change


PRODUCTS = ("FullyConnected", "Conv2d", "DepthwiseConv2d", "ConvTranspose2d")


def _without_bias(node: XNode) -> XNode:
    return replace(node, inputs=(*node.inputs[:2], ABSENT)) if node.op in PRODUCTS else node


def _reversed_scales(value: XValue) -> XValue:
    quant = value.quant
    if not isinstance(quant, PerChannel):
        return value
    return replace(value, quant=replace(quant, scales=np.ascontiguousarray(quant.scales[::-1])))


def _transposed_groups(value: XValue) -> XValue:
    quant = value.quant
    if not isinstance(quant, PerGroup):
        return value
    scales = np.ascontiguousarray(quant.scales.T).reshape(quant.scales.shape)
    return replace(value, quant=replace(quant, scales=scales))


def _swapped_nibbles(value: XValue) -> XValue:
    if value.dtype not in ("qcint4", "qbint4") or value.data is None:
        return value
    return replace(value, data=(value.data << 4 | value.data >> 4).astype(np.uint8))


def _signed_nibbles(value: XValue) -> XValue:
    """Two's complement instead of codes with 8 added."""
    if value.dtype not in ("qcint4", "qbint4") or value.data is None:
        return value
    return replace(value, data=value.data ^ np.uint8(0x88))


def _without_limits(node: XNode) -> XNode:
    return node if node.op == "Clamp" else replace(node, limits=None)


def _upper_limit_lost(node: XNode) -> XNode:
    return node if node.limits is None else replace(node, limits=(node.limits[0], float("inf")))


def _inverse_permutation(node: XNode) -> XNode:
    if node.op != "StaticTranspose":
        return node
    return replace(node, options={"perm": tuple(np.argsort(node.options["perm"]).tolist())})


def _exchanged_inputs(node: XNode) -> XNode:
    return replace(node, inputs=node.inputs[::-1]) if node.op in ("Subtract", "Div") else node


def _corners_forgotten(node: XNode) -> XNode:
    return replace(node, flags=0) if node.op == "StaticResizeBilinear2D" else node


def _half_precision(value: XValue) -> XValue:
    if value.data is None or value.dtype != "fp32":
        return value
    return replace(value, data=value.data.astype(np.float16).astype(np.float32))


STRIDES = {"subsampling_height": "subsampling_width", "subsampling_width": "subsampling_height"}
PADS = {"pre_paddings": "post_paddings", "post_paddings": "pre_paddings"}

bias_dropped = compiler(nodes(_without_bias))
strides_exchanged = compiler(nodes(options(**STRIDES)))
scales_reversed = compiler(values(_reversed_scales))
groups_transposed = compiler(values(_transposed_groups))
nibbles_swapped = compiler(values(_swapped_nibbles))
nibbles_signed = compiler(values(_signed_nibbles))
clamp_lost = compiler(nodes(_without_limits))
upper_limit_lost = compiler(nodes(_upper_limit_lost))
permutation_inverted = compiler(nodes(_inverse_permutation))
pads_exchanged = compiler(nodes(options(**PADS)))
operands_exchanged = compiler(nodes(_exchanged_inputs))
corners_forgotten = compiler(nodes(_corners_forgotten))
weights_halved = compiler(values(_half_precision))


def _smallest(size: int | torch.SymInt) -> int:
    return size if isinstance(size, int) else int(size.node.shape_env.bound_sympy(size.node.expr).lower)


bounds_too_small = compiling_with(lambda: patch.object(context, "_bound", _smallest))
numbers = count()


class _Dated(Correct):
    """A compiler whose blobs carry a number that grows."""

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        blob = bytearray(Correct.preprocess(edge_program, compile_specs).processed_bytes)
        blob[:4] = next(numbers).to_bytes(4, "little")
        return PreprocessResult(bytes(blob))


dated = replace(backend, details=_Dated)

# ------------------------------------------------------------------------------------ the device


def device(patched: Patch = lambda: patch.dict({}), after: Any = lambda program, outputs: outputs) -> Backend:
    """A backend with a broken device."""
    return faulty.with_device(backend, patched, after)


def stage(finish: Callable[[Tensor, Affine, Bounds], Tensor]) -> Patch:
    """The end of static int8 products: scaled accumulators, the result's parameters and limits -> codes."""

    def made(multiplier: Tensor, y: Affine, activation: Bounds | None = None) -> Kernel:
        return lambda acc: finish(acc.float() * multiplier, y, limits(y, activation)).float() - y.zero_point

    return lambda: patch.object(static, "fp32_stage", made)


def _half_up(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return (torch.floor(value + 0.5) + y.zero_point).clamp(*found).char()


def _truncated(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return (torch.trunc(value) + y.zero_point).clamp(*found).char()


def _without_zero_point(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return value.round().clamp(*found).char()


def _wrapping(value: Tensor, y: Affine, found: Bounds) -> Tensor:
    return (value.round() + y.zero_point).long().bitwise_and(0xFF).to(torch.uint8).view(torch.int8)


def _half_even_sum(a: Affine, b: Affine, y: Affine, activation: Bounds | None = None) -> Any:
    low, high = limits(y, activation)

    def apply(p: Tensor, q: Tensor) -> Tensor:
        real = a.scale32 * (p.double() - a.zero_point) + b.scale32 * (q.double() - b.zero_point)
        return (torch.round(real / y.scale32) + y.zero_point).clamp(low, high).char()

    return apply


half_up = device(stage(_half_up))
truncating = device(stage(_truncated))
zero_point_forgotten = device(stage(_without_zero_point))
wrapping = device(stage(_wrapping))
exact_sums = device(lambda: patch.dict(elementwise._ON_CODES, {"Add": _half_even_sum}))


def unary(op: str, kernel: Kernel) -> Patch:
    """Another function for an operator of one input."""
    return lambda: patch.dict(elementwise.UNARY, {op: kernel})


def binary(op: str, kernel: Kernel) -> Patch:
    """Another function for an operator of two inputs."""
    return lambda: patch.dict(elementwise.BINARY, {op: kernel})


def next_up(x: Tensor) -> Tensor:
    """The next number away from zero."""
    return torch.nextafter(x, torch.copysign(torch.full_like(x, torch.inf), x))


def _rsqrt_estimate(x: Tensor) -> Tensor:
    """A processor's estimate of 12 bits without the Newton step behind it."""
    return (torch.rsqrt(x).view(torch.int32) & ~0xFFF).view(torch.float32)


def _plain_softmax(x: Tensor) -> Tensor:
    powers = torch.exp(x)
    return powers / powers.sum(-1, keepdim=True)


def _tanh_gelu(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


last_bit_off = device(binary("Add", lambda a, b: next_up(a + b)))
reciprocal_division = device(binary("Div", lambda a, b: a * (1 / b)))
twice_as_far = device(unary("Tanh", lambda x: rational.tanh(x) * (1 + 2.0**-20)))
estimated_root = device(unary("ReciprocalSquareRoot", _rsqrt_estimate))
plain_softmax = device(unary("Softmax", _plain_softmax))
tanh_gelu = device(unary("Gelu", _tanh_gelu))
rounding_ceil = device(unary("Ceiling", torch.round))
constant = device(unary("Sigmoid", lambda x: torch.full_like(x, 0.5)))


def _half_mean(site: Site) -> Step:
    """Means of float16 that are added up in float16."""
    if site.y.dtype != "fp16":
        return pooling.global_average(site)

    def apply(x: Tensor) -> Tensor:
        cells = x.flatten(1, 2)
        total = torch.zeros_like(cells[:, 0])
        for cell in cells.unbind(1):
            total = total + cell
        return (total / cells.shape[1]).view(len(x), 1, 1, -1)

    return Step(apply)


def _brief_sums(site: Site) -> Step:
    """Float16 products that are added up in bfloat16. (XNNPACK's own kernels for float16 may add up in float16.)"""
    if site.y.dtype != "fp16" or site.input(1).data is None:
        return products.fully_connected(site)
    matrix, bias = site.constant(1), site.constant(2) if site.inputs[2] is not None else None

    def apply(x: Tensor) -> Tensor:
        total = torch.zeros((*x.shape[:-1], len(matrix)), dtype=torch.bfloat16)
        for k in range(matrix.shape[1]):
            total = total + (x[..., k : k + 1] * matrix[:, k]).bfloat16()
        return total.half() if bias is None else total.half() + bias

    return Step(apply)


half_mean = device(lambda: patch.dict(RULES, {"GlobalAvgPooling2d": _half_mean}))
brief_sums = device(lambda: patch.dict(RULES, {"FullyConnected": _brief_sums}))


_rows = dynamic.quantize_rows


def _whole_tensor(reals: Tensor) -> dynamic.Rows:
    """One scale and zero point for all rows."""
    rows, shape = _rows(reals.reshape(1, -1)), (len(reals), *[1] * (reals.dim() - 1))
    points, scales = (one.flatten().expand(len(reals)).reshape(shape) for one in (rows.zero_points, rows.scales))
    return dynamic.Rows(rows.codes.view(reals.shape), points, scales)


def _symmetric(reals: Tensor) -> dynamic.Rows:
    """No zero points."""
    axes = tuple(range(1, reals.dim()))
    scales = (reals.float().abs().amax(axes, keepdim=True) / 127).clamp_min(1e-20)
    codes = (reals.float() / scales).round().clamp(-128, 127)
    return dynamic.Rows(codes.to(torch.int8), torch.zeros_like(scales), scales)


def _from_the_lowest(reals: Tensor) -> dynamic.Rows:
    """Zero points always from the lower end of the range."""
    x = reals.float()
    axes = tuple(range(1, x.dim()))
    low, high = x.amin(axes, keepdim=True).clamp_max(0), x.amax(axes, keepdim=True).clamp_min(0)
    steps = torch.where(low == high, 1.0, 255.0 / (high - low))
    points = (-128 - low * steps).clamp(-128, 127).round()
    codes = ((x * steps).round() + points).clamp(-128, 127)
    return dynamic.Rows(codes.to(torch.int8), points, 1 / steps)


per_tensor_rows = device(lambda: patch.object(dynamic, "quantize_rows", _whole_tensor))
symmetric_rows = device(lambda: patch.object(dynamic, "quantize_rows", _symmetric))
lowest_rows = device(lambda: patch.object(dynamic, "quantize_rows", _from_the_lowest))
separate_rounding = device(lambda: patch.object(dynamic, "fma", lambda a, b, c: a * b + c))


def _at_bounds(program: Program, outputs: list[Tensor]) -> list[Tensor]:
    """Outputs of the sizes that the blob was compiled for, whatever the inputs' are."""
    made = []
    for port, output in zip(program.outputs, outputs, strict=True):
        shape = [port.bounds[axis] for axis in (0, 3, 1, 2)] if port.channels_last else list(port.bounds)
        whole = output.new_zeros([] if port.is_scalar else shape)
        whole[tuple(slice(size) for size in output.shape)] = output
        made.append(whole)
    return made


sizes_of_the_bounds = device(after=_at_bounds)


_average_pool = RULES["AvgPooling2d"]


def _padded_average(site: Site) -> Step:
    """Averages over the whole window, whether inside the image or not."""
    (top, bottom), (left, right) = site.padding()
    bare = dict.fromkeys(("padding_top", "padding_right", "padding_bottom", "padding_left"), 0)
    inner = _average_pool(replace(site, node=replace(site.node, options={**site.node.options, **bare})))
    return Step(lambda x: inner.kernel(torch.nn.functional.pad(x, (0, 0, left, right, top, bottom))))


padding_counted = device(lambda: patch.dict(RULES, {"AvgPooling2d": _padded_average}))


def _overwriting(x: Tensor) -> Tensor:
    return x.abs_()


overwriting = device(unary("Abs", _overwriting))


_mean = static.mean


def _one_less(x: Affine, y: Affine) -> Kernel:
    """A mean of codes that divides by one element less."""
    right = _mean(x, y)

    def apply(codes: Tensor) -> Tensor:
        size = codes.shape[1] * codes.shape[2]
        wide = (codes.float() - x.zero_point) * size / max(size - 1, 1) + x.zero_point
        return right(wide.round().clamp(-128, 127).char())

    return apply


mean_of_one_less = device(lambda: patch.object(static, "mean", _one_less))
