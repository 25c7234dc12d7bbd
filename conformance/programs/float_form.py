"""A case's model in real numbers, as its author would write it: what a vendor's quantizer gets to see.

Quantize and dequantize nodes are left out, quantized constants are parameters of the real numbers they stand for, and
operators that `to_edge` or a decomposition makes are those of torch.nn again (`written_form`).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, fx, nn

from npu_assay.conformance.programs.build import module
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.programs.module_form import as_written

DEQUANTIZE = "quantized_decomposed.dequantize"


def plain_module(graph: Graph) -> nn.Module:
    """The model without quantization. Integers that no quantization made stay as they are."""
    root = module(graph)
    assert isinstance(root, fx.GraphModule)
    for node in list(root.graph.nodes):
        if _is_dequantize(node):
            node.replace_all_uses_with(_real(root, node))
    root.graph.eliminate_dead_code()
    root.delete_all_unused_submodules()
    as_written(root)
    for name, value in list(root.named_buffers()):
        delattr(root, name)
        if any(node.op == "get_attr" and node.target == name for node in root.graph.nodes):
            _add_constant(root, name, value)
    root.recompile()
    return root.eval()


def _add_constant(root: nn.Module, name: str, value: Tensor) -> None:
    """Real numbers are parameters, as weights in torch.nn: quantizers fold batch norms into those alone."""
    if value.is_floating_point():
        root.register_parameter(name, nn.Parameter(value, requires_grad=False))
    else:
        root.register_buffer(name, value)


def _is_dequantize(node: fx.Node) -> bool:
    """Whether it makes real numbers of codes that the user does not give."""
    return node.op == "call_function" and str(node.target).startswith(DEQUANTIZE) and not _is_input(node)


def _is_input(node: fx.Node) -> bool:
    """Whether the user gives the codes: then the operator is the model's own."""
    codes = node.args[0]
    return isinstance(codes, fx.Node) and codes.op == "placeholder"


def _real(root: fx.GraphModule, node: fx.Node) -> fx.Node:
    """What a dequantize node gives, without codes: what was quantized, or a constant of its numbers."""
    codes = node.args[0]
    assert isinstance(codes, fx.Node)
    if codes.op != "get_attr":
        source = codes.args[0]
        assert isinstance(source, fx.Node)
        return source
    name = f"{codes.target}_real"
    while hasattr(root, name):
        name = f"{name}_again"
    assert callable(node.target)
    root.register_buffer(name, node.target(*(_number(root, each) for each in node.args)))
    with root.graph.inserting_before(node):
        return root.graph.get_attr(name)


def _number(root: fx.GraphModule, argument: Any) -> Any:
    return getattr(root, str(argument.target)) if isinstance(argument, fx.Node) else argument
