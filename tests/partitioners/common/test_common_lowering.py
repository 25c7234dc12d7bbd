"""What the compilers share: outputs are nodes, each with a tensor of its own."""

from __future__ import annotations

import pytest
from torch import fx

from npu_assay.partitioners.common.lowering import returned_nodes, separate
from npu_assay.partitioners.exir.compiling import CompileError

TENSORS = {"x": 0, "constant": 1, "total": 2}


def nodes(*names: str) -> list[fx.Node]:
    graph = fx.Graph()
    return [graph.placeholder(name) for name in names]


def test_inputs_constants_and_what_was_given_before_are_copied() -> None:
    """Copies of the four outputs are numbered from 10, in the order in which they are asked for."""
    asked: list[tuple[int, str]] = []

    def copied(tensor: int, node: fx.Node) -> int:
        asked.append((tensor, node.name))
        return 9 + len(asked)

    outputs = nodes("total", "constant", "x", "again")
    tensor_of = {**TENSORS, "again": 2}
    found = separate(outputs, [0], lambda node: tensor_of[node.name], lambda tensor: tensor == 1, copied)
    assert found == [2, 10, 11, 12]
    assert asked == [(1, "constant"), (0, "x"), (2, "again")]


@pytest.mark.parametrize("others", [(), (3,), (None,)])
def test_outputs_are_nodes(others: tuple[int | None, ...]) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    assert returned_nodes(graph.output((x, x))) == [x, x]
    with pytest.raises(CompileError, match=r"outputs: found .*, expected one or more nodes"):
        returned_nodes(graph.output((x, *others) if others else ()))
