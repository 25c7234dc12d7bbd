"""Neutron partitioners that break a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import patch

import torch
from torch import fx

from npu_assay.faults import Fault, Found, Patch, less, renamed
from npu_assay.partitioners.common import rules as shared
from npu_assay.partitioners.exir import Backend, PartitionResult
from npu_assay.partitioners.exir.nodes import argument, operand, pair, shape
from npu_assay.partitioners.exir.qdq import input_qparams, output_qparams
from npu_assay.partitioners.exir.rules import rejection
from npu_assay.partitioners.neutron import (
    NeutronPartitioner,
    NeutronTargetSpec,
    backend,
    backend_1_4,
    generate_neutron_compile_spec,
)
from npu_assay.partitioners.neutron import partitioner as module
from npu_assay.partitioners.neutron.operators import operators
from npu_assay.partitioners.neutron.passes import DivideToMultiply
from npu_assay.partitioners.neutron.releases import FIRST, RELEASES
from npu_assay.partitioners.neutron.support import activation, common, rules, slicing, stage
from npu_assay.partitioners.neutron.support.rule import Context, Rule
from npu_assay.partitioners.neutron.target import TARGETS


def of_class(kind: type[NeutronPartitioner], release: str = FIRST) -> Backend:
    """A backend with another partitioner."""
    if release == FIRST:
        return replace(backend, partitioner=kind)
    return replace(backend_1_4, partitioner=partial(kind, generate_neutron_compile_spec("imxrt700", release=release)))


def judging(change: Callable[[Found], Found], *patches: Patch, release: str = FIRST) -> Backend:
    """A backend whose partitioner works under patches, and changes what its rules say."""

    def changed(right: Callable[..., Found]) -> Callable[..., Found]:
        return lambda *arguments: change(right(*arguments))

    names = ("node_rejections", "stage_rejections")

    class Judging(NeutronPartitioner):
        def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
            with ExitStack() as stack:
                for patched in patches:
                    stack.enter_context(patched())
                for name in names:
                    stack.enter_context(patch.object(module, name, changed(getattr(module, name))))
                return super().partition(exported_program)

    return of_class(Judging, release)


def instead(target: str, code: str, check: Callable[[fx.Node, Context], str | None]) -> Backend:
    """A partitioner with another function for one rule of one operator."""
    found = tuple(Rule(r.code, r.sentence, check) if r.code == code else r for r in rules.RULES[target])
    return judging(_as_found, lambda: patch.dict(rules.RULES, {target: found}))


def another(target: str, code: str, rule: Rule) -> Backend:
    """A partitioner with another rule in the place of one of an operator's."""
    return instead(target, code, rule.check)


def limited(place: object, name: str, value: object) -> Backend:
    """A partitioner with another number or function in a module of rules."""
    return judging(_as_found, lambda: patch.object(place, name, value))


def _as_found(found: Found) -> Found:
    return found


# ------------------------------------------------------------------------------------ every rule


def _codes(target: str, release: str = FIRST) -> Iterator[str]:
    row = operators(release)[target]
    yield from ("quantized", "static_shape")
    yield from (rule.code for rule in rules.RULES_OF[release][target])
    yield from (rule.code for rule in row.stage)
    if target in stage.DATA_ONLY or target in stage.NEUTRAL:
        yield "not_alone"
    if row.problem is not None:
        yield "rescale"


# Pairs of a code and an operator that no program breaks: torch has no such operator, or makes no such tensor.
IMPOSSIBLE = frozenset(
    {
        ("rank", "aten.addmm.default"),
        ("rank", "aten.mm.default"),
        ("rank", "aten.bmm.default"),
        ("static_shape", "aten.upsample_nearest2d.vec"),
        ("rescale", "aten.mean.dim"),  # with the same scale in and out, the sum is too large for memory first
    }
)
# Rows that a pass makes other operators of: their cases are those of the rows.
ROWS = {
    "aten.max_pool2d_with_indices.default": "aten.max_pool",
    "aten.view_copy.default": "aten.",
    "dim_order_ops._clone_dim_order.default": "aten.dim_order_ops._clone_dim_order.default",
}


