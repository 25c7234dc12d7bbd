"""What the frame of all compilers does with nodes that are no operators."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from npu_assay.partitioners.common.lowering import function_calls
from npu_assay.partitioners.exir.compiling import CompileError


def test_other_nodes_are_refused_but_for_known_constants() -> None:
    graph = fx.Graph()
    x, data = graph.placeholder("x"), graph.get_attr("data")
    total = graph.call_function(torch.ops.aten.add.Tensor, (x, data))
    graph.output(total)
    assert list(function_calls(graph, {data})) == [total]
    with pytest.raises(CompileError, match="found get_attr, expected a function call"):
        list(function_calls(graph))
