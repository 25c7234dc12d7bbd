"""A delegated edge program as a TOSA graph."""

from __future__ import annotations

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.common.lowering import (
    constants_of,
    function_calls,
    lowering_of,
    result_of,
    returned_nodes,
    separate,
    static_shape,
)
from npu_assay.partitioners.common.rules import bounds
from npu_assay.partitioners.ethosu.lowering.context import Context
from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.values import DTYPES, FLOAT, Value
from npu_assay.partitioners.ethosu.operators import LOWERINGS, row_of
from npu_assay.partitioners.ethosu.tosa_model import TModel
from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.exir.layout import identity
from npu_assay.partitioners.exir.nodes import value as value_of
from npu_assay.partitioners.exir.qdq import output_qparams


def lower(program: ExportedProgram, *, is_u55: bool) -> TModel:
    """The graph of a delegated program, whose inputs and outputs are integers. Raises CompileError."""
    constants = constants_of(program)
    ctx = Context(constants, is_u55=is_u55)
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.name not in constants]
    for node in inputs:
        ctx.values[node] = _input(ctx, node)
    for node in function_calls(program.graph):
        if node not in ctx.values:
            _visit(ctx, node)
    names = [ctx.values[node].tensor(ctx.model) for node in inputs]
    return ctx.model.model(names, _outputs(ctx, program.graph.output_node(), names))


def _input(ctx: Context, node: fx.Node) -> Value:
    """An argument of the delegate: codes or plain integers."""
    shape, dtype = static_shape(node), result_of(node).dtype
    fits = dtype in DTYPES and dtype != torch.int64
    require(fits, node, "type of an input", dtype, "bool, int8, int16 or int32")
    tensor = ctx.model.tensor(node.name, shape, DTYPES[dtype])
    return Value(node.name, shape, DTYPES[dtype], None, tensors={identity(len(shape)): tensor})


def _visit(ctx: Context, node: fx.Node) -> None:
    """Define the value of one node, writing what it needs."""
    lower, activation = lowering_of(LOWERINGS, node), _fused_activation(node)
    last = node if activation is None else activation
    limits = None if activation is None else bounds(activation)
    ctx.values[node] = ctx.values[last] = lower(Operation(ctx, node, output_qparams(last), limits))


def _fused_activation(node: fx.Node) -> fx.Node | None:
    """The relu or hardtanh that alone uses the result of a product."""
    user = next(iter(node.users)) if len(node.users) == 1 and row_of(node).is_weighted else None
    return user if user is not None and row_of(user).is_activation else None


def _outputs(ctx: Context, output: fx.Node, inputs: list[str]) -> list[str]:
    """The tensors of the outputs: codes or integers."""

    def tensor_of(node: fx.Node) -> str:
        value, kind = ctx.value(node, output), value_of(node)
        require(value.quant is None and value.dtype != FLOAT, output, "output", node, "codes or integers")
        require(kind is None or kind.dtype != torch.int64, output, "type of an output", "int64", "int32")
        return value.tensor(ctx.model, identity(value.rank))

    return separate(
        returned_nodes(output),
        inputs,
        tensor_of,
        lambda tensor: ctx.model.tensors[tensor].data is not None,
        lambda tensor, node: ctx.model.copied(tensor, f"{ctx.values[node].name}_copy"),
    )
