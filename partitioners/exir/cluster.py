"""The cluster: one operator on integers, with its dequantize and quantize nodes and an activation.

It holds the operator, the dequantize nodes of its operands (a constant bias has codes of 32 bits), an activation that
only clamps the result, and the quantize node after it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.constants import constant_values
from npu_assay.partitioners.exir.errors import BackendError
from npu_assay.partitioners.exir.nodes import argument
from npu_assay.partitioners.exir.ops import (
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE_PER_TENSOR,
    target_name,
)
from npu_assay.partitioners.exir.qdq import QParams, is_compute, qparams

PERMUTE = "aten.permute_copy.default"
TO_COPY = "dim_order_ops._to_dim_order_copy.default"
RELU, HARDTANH, CLAMP = "aten.relu.default", "aten.hardtanh.default", "aten.clamp.default"
CODES = (torch.int8, torch.int16, torch.int32)
"""The types that quantized numbers may have; a bias has the widest."""
ACTIVATIONS = frozenset({RELU, HARDTANH, CLAMP})
"""Activations that only clamp a result, so that on codes they are two limits."""
BOUNDS = (("min_val", -1.0), ("max_val", 1.0))
"""The arguments of hardtanh, and what they are when left out."""
WEIGHTED = frozenset(
    {
        *("aten.convolution.default", "aten.conv1d.default", "aten.conv2d.default"),
        *("aten.linear.default", "aten.addmm.default", "aten.mm.default"),
    }
)
"""Operators whose result quantizers leave unquantized before an activation."""


@dataclass(frozen=True)
class Takes:
    """What a cluster may hold.

    dtypes: the types of codes, other than of a bias, which may have int32 as well. activations: those that may stand
    between one of WEIGHTED and its quantize node. per_channel: whether constants may be quantized per channel. numbers:
    whether an operand may be a number, a constant of one element that nobody quantizes.
    """

    dtypes: Collection[torch.dtype] = CODES
    activations: Collection[str] = ACTIVATIONS
    per_channel: bool = True
    numbers: bool = True


ALL = Takes()


@dataclass(frozen=True, eq=False)
class Operand:
    """One tensor that a cluster's operator takes, as codes.

    members: the dequantize node, and a transposition of constant codes after it; of a number, a copy to floats.
    source: the node that has the codes. codes: those of a constant, transposed; None if they are computed or without
    data. scales: one for each index of `axis` of a constant that is quantized per channel (with zero points of 0), of
    which `qparams` has the largest; () for one that is not.
    """

    members: tuple[fx.Node, ...]
    source: fx.Node
    qparams: QParams
    codes: torch.Tensor | None
    scales: tuple[float, ...] = ()
    axis: int = 0


@dataclass(frozen=True, eq=False)
class Cluster:
    """An operator, the dequantize nodes of its operands and the quantize node of its (first) result.

    operands: in the order of the operator's arguments. behind: the quantize node, and before it the getitem of
    an operator with several results, or an activation. output: the quantization of the result; its `qmin` and `qmax`
    are the codes to which the activation clamps it.
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
        """Every node of the cluster."""
        return (*(n for operand in self.operands for n in operand.members), self.node, *self.behind)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that are not tensors, by name, with defaults.

        Raises BackendError for an operator without a schema.
        """
        return arguments_of(self.node)

    def describe(self) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """The cluster as plain data and a list of arrays, for `blob.pack`.

        An operand is "constant", a position in the list, or "input", one of the delegate's inputs. "scale" is that of
        the compiled model, a float32; of a constant that is quantized per channel a list, for the indices of "axis".
        """
        inputs = list(dict.fromkeys(o.source for o in self.operands if o.codes is None))
        arrays = [operand.codes for operand in self.operands if operand.codes is not None]
        constants = iter(range(len(arrays)))
        operands = [
            _scale(o) | ({"input": inputs.index(o.source)} if o.codes is None else {"constant": next(constants)})
            for o in self.operands
        ]
        y, dtype = self.output, str(self.output.dtype).removeprefix("torch.")
        output = {"scale": y.scale32, "zero_point": y.zero_point, "qmin": y.qmin, "qmax": y.qmax, "dtype": dtype}
        return {"op": self.op, "operands": operands, "output": output, "arguments": self.arguments}, arrays


def find_cluster(node: fx.Node, constants: Mapping[str, torch.Tensor | None], takes: Takes = ALL) -> Cluster | None:
    """The cluster around an operator; None when there is an `obstacle`. constants: data by the placeholder's name."""
    if obstacle(node, constants, takes) is not None:
        return None
    operands = (_operand(source, node, constants, takes) for source in operands_of(node))
    behind = _behind(node, takes)
    output = qparams(behind[-1])
    assert output is not None  # or there was an obstacle
    return Cluster(node, tuple(o for o in operands if o is not None), behind, _cut_off(output, behind[0]))


