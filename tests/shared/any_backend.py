"""A backend that takes every operator on codes of int8 and int16, and computes it with torch in float64.

It is right by construction: codes become reals, torch computes, the result is rounded half to even. It knows no golden.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import Backend, BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, Partitioner, PartitionResult
from npu_assay.partitioners.exir.constants import constant_values, tag_constant_data
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, GETITEM, QUANTIZE_PER_TENSOR, edge_op, target_name
from npu_assay.partitioners.exir.qdq import qparams

ID = "EveryBackend"
TABLES = """schema = 2
name = "any"
version = "1.0"
backend_id = "EveryBackend"
source = "a test"
rescale = ""
[parameters]
[common]
constraints = ["quantized @document", "static_shape @document"]
[constraints]
quantized = "the operator must stand between dequantize and quantize nodes (static int8, per tensor)"
static_shape = "every dimension must be a known number, at least 1"
[operators]
"""


def table(names: Sequence[str], precision: str) -> str:
    """A table of these operators in a precision; "" for none. Rows of floats need no quantization."""
    head = TABLES
    if precision.startswith("fp"):
        head = "\n".join(line for line in TABLES.splitlines() if not line.startswith("quantized")) + "\n"
        head = head.replace('"quantized @document", ', "")
    listed = f'precisions = ["{precision}"], ' if precision else ""
    return head + "\n".join(f'"{name}" = {{ document = "", {listed}constraints = [] }}' for name in names)


class EveryPartitioner(Partitioner):
    """Tags an operator with the nodes that quantize around it, where all its reals are codes; `only` that one."""

    only: ClassVar[str] = ""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """A delegate for each."""
        tags: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            named = node.op == "call_function" and self.only in ("", target_name(node.target))
            members = _members(node) if named else []
            if members:
                tag = f"{ID}_{len(tags)}"
                tags[tag] = DelegationSpec(ID, [])
                for member in members:
                    member.meta[DELEGATION_TAG] = tag
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)


def _members(node: fx.Node) -> list[fx.Node]:
    if not target_name(node.target).startswith(("aten.", "dim_order_ops.")):
        return []
    reals = [n for n in node.all_input_nodes if n.meta["val"].is_floating_point()]
    if not reals or not all(_is_code(n, node) for n in reals):
        return []
    members = [*reals, node]
    waiting = [node]
    while waiting:
        last = waiting.pop()
        value, users = last.meta["val"], {user: target_name(user.target) for user in last.users}
        if target_name(last.target) == QUANTIZE_PER_TENSOR or _is_whole(value):
            continue
        if list(users.values()) != [QUANTIZE_PER_TENSOR] and set(users.values()) != {GETITEM}:
            return []
        members += users
        waiting += users
    return members if _known([*reals, node]) else []


def _is_whole(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_floating_point()


def _is_code(node: fx.Node, user: fx.Node) -> bool:
    return target_name(node.target) == DEQUANTIZE_PER_TENSOR and set(node.users) == {user}


def _known(nodes: Sequence[fx.Node]) -> bool:
    values = [value for node in nodes for value in _tensors(node.meta["val"])]
    return all(isinstance(size, int) and size > 0 for value in values for size in value.shape)


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [value[0]]


class EveryBackend(BackendDetails):
    """Its name is the backend id."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The program as JSON: nodes with their arguments, constants as lists."""
        constants = constant_values(edge_program)
        nodes = []
        for node in edge_program.graph.nodes:
            known = constants.get(node.name) if node.op == "placeholder" else None
            data = None if known is None else [str(known.dtype), list(known.shape), known.flatten().tolist()]
            target = target_name(node.target) if node.op == "call_function" else ""
            q = qparams(node) if target in (DEQUANTIZE_PER_TENSOR, QUANTIZE_PER_TENSOR) else None
            codes = None if q is None else [q.scale32, q.zero_point, q.qmin, q.qmax, str(q.dtype)]
            nodes.append([node.name, node.op, target, _plain(node.args), _plain(dict(node.kwargs)), data, codes])
        return PreprocessResult(json.dumps(nodes).encode())


def _plain(argument: Any) -> Any:
    if isinstance(argument, fx.Node):
        return {"node": argument.name}
    if isinstance(argument, (list, tuple)):
        return [_plain(item) for item in argument]
    if isinstance(argument, dict):
        return {name: _plain(item) for name, item in argument.items()}
    return argument if argument is None or isinstance(argument, (bool, int, float, str)) else str(argument)


class EveryRuntime:
    """torch in float64. `wrong` changes the codes of each result, `shift` indices, for tests of what sees that."""

    def __init__(self) -> None:
        self.wrong: Any = None
        self.shift = 0

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        """The nodes."""
        return json.loads(processed_bytes)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Node by node."""
        given = iter(inputs)
        found: dict[str, Any] = {}
        for name, op, target, args, kwargs, data, codes in handle:
            if op == "placeholder":
                found[name] = next(given) if data is None else _constant(data)
            elif op == "output":
                return [found[item["node"]].contiguous() for item in args[0]]
            else:
                found[name] = self._result(target, _with(args, found), _with(kwargs, found), codes)
        raise ValueError("no output")

    def _result(self, target: str, args: Any, kwargs: Any, codes: Any) -> Any:
        if target == DEQUANTIZE_PER_TENSOR:
            return (args[0].to(torch.float64) - codes[1]) * codes[0]
        if target == QUANTIZE_PER_TENSOR:
            steps = torch.round(args[0] / codes[0]).nan_to_num(0.0).clamp(-(2.0**31), 2.0**31) + codes[1]
            made = steps.clamp(codes[2], codes[3]).to(getattr(torch, codes[4].removeprefix("torch.")))
            return made if self.wrong is None else self.wrong(made)
        if target == GETITEM:
            found = args[0][args[1]]
            return found + self.shift if _is_whole(found) else found
        options = {name: value for name, value in kwargs.items() if name not in ("memory_format", "dtype")}
        return edge_op(target)._op(*args, **options)


def _constant(data: Any) -> Tensor:
    dtype, shape, numbers = data
    return torch.tensor(numbers, dtype=getattr(torch, dtype.removeprefix("torch."))).reshape(shape)


def _with(argument: Any, found: dict[str, Any]) -> Any:
    if isinstance(argument, dict) and set(argument) == {"node"}:
        return found[argument["node"]]
    if isinstance(argument, dict):
        return {name: _with(item, found) for name, item in argument.items()}
    return [_with(item, found) for item in argument] if isinstance(argument, list) else argument


backend = Backend(ID, "any@1.0", EveryPartitioner, EveryBackend, EveryRuntime())


def backend_with(runtime: EveryRuntime) -> Backend:
    """The same with another device."""
    return Backend(ID, "any@1.0", EveryPartitioner, EveryBackend, runtime)
