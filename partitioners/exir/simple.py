"""The plainest backend of integers: each delegate is one operator between dequantize and quantize nodes.

Begin a backend with it. A `Cluster` is such an operator with its nodes; `ClusterPartitioner` tags those that the
backend's rules allow, and says why not the others; `only_cluster` reads one back in `preprocess`. A backend
outgrows it when several operators are to go into one delegate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, Partitioner, PartitionResult
from npu_assay.partitioners.exir.constants import constant_values, tag_constant_data
from npu_assay.partitioners.exir.errors import BackendError
from npu_assay.partitioners.exir.nodes import shape, size_text
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, GETITEM, QUANTIZE_PER_TENSOR, target_name
from npu_assay.partitioners.exir.qdq import QParams, is_compute, qparams
from npu_assay.partitioners.exir.rules import Rule, rule

PERMUTE = "aten.permute_copy.default"
CODES = (torch.int8, torch.int16, torch.int32)
"""The types that quantised numbers may have; a bias has the widest."""


@dataclass(frozen=True, eq=False)
class Operand:
    """One tensor that a cluster's operator takes, as int8 codes.

    members: the dequantize node, and a transposition of constant codes behind it. source: the node that has the
    codes. codes: those of a constant, transposed; None for what is computed or has no data.
    """

    members: tuple[fx.Node, ...]
    source: fx.Node
    qparams: QParams
    codes: torch.Tensor | None


@dataclass(frozen=True, eq=False)
class Cluster:
    """An operator, the dequantize nodes of its operands and the quantize node of its (first) result.

    operands: in the order of the operator's arguments. behind: the quantize node, and in front of it the getitem of
    an operator with several results.
    """

    node: fx.Node
    operands: tuple[Operand, ...]
    behind: tuple[fx.Node, ...]
    output: QParams

    @property
    def op(self) -> str:
        """The operator's name."""
        return target_name(self.node.target)

    @property
    def members(self) -> tuple[fx.Node, ...]:
        """Every node of it."""
        return (*(n for operand in self.operands for n in operand.members), self.node, *self.behind)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that are no tensors, by name, defaults included.

        Raises BackendError for an operator without a schema.
        """
        schema = getattr(self.node.target, "_schema", None)
        if schema is None:
            raise BackendError("arguments by name", found="no schema", expected="an ATen operator", where=self.op)
        given = dict(zip((a.name for a in schema.arguments), self.node.args, strict=False)) | self.node.kwargs
        found = {a.name: given.get(a.name, a.default_value) for a in schema.arguments}
        return {name: _plain(value) for name, value in found.items() if not any(_nodes(value))}

    def describe(self) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """What a compiler needs of it, as plain data and a list of arrays, for `blob.pack`.

        An operand is "constant", a position in the list, or "input", one of the delegate's inputs; "scale" is
        that of the compiled model, a float32.
        """
        inputs = list(dict.fromkeys(o.source for o in self.operands if o.codes is None))
        arrays = [operand.codes for operand in self.operands if operand.codes is not None]
        constants = iter(range(len(arrays)))
        operands = [
            {"scale": o.qparams.scale32, "zero_point": o.qparams.zero_point}
            | ({"input": inputs.index(o.source)} if o.codes is None else {"constant": next(constants)})
            for o in self.operands
        ]
        y, dtype = self.output, str(self.output.dtype).removeprefix("torch.")
        output = {"scale": y.scale32, "zero_point": y.zero_point, "qmin": y.qmin, "qmax": y.qmax, "dtype": dtype}
        return {"op": self.op, "operands": operands, "output": output, "arguments": self.arguments}, arrays


def find_cluster(
    node: fx.Node, constants: Mapping[str, torch.Tensor | None], dtypes: Collection[torch.dtype] = CODES
) -> Cluster | None:
    """The cluster around an operator; None when something around it is not quantised per tensor to one of `dtypes`.

    constants: data by the name of the placeholder. A dequantize or quantize node that others use as well makes none.
    """
    operands = [_operand(source, node, constants, dtypes) for source in _nodes([*node.args, *node.kwargs.values()])]
    behind = _behind(node)
    output = qparams(behind[-1]) if behind else None
    known = [operand for operand in operands if operand is not None]
    if not known or len(known) < len(operands) or output is None or not _holds(output, dtypes):
        return None
    return Cluster(node, tuple(known), behind, output)


def only_cluster(program: ExportedProgram) -> Cluster:
    """The one cluster of a delegated subgraph. Raises BackendError for any other subgraph."""
    constants = constant_values(program)
    nodes = [n for n in program.graph.nodes if is_compute(n) and target_name(n.target) != GETITEM]
    centres = [n for n in nodes if not _is_turned(n, constants)]
    found = find_cluster(centres[0], constants) if len(centres) == 1 else None
    if found is None:
        names = ", ".join(n.name for n in centres) or "nothing that computes"
        expected = "one operator between dequantize and quantize nodes, per tensor"
        raise BackendError("a delegated subgraph", found=names, expected=expected, where="preprocess")
    return found


class ClusterPartitioner(Partitioner):
    """Tags every cluster whose operator has rules, all of which hold; each is a delegate of its own.

    A backend's partitioner sets `backend_id`, the name of its compiler, and `rules`: by operator, functions
    made with `npu_assay.partitioners.exir.rules.rule`. The rules `quantized` and `static_shape` hold for every
    operator. `dtypes` are the types of codes that it takes.
    """

    backend_id: ClassVar[str]
    dtypes: ClassVar[Collection[torch.dtype]] = (torch.int8,)
    rules: ClassVar[Mapping[str, Sequence[Rule[Any]]]] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__()
        self.rejections: list[Rejection] = []

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the clusters; constants get the tag of their users. Afterwards `rejections` says why not the others."""
        self.rejections = []
        constants = constant_values(exported_program)
        tags: dict[str, DelegationSpec] = {}
        for node in filter(self._is_known, exported_program.graph.nodes):
            cluster = find_cluster(node, constants, self.dtypes)
            rules = (_quantized, _static_shape, *self.rules[target_name(node.target)])
            found = [reason for one in rules if (reason := one(node, cluster)) is not None]
            self.rejections += found
            if cluster is not None and not found:
                tag = f"{self.backend_id}_{len(tags)}"
                tags[tag] = DelegationSpec(self.backend_id, [])
                for member in cluster.members:
                    member.meta[DELEGATION_TAG] = tag
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)

    def _is_known(self, node: fx.Node) -> bool:
        return node.op == "call_function" and target_name(node.target) in self.rules