def obstacle(node: fx.Node, constants: Mapping[str, torch.Tensor | None], takes: Takes = ALL) -> str | None:
    """Why an operator and its neighbors are not a cluster, in words; None if they are.

    A dequantize or quantize node that has other users, too, is not part of a cluster.
    """
    sources = operands_of(node)
    for source in sources:
        if _operand(source, node, constants, takes) is None:
            return f"{source.name}: {_operand_text(source, node, constants, takes)}"
    if not sources:
        return "no tensor operand"
    behind = _behind(node, takes)
    output = qparams(behind[-1]) if behind else None
    if output is None:
        users = ", ".join(user.name for user in node.users) or "nothing"
        return f"{node.name}: no quantize node that takes it alone, but {users}"
    return None if _holds(output, takes.dtypes) else f"{behind[-1].name}: {_codes_text(output)}"


def only_cluster(program: ExportedProgram) -> Cluster:
    """The one cluster of a delegated subgraph. Raises BackendError for any other subgraph."""
    constants = constant_values(program)
    nodes = [n for n in program.graph.nodes if is_compute(n) and target_name(n.target) != GETITEM]
    centres = [n for n in nodes if not _is_turned(n, constants) and not _is_number(n, constants)]
    found = find_cluster(centres[0], constants) if centres else None
    if found is None or not set(centres) <= set(found.members):
        names = ", ".join(n.name for n in centres) or "nothing that computes"
        expected = "one operator between dequantize and quantize nodes"
        raise BackendError("a delegated subgraph", names, expected, "preprocess")
    return found


# ------------------------------------------------------------------------------------ operands


def operands_of(node: fx.Node) -> list[fx.Node]:
    """The tensors that an operator takes, in the order of its arguments."""
    return list(_nodes([*node.args, *node.kwargs.values()]))


def _operand(
    node: fx.Node, user: fx.Node, constants: Mapping[str, torch.Tensor | None], takes: Takes
) -> Operand | None:
    """A tensor argument as codes; None unless it has codes that only `user` reads."""
    if set(node.users) != {user}:
        return None
    if _number_source(node) is not None:
        return _number(node, constants) if takes.numbers else None
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node):
        return None
    if target_name(node.target) == DEQUANTIZE_PER_TENSOR:
        found, codes = qparams(node), constants.get(source.name)
        taken = found is not None and _holds(found, _dtypes(node, user, codes, takes))
        return Operand((node,), source, found, codes) if taken and found is not None else None
    if target_name(node.target) == DEQUANTIZE_PER_CHANNEL:
        return _per_channel(node, user, source, constants, takes) if takes.per_channel else None
    return _turned(node, source, constants, takes)


def _number_source(node: fx.Node) -> fx.Node | None:
    """The placeholder of a plain operand: itself, or what a copy to floats takes."""
    if target_name(node.target) == TO_COPY and len(node.all_input_nodes) == 1:
        (node,) = node.all_input_nodes
    return node if node.op == "placeholder" else None


