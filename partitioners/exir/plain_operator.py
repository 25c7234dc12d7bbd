"""One operator on plain numbers, floats or integers that nobody quantizes: what rows of floats and integers ask for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.cluster import arguments_of, operands_of
from npu_assay.partitioners.exir.constants import constant_values
from npu_assay.partitioners.exir.errors import BackendError
from npu_assay.partitioners.exir.nodes import tensors, type_text
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.qdq import is_compute, output_qparams, qparams

Constants = Mapping[str, torch.Tensor | None]
"""The data of constants by their placeholders' names."""


@dataclass(frozen=True, eq=False)
class PlainOperator:
    """An operator none of whose operands and results is quantized.

    operands: in the order of its arguments. data: of each of them, None for one that is computed. results: its
    getitems, where it has several results.
    """

    node: fx.Node
    operands: tuple[fx.Node, ...]
    data: tuple[torch.Tensor | None, ...]
    results: tuple[fx.Node, ...] = ()

    @property
    def op(self) -> str:
        """The operator's name."""
        return target_name(self.node.target)

    @property
    def members(self) -> tuple[fx.Node, ...]:
        """Every node that goes with it."""
        return (self.node, *self.results)

    def describe(self) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """The operator as plain data and a list of arrays, for `blob.pack`.

        An operand is "constant", a position in the list, or "input", one of the delegate's inputs. "results" are the
        types of all results.
        """
        inputs = list(dict.fromkeys(n for n, data in zip(self.operands, self.data, strict=True) if data is None))
        arrays = [data for data in self.data if data is not None]
        constants = iter(range(len(arrays)))
        pairs = zip(self.operands, self.data, strict=True)
        operands = [{"input": inputs.index(n)} if data is None else {"constant": next(constants)} for n, data in pairs]
        results = [type_text(tensor.dtype) for tensor in tensors(self.node)]
        return {"op": self.op, "operands": operands, "results": results, "arguments": arguments_of(self.node)}, arrays


def find_plain(node: fx.Node, constants: Constants) -> PlainOperator | None:
    """The operator of a node; None where an operand or a result is quantized."""
    operands = operands_of(node)
    results = tuple(user for user in node.users if target_name(user.target) == GETITEM)
    quantized = any(output_qparams(user) is not None for each in (node, *results) for user in each.users)
    if quantized or any(qparams(each) is not None for each in operands):
        return None
    return PlainOperator(node, tuple(operands), tuple(constants.get(each.name) for each in operands), results)


def other_types(found: PlainOperator, dtypes: Collection[torch.dtype]) -> str | None:
    """Other types of operands and of the first result than these, in words; None if there are no others.

    A second result may be indices.
    """
    own = dict.fromkeys(each.dtype for node in (*found.operands, found.node) for each in tensors(node)[:1])
    return ", ".join(type_text(dtype) for dtype in own if dtype not in dtypes) or None


def only_plain(program: ExportedProgram) -> PlainOperator:
    """The one operator of a delegated subgraph. Raises BackendError for any other subgraph."""
    nodes = [n for n in program.graph.nodes if is_compute(n) and target_name(n.target) != GETITEM]
    found = find_plain(nodes[0], constant_values(program)) if len(nodes) == 1 else None
    if found is None:
        names = ", ".join(n.name for n in nodes) or "nothing that computes"
        raise BackendError("a delegated subgraph", names, "one plain operator", "preprocess")
    return found