@rule("same_qparams")
def same_qparams(node: fx.Node, cluster: Cluster | None) -> str | None:
    """every operand and the result must have the same scale and zero point"""
    if cluster is None:
        return None
    y = cluster.output
    others = (o.qparams for o in cluster.operands if not o.qparams.same_values(y))
    return next((f"({x.scale}, {x.zero_point}) and ({y.scale}, {y.zero_point})" for x in others), None)


def lookup_table(function: Callable[[torch.Tensor], torch.Tensor], x: QParams, y: QParams) -> torch.Tensor:
    """`function` of all 256 codes of `x`, from -128 up, in steps of `y`: int32, rounded half to even.

    The zero point of `y` is not added, and nothing saturates but int32.
    """
    reals = (torch.arange(-128, 128, dtype=torch.float64) - x.zero_point) * x.scale32
    return torch.round(function(reals) / y.scale32).clamp(-(2.0**31), 2.0**31 - 1).to(torch.int32)


@rule("quantized")
def _quantized(node: fx.Node, cluster: Cluster | None) -> str | None:
    """the operator must stand between dequantize and quantize nodes (static int8, per tensor)"""
    return "no such nodes, or others use them as well" if cluster is None else None


@rule("static_shape")
def _static_shape(node: fx.Node, cluster: Cluster | None) -> str | None:
    """every dimension must be a known number, at least 1"""
    for each in (node, *node.all_input_nodes):
        if not all(isinstance(size, int) and size > 0 for size in shape(each)):
            return f"{each.name}: {size_text(shape(each))}"
    return None


def _operand(
    node: fx.Node, user: fx.Node, constants: Mapping[str, torch.Tensor | None], dtypes: Collection[torch.dtype]
) -> Operand | None:
    """What a tensor argument's codes are; None when they are none that `user` alone reads."""
    if set(node.users) != {user}:
        return None
    source = node.args[0] if node.args else None
    found = qparams(node)
    if found is not None and target_name(node.target) == DEQUANTIZE_PER_TENSOR and isinstance(source, fx.Node):
        return Operand((node,), source, found, constants.get(source.name)) if _holds(found, dtypes) else None
    if not _is_turned(node, constants) or not isinstance(source, fx.Node):
        return None
    inner = _operand(source, node, constants, dtypes)
    if inner is None or inner.codes is None:
        return None
    codes = inner.codes.permute(*node.args[1:2]).contiguous()  # type: ignore[arg-type]  # the operator's own dims
    return Operand((*inner.members, node), inner.source, inner.qparams, codes)


def _behind(node: fx.Node) -> tuple[fx.Node, ...]:
    """The quantize node that alone takes the result, behind the selection of result 0; () when there is none."""
    (user, *others) = node.users or (None,)
    if others or user is None:
        return ()
    if target_name(user.target) == QUANTIZE_PER_TENSOR:
        return (user,)
    found = _behind(user) if target_name(user.target) == GETITEM and user.args[1] == 0 else ()
    return (user, *found) if found else ()


def _holds(found: QParams, dtypes: Collection[torch.dtype]) -> bool:
    """Whether codes of one of these types can have the parameters."""
    if found.dtype not in dtypes or not (math.isfinite(found.scale32) and found.scale32 > 0):
        return False
    limits = torch.iinfo(found.dtype)
    return limits.min <= found.zero_point <= limits.max


def _is_turned(node: fx.Node, constants: Mapping[str, torch.Tensor | None]) -> bool:
    """Whether it transposes, without a quantize behind it, what `constants` has."""
    source = node.all_input_nodes[0].all_input_nodes if node.all_input_nodes else ()
    known = any(n.op == "placeholder" and constants.get(n.name) is not None for n in source)
    behind = any(target_name(user.target) == QUANTIZE_PER_TENSOR for user in node.users)
    return target_name(node.target) == PERMUTE and known and not behind


def _nodes(argument: Any) -> Iterator[fx.Node]:
    """The nodes in an argument, lists included, in order."""
    if isinstance(argument, fx.Node):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for item in argument:
            yield from _nodes(item)


def _plain(value: Any) -> Any:
    """An argument as JSON has it: lists instead of tuples, names of what JSON does not know."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