def _number(node: fx.Node, constants: Mapping[str, torch.Tensor | None]) -> Operand | None:
    """A real number as a code: its sign is the code, its size the scale; None unless it is one finite number."""
    source = _number_source(node)
    found = constants.get(source.name) if source is not None else None
    if source is None or found is None or found.numel() != 1 or not bool(found.isfinite().all()):
        return None
    steps = QParams(abs(float(found)) or 1.0, 0, -1, 1, torch.int8)
    return Operand((node,) if node is not source else (), source, steps, found.sign().to(torch.int8))


def _is_number(node: fx.Node, constants: Mapping[str, torch.Tensor | None]) -> bool:
    """Whether it copies a constant number to floats."""
    source = _number_source(node)
    return source is not None and constants.get(source.name) is not None


def _dtypes(node: fx.Node, user: fx.Node, codes: torch.Tensor | None, takes: Takes) -> Collection[torch.dtype]:
    """The types that an operand's codes may have."""
    return (*takes.dtypes, torch.int32) if codes is not None and _is_bias(node, user) else takes.dtypes


def _is_bias(node: fx.Node, user: fx.Node) -> bool:
    """Whether a node is the bias of its user."""
    given = _by_name(user) or {}
    return given.get("self" if target_name(user.target) == "aten.addmm.default" else "bias") is node


def _per_channel(
    node: fx.Node, user: fx.Node, source: fx.Node, constants: Mapping[str, torch.Tensor | None], takes: Takes
) -> Operand | None:
    """A constant that is quantized per channel, with zero points of 0; None for any other."""
    _, *rest = node.args
    scales, zero_points = (constants.get(n.name) if isinstance(n, fx.Node) else None for n in rest[:2])
    codes, (axis, low, high, dtype) = constants.get(source.name), rest[2:6]
    if codes is None or scales is None or zero_points is None or bool(zero_points.any()):
        return None
    listed = tuple(scales.to(torch.float32).tolist())
    largest = QParams(max(listed), 0, int(low), int(high), dtype)  # type: ignore[arg-type]  # the operator's own
    positive = all(math.isfinite(scale) and scale > 0 for scale in listed)
    if not positive or not _holds(largest, _dtypes(node, user, codes, takes)):
        return None
    return Operand((node,), source, largest, codes, listed, int(axis))  # type: ignore[arg-type]  # the operator's own


def _turned(
    node: fx.Node, source: fx.Node, constants: Mapping[str, torch.Tensor | None], takes: Takes
) -> Operand | None:
    """Per-tensor constant codes that are transposed after their dequantize node."""
    if not _is_turned(node, constants):
        return None
    inner = _operand(source, node, constants, takes)
    if inner is None or inner.codes is None or inner.scales:
        return None
    codes = inner.codes.permute(*node.args[1:2]).contiguous()  # type: ignore[arg-type]  # the operator's own dims
    return Operand((*inner.members, node), inner.source, inner.qparams, codes)


def _is_turned(node: fx.Node, constants: Mapping[str, torch.Tensor | None]) -> bool:
    """Whether the node transposes a constant and no quantize node follows."""
    source = node.all_input_nodes[0].all_input_nodes if node.all_input_nodes else ()
    known = any(n.op == "placeholder" and constants.get(n.name) is not None for n in source)
    behind = any(target_name(user.target) == QUANTIZE_PER_TENSOR for user in node.users)
    return target_name(node.target) == PERMUTE and known and not behind


def _operand_text(node: fx.Node, user: fx.Node, constants: Mapping[str, torch.Tensor | None], takes: Takes) -> str:
    """Why a tensor argument has no codes that only its user reads."""
    if set(node.users) != {user}:
        return "others use it as well"
    if target_name(node.target) == DEQUANTIZE_PER_CHANNEL:
        return "scales per channel" if not takes.per_channel else "no constant, or with zero points other than 0"
    found = qparams(node)
    return "no dequantize node" if found is None else _codes_text(found)


def _codes_text(found: QParams) -> str:
    dtype = str(found.dtype).removeprefix("torch.")
    return f"codes of {dtype} with scale {found.scale} and zero point {found.zero_point}"