def dropped(release: str = FIRST) -> Iterator[Fault]:
    """One fault for every rule of every operator that the release before does not have as it is."""
    before = {} if release == FIRST else rules.RULES_OF[RELEASES[RELEASES.index(release) - 1]]
    for target, found in rules.RULES_OF[release].items():
        for code in dict.fromkeys(_codes(target, release)) if before.get(target) != found else ():
            if (code, target) in IMPOSSIBLE:
                continue
            cases = (f"{ROWS.get(target, target)}*/{code}/outside",)
            broken = judging(less(code, target), release=release)
            yield Fault(f"{code}_of_{target}", "partitioner", "dropped", broken, cases)


def of_first_release() -> Fault:
    """A partitioner that goes on with the limits of 1.3."""
    broken = replace(backend_1_4, partitioner=NeutronPartitioner)
    return Fault(
        "of_1_3", "partitioner", "release", broken, ("aten.add.Tensor/broadcast/at_limit",), frozenset({"tag"})
    )


def misnamed() -> Iterator[Fault]:
    """One fault for every code."""
    for code in dict.fromkeys(code for target in rules.RULES for code in _codes(target)):
        cases = (f"*/{code}/outside",)
        yield Fault(f"{code}_misnamed", "partitioner", "misnamed", judging(renamed(code)), cases, frozenset({"reason"}))


# ------------------------------------------------------------------------------------ numbers


def with_macs(macs: int) -> Backend:
    """The backend of an NPU with another number of multiply-accumulate units."""
    targets = {name: replace(target, num_macs=macs) for name, target in TARGETS.items()}

    def partitioner() -> NeutronPartitioner:
        target = NeutronTargetSpec("imxrt700", targets)
        spec = generate_neutron_compile_spec("imxrt700")
        return NeutronPartitioner(spec, target)

    passes = tuple(DivideToMultiply(macs) if isinstance(one, DivideToMultiply) else one for one in backend.passes)
    return replace(backend, partitioner=partitioner, passes=passes)


def _number(read: Callable[[fx.Node], object], allowed: Callable[[Any], bool]) -> Any:
    """A rule's function: what is read of the node must be allowed."""

    def check(node: fx.Node, context: Context) -> str | None:
        found = read(node)
        return None if allowed(found) else f"found {found}"

    return check


ABS, VIEW, POOL = "aten.abs.default", "aten.view_copy.default", "aten.max_pool2d_with_indices.default"
AVERAGE, MEAN, SOFTMAX, PRELU = (
    "aten.avg_pool2d.default",
    "aten.mean.dim",
    "aten._softmax.default",
    "aten.prelu.default",
)
SLICE, PAD, CONV, MUL = (
    "aten.slice_copy.Tensor",
    "aten.constant_pad_nd.default",
    "aten.convolution.default",
    "aten.mul.Tensor",
)
NEAREST, CAT, CLAMP, BMM = "aten.upsample_nearest2d.vec", "aten.cat.default", "aten.clamp.default", "aten.bmm.default"


def _stride(node: fx.Node) -> tuple[int, int]:
    return pair(argument(node, 2, "stride")) or pair(argument(node, 1, "kernel_size")) or (1, 1)


def _batch(node: fx.Node) -> int:
    return int(shape(operand(node))[0])


def _positions(node: fx.Node) -> float:
    sizes = shape(node)
    return torch.Size(sizes).numel() / (sizes[1] if len(sizes) > 1 else 1)


def _elements(node: fx.Node) -> int:
    return torch.Size(shape(node)).numel()


