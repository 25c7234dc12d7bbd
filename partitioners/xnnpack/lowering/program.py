"""A delegated edge program as an XNNPACK subgraph."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.common.lowering import constants_of, function_calls, lowering_of, returned_nodes, separate
from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.exir.nodes import value as value_of
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.configs import LOWERED
from npu_assay.partitioners.xnnpack.configs.linear import CLAMPS
from npu_assay.partitioners.xnnpack.linear import PLACES
from npu_assay.partitioners.xnnpack.lowering.context import Context, bounds, dtype_of, per_tensor
from npu_assay.partitioners.xnnpack.lowering.elementwise import limits_of
from npu_assay.partitioners.xnnpack.lowering.linear import STATIC, found_product
from npu_assay.partitioners.xnnpack.lowering.normalization import norm_behind
from npu_assay.partitioners.xnnpack.lowering.operation import Operation
from npu_assay.partitioners.xnnpack.lowering.values import Value, id_of
from npu_assay.partitioners.xnnpack.patterns import (
    ANY_CHOOSE,
    is_dequantize,
    is_named,
    is_quantize,
    only_user,
    result_path,
    static_form,
)
from npu_assay.partitioners.xnnpack.xnn_model import XModel


def lower(program: ExportedProgram) -> XModel:
    """The subgraph of a delegated program. Raises CompileError for what has no equivalent."""
    constants = constants_of(program)
    walk = _Walk(Context(constants))
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.name not in constants]
    for node in inputs:
        walk.ctx.values[node] = _input(walk.ctx, node)
    for node in function_calls(program.graph):
        walk.visit(node)
    return _finished(walk.ctx, inputs, program.graph.output_node())


def _input(ctx: Context, node: fx.Node) -> Value:
    """An argument of the delegate; codes have the parameters of the dequantize nodes that read them."""
    (shape, open_axes), dtype = bounds(node), dtype_of(node)
    readers = [user for user in node.users if qparams(user) is not None and is_dequantize(user)]
    quant = None
    if dtype == "qint8":
        require(bool(readers), node, "reader of codes", "none", "a dequantize with constant parameters")
        quant = per_tensor(readers[0])
    last = _is_channels_last(node)
    arranged = tuple(shape[axis] for axis in (0, 2, 3, 1)) if last else shape
    return Value(node.name, shape, dtype, quant, {last: ctx.model.add(dtype, arranged, quant)}, open_axes=open_axes)


def _is_channels_last(node: fx.Node) -> bool:
    """Whether the node's tensor of four axes lies channels-last in memory, and not in torch's order as well."""
    found = value_of(node)
    if found is None or found.dim() != 4:
        return False
    shape, strides = (_numbers(sizes) for sizes in (found.shape, found.stride()))
    layout = torch.empty_strided(shape, strides, device="meta")
    return layout.is_contiguous(memory_format=torch.channels_last) and not layout.is_contiguous()


def _numbers(sizes: Iterable[int | torch.SymInt]) -> tuple[int, ...]:
    """Sizes or strides of the program as it was exported."""
    return tuple(size if isinstance(size, int) else int(size.node.hint) for size in sizes)


class _Walk:
    """Goes through a graph once and lowers each node; `done` are those that an earlier one took along."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.done: set[fx.Node] = set()

    def visit(self, node: fx.Node) -> None:
        """Define the node's value, writing what it needs."""
        name = target_name(node.target)
        if node in self.done or self._is_lazy(node, name):
            return
        if name == GETITEM:
            require(bool(node.args[1] == 0), node, "result of several", node.args[1], 0)
            self.ctx.values[node] = self.ctx.value(node.args[0], node)
        else:
            self._lower(node, lowering_of(LOWERED, node))

    def _is_lazy(self, node: fx.Node, name: str) -> bool:
        """Whether the node is read by the product that it belongs to, or computed when it is needed."""
        if is_dequantize(node) or is_quantize(node):
            return True
        if is_named(node, ANY_CHOOSE) or (name == GETITEM and is_named(node.args[0], ANY_CHOOSE)):
            return True
        user = only_user(node)
        if user is None or target_name(user.target) not in PLACES:
            return False
        found = found_product(user)
        return node is found.pad or (node is found.permute and self.ctx.constant(found.stored) is not None)

    def _lower(self, node: fx.Node, how: type[PartitionerConfig]) -> None:
        activation, output = self._codes_path(node, how)
        norm = norm_behind(self.ctx, node) if output is None else None
        last = node if norm is None else next(iter(norm.users))
        if output is None and how.is_clamped:
            activation = _clamp_behind(last)
        limits = None if activation is None else limits_of(activation)
        quant = None if output is None else per_tensor(output)
        assert how.lower is not None
        result = how.lower(Operation(self.ctx, node, quant, limits, norm))
        self.done.update(member for member in (norm, last, activation, output) if member is not None)
        self.ctx.values[output or activation or last] = result

    def _codes_path(self, node: fx.Node, how: type[PartitionerConfig]) -> tuple[fx.Node | None, fx.Node | None]:
        """(activation, quantize) after an operator on codes; (None, None) for one on numbers."""
        if target_name(node.target) in PLACES:
            if found_product(node).precision is not STATIC:
                return None, None
            activation, output = result_path(node, CLAMPS)
            require(qparams(output) is not None, node, "result on codes", output, "a quantize node alone after it")
            return activation, output
        form = static_form(node, how.fused) if how.has_codes() else None
        if form is None:
            return None, None
        quant = per_tensor(form.output)
        if how.moves and any(per_tensor(source) != quant for source in form.inputs):
            return None, None
        return form.activation, form.output


def _clamp_behind(node: fx.Node) -> fx.Node | None:
    """The relu or hardtanh that alone uses the result, when its limits are in order."""
    user = only_user(node)
    return user if is_named(user, CLAMPS) else None


def _finished(ctx: Context, inputs: list[fx.Node], output: fx.Node) -> XModel:
    """The subgraph with a value of its own for every output: inputs and outputs given before are copied."""
    arguments = [next(iter(ctx.values[node].ids.values())) for node in inputs]
    last = [place for node, place in zip(inputs, arguments, strict=True) if ctx.values[node].is_channels_last]
    results = returned_nodes(output)
    returned = separate(
        results,
        arguments,
        lambda node: id_of(ctx.model, ctx.value(node, output), _is_channels_last(node)),
        lambda place: ctx.model.values[place].data is not None,
        lambda place, node: ctx.model.emit("Copy", [place]),
    )
    last += [place for node, place in zip(results, returned, strict=True) if _is_channels_last(node)]
    nodes = zip((*inputs, *results), (*arguments, *returned), strict=True)
    scalars = [place for node, place in nodes if not bounds(node)[0]]
    return ctx.model.finished(arguments, returned, last, scalars)
