"""Programs as XNNPACK's compiler lowers them, and their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from xnnpack_graphs import graph, program, real, step

from npu_assay.conformance.programs.build import materialise
from npu_assay.conformance.programs.graph import Graph, Quant
from npu_assay.partitioners.exir import to_backend
from npu_assay.partitioners.xnnpack import XnnpackBackend, XnnpackPartitioner
from npu_assay.partitioners.xnnpack.xnn_format import read
from npu_assay.partitioners.xnnpack.xnn_model import (
    XModel,
    XNode,
)

INFINITY = float("inf")
IMAGE = (1, 3, 4, 6)

ROWS = Quant((0.01, 0.02, 0.03), 0, -127, axis=0)


def compiled(model: Graph, **options: Any) -> list[XModel]:
    """The delegates of a model, in order."""
    lowered = to_backend(program(model), XnnpackPartitioner(**options), details={"XnnpackBackend": XnnpackBackend})
    modules = [getattr(lowered.graph_module, name) for name, _ in lowered.graph_module.named_children()]
    return [read(module.processed_bytes) for module in modules]


def one(model: Graph) -> XModel:
    """The delegate of a model that is one."""
    (found,) = compiled(model)
    return found


def ops(model: Graph) -> list[str]:
    return [node.op for node in one(model).nodes]


def node(found: XModel, op: str) -> XNode:
    """The only node of an operator."""
    (match,) = [each for each in found.nodes if each.op == op]
    return match


def data(found: XModel, index: int) -> np.ndarray[Any, Any]:
    """A constant."""
    array = found.values[index].data
    assert array is not None
    return array


def numbers(model: Graph, name: str) -> torch.Tensor:
    """What a case says that a value holds."""
    (found,) = [value for value in model.values if value.name == name]
    return materialise(found)


def unary(op: str, *args: Any, shape: Sequence[int] = (2, 3), **kwargs: Any) -> Graph:
    return graph([real("x", *shape)], [step("y", op, "x", *args, **kwargs)])