multiple_of_4 = with_macs(4)
multiple_of_16 = with_macs(16)
rank_loosened = another(ABS, "max_rank", common.output_rank_at_most(9))
rank_tightened = another(ABS, "max_rank", common.output_rank_at_most(7))
view_rank_loosened = another(VIEW, "max_rank", common.output_rank_at_most(8))
view_rank_tightened = another(VIEW, "max_rank", common.output_rank_at_most(6))
pool_rank_tightened = another(AVERAGE, "rank", shared.rank_is(3))
batch_loosened = instead(POOL, "batch", _number(_batch, lambda n: n <= 2))
stride_loosened = instead(POOL, "stride_h", _number(_stride, lambda s: s[0] <= 3))
stride_tightened = instead(POOL, "stride_h", _number(_stride, lambda s: s[0] < 2))
stride_wrong_axis = instead(POOL, "stride_h", _number(_stride, lambda s: s[1] in (1, 2)))
stride_wrong_default = instead(
    POOL, "stride_h", _number(lambda node: pair(argument(node, 2, "stride")) or (1, 1), lambda s: s[0] in (1, 2))
)
dilation_of_width = instead(
    POOL, "dilation", _number(lambda node: pair(argument(node, 4, "dilation")) or (1, 1), lambda d: d[1] == 1)
)
dilation_of_height = instead(
    POOL, "dilation", _number(lambda node: pair(argument(node, 4, "dilation")) or (1, 1), lambda d: d[0] == 1)
)
channels_last_of_pool = instead(
    POOL, "channels_multiple_of", _number(lambda n: shape(operand(n))[-1] % 8, lambda n: n == 0)
)
positions_loosened = instead(PRELU, "positions", _number(_positions, lambda n: n <= 4097))
positions_tightened = instead(PRELU, "positions", _number(_positions, lambda n: n < 4096))
size_loosened = instead(SOFTMAX, "max_size", _number(_elements, lambda n: n <= 2 * 65536 * 8))
size_tightened = instead(SOFTMAX, "max_size", _number(_elements, lambda n: n < 65536 * 8))
channels_loosened = instead(SOFTMAX, "max_channels", _number(lambda n: max(shape(n)), lambda n: n <= 2048))
channels_tightened = instead(SOFTMAX, "max_channels", _number(lambda n: max(shape(n)), lambda n: n < 2040))
factor_3_taken = limited(slicing, "SCALES", (2, 3, 4))
factor_4_refused = limited(slicing, "SCALES", (2,))
scale_of_height = instead(
    NEAREST, "scale", _number(lambda n: shape(n)[2] / shape(operand(n))[2], lambda factor: factor in (2, 4))
)
bounds_tightened = instead(CLAMP, "bounds", _number(activation.bounds, lambda b: b in ((-1, 1), (0, 1), (0, None))))
bounds_loosened = instead(CLAMP, "bounds", _number(activation.bounds, lambda b: b[0] in (-1, 0)))
inputs_loosened = instead(CAT, "min_inputs", _number(lambda n: len(n.all_input_nodes), lambda n: n >= 1))
inputs_tightened = instead(CAT, "min_inputs", _number(lambda n: len(n.all_input_nodes), lambda n: n >= 3))
padding_tightened = instead(
    PAD, "non_negative_padding", _number(lambda n: min(argument(n, 1, "pad", ())), lambda n: n > 0)
)
step_loosened = instead(SLICE, "step", _number(lambda n: argument(n, 4, "step", 1), lambda n: n <= 2))
depthwise_refused = instead(CONV, "groups", _number(lambda n: argument(n, 8, "groups", 1), lambda n: n == 1))
groups_loosened = instead(CONV, "groups", _number(lambda n: n, lambda n: True))


# ------------------------------------------------------------------------------------ axes, signs, defaults


def _literal_dims(node: fx.Node) -> list[int]:
    found: Any = argument(node, 1, "dim")
    return [found] if isinstance(found, int) else sorted(found or [])


