"""A delegated edge program as a TFLite model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.common.lowering import constants_of, function_calls, returned_nodes, separate, static_shape
from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.exir.layout import Layout, arranged, identity
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, QUANTIZE, target_name
from npu_assay.partitioners.neutron import neutron_io
from npu_assay.partitioners.neutron.lowering.context import Context
from npu_assay.partitioners.neutron.lowering.quantization import per_tensor
from npu_assay.partitioners.neutron.lowering.values import Value
from npu_assay.partitioners.neutron.operators import EVERY, LOWERINGS
from npu_assay.partitioners.neutron.passes import COMPILED
from npu_assay.partitioners.neutron.rewriting import attached_constants, rewritten
from npu_assay.partitioners.neutron.tflite import Model


def lower(
    program: ExportedProgram, convert_formats: bool = True, description: str = "", metadata: Mapping[str, bytes] = {}
) -> Model:
    """The TFLite model of a delegated program, whose inputs and outputs are int8.

    With `convert_formats`, the model's inputs and outputs have torch's axis order; without it
    channels-first ones are channels-last, and the metadata say which (see `neutron_io`). Raises CompileError.
    """
    graph, constants = _compiled_form(program)
    ctx = Context(graph, EVERY, constants)
    inputs = [n for n in graph.nodes if n.op == "placeholder" and n not in constants]
    layouts = [identity(len(static_shape(n))) if convert_formats else ctx.layout(n) for n in inputs]
    tensors = [_input(ctx, node, layout) for node, layout in zip(inputs, layouts, strict=True)]
    for node in function_calls(graph, constants):
        ctx.walk(node, LOWERINGS)
    returned = returned_nodes(graph.output_node())
    out_layouts = [identity(len(static_shape(n))) if convert_formats else ctx.layout(n) for n in returned]
    outputs = _outputs(ctx, returned, out_layouts, tensors)
    if not convert_formats:
        metadata = {**metadata, neutron_io.KEY: neutron_io.encode(_moved(layouts), _moved(out_layouts))}
    return ctx.model.model(tensors, outputs, description, metadata)


def _compiled_form(program: ExportedProgram) -> tuple[fx.Graph, dict[fx.Node, torch.Tensor]]:
    """The program's graph after the compiler's rewrites, with the data of its constants."""
    data = constants_of(program)
    module = rewritten(program, COMPILED, data)
    data |= attached_constants(module)
    return module.graph, {node: data[node.name] for node in module.graph.nodes if node.name in data}


def _input(ctx: Context, node: fx.Node, layout: Layout) -> int:
    """The model's input tensor for a placeholder, quantized as its dequantize node says."""
    dtype = node.meta["val"].dtype
    require(dtype == torch.int8, node, "type of an input", dtype, torch.int8)
    readers = [user for user in node.users if target_name(user.target) == DEQUANTIZE_PER_TENSOR]
    require(bool(readers), node, "reader of an input", "none", "a dequantize node")
    shape, quantisation = static_shape(node), per_tensor(readers[0])
    tensor = ctx.model.tensor(node.name, arranged(shape, layout), quantisation)
    ctx.values[node] = Value(node.name, shape, quantisation, tensors={layout: tensor})
    return tensor


def _outputs(ctx: Context, nodes: list[fx.Node], layouts: list[Layout], inputs: list[int]) -> list[int]:
    """The tensors of the outputs, each of which must be a quantize node."""
    for node in nodes:
        require(target_name(node.target) in QUANTIZE, node, "output", node, "the result of a quantize node")
    model, wanted = ctx.model, iter(layouts)
    return separate(
        nodes,
        inputs,
        lambda node: ctx.tensor(ctx.values[node], next(wanted)),
        lambda tensor: model.tensors[tensor].data is not None,
        lambda tensor, node: model.reshape(tensor, model.shape(tensor), f"{node.name}_copy"),
    )


def _moved(layouts: list[Layout]) -> list[bool]:
    """Whether each layout differs from torch's axis order."""
    return [layout != identity(len(layout)) for layout in layouts]
