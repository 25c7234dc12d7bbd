"""One constant for each reader, because each reader quantizes it in its own way."""

from __future__ import annotations

from itertools import count

import torch
from torch import nn
from torch.fx import GraphModule, Node

from npu_assay.partitioners.exir.constants_clamped import stored_tensor
from npu_assay.partitioners.exir.in_place_warning import changed_operands, memory_owner


def own_constants(model: GraphModule) -> None:
    """Give every reader of a float constant that nothing writes to a constant of its own, which shares the numbers.

    A bias of two linear operators whose inputs have different scales has different codes in each. torchao stores only
    the codes of the first.
    """
    taken = set[object]()
    written = {memory_owner(one).target for node in model.graph.nodes for one in changed_operands(node)}
    for node in list(model.graph.nodes):
        tensor = stored_tensor(node)
        if tensor is None or node.target in written:
            continue
        first, *others = list(node.users) or [None]
        if first is not None and node.target in taken:
            others = [first, *others]
        taken.add(node.target)
        for user in others:
            user.replace_input_with(node, _copy(model, node, tensor))
    model.graph.eliminate_dead_code()
    model.recompile()


def _copy(model: GraphModule, node: Node, tensor: torch.Tensor) -> Node:
    """The same numbers under another name, read in the same place."""
    name = next(name for index in count() if not hasattr(model, name := f"_own_constant{index}"))
    if isinstance(tensor, nn.Parameter):
        model.register_parameter(name, tensor)
    else:
        model.register_buffer(name, tensor)
    with model.graph.inserting_after(node):
        made = model.graph.get_attr(name)
    made.meta = dict(node.meta)
    return made