def _padded_from_the_front(node: fx.Node, context: Context) -> str | None:
    pads: Sequence[int] = argument(node, 1, "pad", ())
    padded = {index // 2 for index, amount in enumerate(pads) if amount}
    return f"padding {pads}" if padded & {0, 1} else None


def _sliced_by_sign(node: fx.Node, context: Context) -> str | None:
    dim: int = argument(node, 1, "dim", 0)
    size = shape(operand(node))[abs(dim)] if abs(dim) < len(shape(operand(node))) else 1
    return f"size {size}" if size % context.macs else None


def _rows_only(node: fx.Node, context: Context) -> str | None:
    sizes = [shape(operand(node, position)) for position in (0, 1)]
    return f"{sizes}" if any(matrix[1] % context.macs for matrix in sizes) else None


def _last_dim_multiple(node: fx.Node, context: Context) -> str | None:
    sizes = shape(node)
    return f"{sizes}" if sizes and sizes[-1] % context.macs and any(n != 1 for n in sizes) else None


def _same_scale(node: fx.Node, context: Context) -> str | None:
    before, after = input_qparams(node), output_qparams(node)
    return None if before is None or after is None or before.scale == after.scale else "scales differ"


def _same_zero_point(node: fx.Node, context: Context) -> str | None:
    before, after = input_qparams(node), output_qparams(node)
    if before is None or after is None or before.zero_point == after.zero_point:
        return None
    return "zero points differ"


def _divides_in_height(node: fx.Node, context: Context) -> str | None:
    before, after = shape(operand(node)), shape(node)
    return "sizes" if before[-2] % after[-2] else None


def _excluded_by_default(node: fx.Node, context: Context) -> str | None:
    padding = pair(argument(node, 3, "padding")) or (0, 0)
    return "padding" if not argument(node, 5, "count_include_pad", False) and padding != (0, 0) else None


dims_by_sign = instead(MEAN, "dims", _number(_literal_dims, lambda dims: dims == [-2, -1]))
dims_from_the_front = instead(MEAN, "dims", _number(_literal_dims, lambda dims: dims == [2, 3]))
dims_wrong_axis = instead(MEAN, "dims", _number(_literal_dims, lambda dims: dims in ([1, 2], [-3, -2])))
keepdim_wrong_default = instead(
    MEAN, "keepdim", _number(lambda node: argument(node, 2, "keepdim", True), lambda kept: bool(kept))
)
include_pad_wrong_default = instead(AVERAGE, "count_include_pad", _excluded_by_default)
padded_from_the_front = instead(PAD, "channel_and_batch_padding", _padded_from_the_front)
slice_wrong_sign = instead(SLICE, "sliced_dim_multiple_of", _sliced_by_sign)
rows_only = instead(BMM, "matrix_dims_multiple_of", _rows_only)
last_dim_only = instead(MUL, "any_dim_multiple_of", _last_dim_multiple)
zero_points_mixed = instead(AVERAGE, "same_qparams", _same_scale)
scales_mixed = instead(AVERAGE, "same_qparams", _same_zero_point)
height_divides = instead("aten._adaptive_avg_pool2d.default", "output_divides_input", _divides_in_height)
softmax_of_last_dim = instead(SOFTMAX, "channel_dim", _number(lambda n: argument(n, 1, "dim", -1), lambda d: d == -1))
no_ops_taken = limited(stage, "is_no_op", lambda node, context: False)
neutral_constants_taken = limited(stage, "NEUTRAL", {})


class _Nondeterministic(NeutronPartitioner):
    """Refuses all every other time it is asked."""

    turns = count()

    def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
        refuse = next(self.turns) % 2 == 1

        def refusing(node: fx.Node, context: Context) -> Found:
            mood = rejection(node, "mood", "none", "the mood must be good")
            return (mood,) if refuse else rules.node_rejections(node, context)

        with patch.object(module, "node_rejections", refusing):
            return super().partition(exported_program)


moody = of_class(_Nondeterministic)