def _scale(operand: Operand) -> dict[str, Any]:
    found = operand.qparams
    if operand.scales:
        return {"scale": list(operand.scales), "axis": operand.axis, "zero_point": 0}
    return {"scale": found.scale32, "zero_point": found.zero_point}


# ------------------------------------------------------------------------------------ the result


def _behind(node: fx.Node, takes: Takes) -> tuple[fx.Node, ...]:
    """The nodes up to the quantize node that is the only reader: perhaps a getitem or an activation before it.

    () if there is no such quantize node.
    """
    (user, *others) = node.users or (None,)
    if others or user is None:
        return ()
    if target_name(user.target) == QUANTIZE_PER_TENSOR:
        return (user,)
    first = target_name(user.target) == GETITEM and user.args[1] == 0
    found = _behind(user, takes) if first or _is_fused(node, user, takes) else ()
    return (user, *found) if found else ()


def _is_fused(node: fx.Node, user: fx.Node, takes: Takes) -> bool:
    """Whether an activation with known bounds follows an operator with weights."""
    allowed = target_name(user.target) in takes.activations and target_name(user.target) in ACTIVATIONS
    return allowed and target_name(node.target) in WEIGHTED and activation_bounds(user) is not None


def activation_bounds(node: fx.Node) -> tuple[float, float] | None:
    """The bounds of an activation of ACTIVATIONS; None for any other node, and for bounds that are tensors."""
    name = target_name(node.target)
    if name not in ACTIVATIONS:
        return None
    low, high = limits_of(node)
    return (float(low), float(high)) if isinstance(low, (int, float)) and isinstance(high, (int, float)) else None


def limits_of(node: fx.Node) -> tuple[Any, Any]:
    """The limits of a relu, hardtanh or clamp as they are given; infinite where there is none."""
    name = target_name(node.target)
    if name == RELU:
        return 0.0, math.inf
    (lower, least), (upper, most) = BOUNDS if name == HARDTANH else (("min", None), ("max", None))
    low, high = argument(node, 1, lower, least), argument(node, 2, upper, most)
    return -math.inf if low is None else low, math.inf if high is None else high


def _cut_off(output: QParams, first: fx.Node) -> QParams:
    """The quantization with the code range that an activation leaves; `first` is the node after the operator."""
    bounds = activation_bounds(first)
    if bounds is None:
        return output
    low, high = (_code(bound, output) for bound in bounds)
    return QParams(output.scale, output.zero_point, low, max(low, high), output.dtype)


def _code(number: float, q: QParams) -> int:
    """The nearest code, half to even, saturated."""
    steps = number / q.scale32
    if steps < q.qmin - q.zero_point:
        return q.qmin
    return q.qmax if steps > q.qmax - q.zero_point else round(steps) + q.zero_point


def _holds(found: QParams, dtypes: Collection[torch.dtype]) -> bool:
    """Whether codes of one of these types can have this quantization."""
    if found.dtype not in dtypes or not (math.isfinite(found.scale32) and found.scale32 > 0):
        return False
    limits = torch.iinfo(found.dtype)
    return limits.min <= found.zero_point <= limits.max


# ------------------------------------------------------------------------------------ arguments


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """The arguments that are not tensors, by name, with defaults.

    Raises BackendError for an operator without a schema.
    """
    given, op = _by_name(node), target_name(node.target)
    if given is None:
        raise BackendError("arguments by name", "no schema", "an ATen operator", op)
    return {name: _plain(value) for name, value in given.items() if not any(_nodes(value))}


def _by_name(node: fx.Node) -> dict[str, Any] | None:
    """The arguments by name, defaults included; None for an operator without a schema."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return None
    given = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
    return {a.name: given.get(a.name, a.default_value) for a in schema.arguments}


def _nodes(argument: Any) -> Iterator[fx.Node]:
    """The nodes in an argument, lists included, in order."""
    if isinstance(argument, fx.Node):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for item in argument:
            yield from _nodes(item)


def _plain(value: Any) -> Any:
    """An argument as JSON can hold it: lists for tuples, names for dtypes and other objects."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
