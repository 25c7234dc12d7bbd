"""A backend that keeps the limits of `strict@1.0.toml`, each written by hand, and copies of it that forget one.

The device computes in float64: what is tested with it is which programs it takes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import Backend, BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.blob import DTYPES, pack, unpack
from npu_assay.partitioners.exir.nodes import argument, pair, rank, shape
from npu_assay.partitioners.exir.ops import edge_op
from npu_assay.partitioners.exir.rules import Rule, rule
from npu_assay.partitioners.exir.single_op import Cluster, ClusterPartitioner, only_cluster

Check = Callable[[fx.Node, Cluster | None], str | None]
POOLS = ("aten.avg_pool2d.default", "aten.max_pool2d_with_indices.default", "aten.max_pool2d.default")


def _breaks(code: str, check: Callable[[fx.Node], bool]) -> Rule[Any]:
    """The rule that finds something where `check` is true."""

    def found(node: fx.Node, cluster: Cluster | None) -> str | None:
        return "it is" if check(node) else None

    found.__doc__ = code
    return rule(code)(found)


def _size(node: fx.Node, place: int, dim: int) -> int:
    return shape(node.args[place])[dim]


def _kernel(node: fx.Node) -> tuple[int, int]:
    found = shape(node.args[1])[-2:] if isinstance(node.args[1], fx.Node) else pair(node.args[1])
    assert found is not None
    return found[0], found[1]


def _pair(node: fx.Node, place: int, name: str) -> tuple[int, int]:
    """Of a convolution two places further behind than of a pool."""
    return pair(argument(node, place, name, ())) or (_kernel(node) if name == "stride" else (1, 1))


def _strides(node: fx.Node) -> tuple[int, int]:
    return _pair(node, 3 if isinstance(node.args[1], fx.Node) else 2, "stride")


def _is_pool(node: fx.Node) -> bool:
    return not isinstance(node.args[1], fx.Node)


def _reach(node: fx.Node) -> bool:
    dilation = _pair(node, 5, "dilation")
    return any(k * d > 64 for k, d in zip(_kernel(node), dilation, strict=True))


def _is_constant(node: object) -> bool:
    """Behind at most a dequantize node."""
    while isinstance(node, fx.Node) and node.op == "call_function" and node.args:
        node = node.args[0]
    return isinstance(node, fx.Node) and node.name.startswith(("b_", "c_", "p_"))


def _first(node: fx.Node) -> Any:
    """The first of the operands of cat."""
    tensors: Any = node.args[0]
    return tensors[0]


def _unaligned(node: fx.Node) -> bool:
    tensors: Any = () if _wide(node) else node.args[0]
    return any(shape(t)[argument(node, 1, "dim", 0)] % 3 for t in tensors)


def _code_types(node: fx.Node) -> set[object]:
    """Of the codes that the nodes around the operator take and make."""
    around = (node.all_input_nodes[0], *node.users)
    return {each for near in around for each in near.args if isinstance(each, torch.dtype)}


def _wide(node: fx.Node) -> bool:
    """Whether codes have 16 bits, for which some rows have limits of their own."""
    return torch.int16 in _code_types(node)


def _of_images(node: fx.Node) -> bool:
    return rank(node.args[0]) == 4 and not _wide(node)


def _large_kernel(node: fx.Node) -> bool:
    """Of pools, and of convolutions on codes of 16 bits."""
    of_pool = not isinstance(node.args[1], fx.Node)
    return (of_pool or (_wide(node) and rank(node.args[0]) == 4)) and math.prod(_kernel(node)) > 64


LIMITS: Mapping[str, Rule[Any]] = MappingProxyType(
    {
        code: _breaks(code, check)
        for code, check in {
            "max_dims": lambda node: not _wide(node) and rank(node.all_input_nodes[0]) > 4,
            "deep": lambda node: rank(node.args[0]) > 12,
            "images": lambda node: not _wide(node) and rank(node.args[0]) != 4,
            "reach": lambda node: _of_images(node) and _reach(node),
            "odd_kernels": lambda node: _of_images(node) and not {*_kernel(node)} <= {1, 3, 5},
            "weights_fit": lambda node: not _wide(node) and torch.Size(shape(node.args[1])).numel() > 2**19,
            "strides": lambda node: (_of_images(node) or _is_pool(node)) and not {*_strides(node)} <= {1, 2, 4},
            "in_lanes": lambda node: not _wide(node) and _size(node, 0, 1) % 16 != 0,
            "out_lanes": lambda node: not _wide(node) and shape(node)[1] % 8 != 0,
            "area": _large_kernel,
            "pool_stride": lambda node: _strides(node)[0] not in (1, 2, _size(node, 0, -2)),
            "pixels": lambda node: _size(node, 0, -2) * _size(node, 0, -1) % 4 != 0,
            "short_kernel": lambda node: _kernel(node)[0] > 7,
            "lanes": lambda node: rank(node.args[0]) > 1 and _size(node, 0, 1) % 8 != 0,
            "own_axis": _unaligned,
            "cat_dims": lambda node: _wide(node) and rank(node.all_input_nodes[0]) > 4,
            "cat_lanes": lambda node: _wide(node) and rank(_first(node)) > 1 and shape(_first(node))[1] % 128 != 0,
            "static_divisor": lambda node: not _is_constant(node.args[1]),
            "second_constant": lambda node: not _is_constant(node.args[1]),
            "one_image": lambda node: rank(node.args[0]) > 0 and _size(node, 0, 0) != 1,
            "few": lambda node: torch.Size(shape(node.args[0])).numel() > 65536,
            "last_axis": lambda node: argument(node, 1, "dim") not in (-1, rank(node.args[0]) - 1),
            "alike": lambda node: shape(node.args[0]) != shape(node.args[1]),
            "rows_or_lanes": lambda node: rank(node.args[0]) > 2 and _size(node, 0, -1) % 8 != 0,
            "codes": lambda node: torch.uint8 in _code_types(node),
            "kept": lambda node: not argument(node, 2, "keepdim", False),
        }.items()
    }
)
ROWS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "aten.abs.default": ("deep",),
        "aten.add.Tensor": ("second_constant", "one_image", "few"),
        "aten.avg_pool2d.default": ("area", "pool_stride", "pixels"),
        "aten.cat.default": ("own_axis", "cat_lanes", "cat_dims"),
        "aten.convolution.default": (
            *("images", "reach", "odd_kernels", "weights_fit", "strides"),
            *("in_lanes", "out_lanes", "area"),
        ),
        "aten.remainder.Tensor": ("static_divisor",),
        "aten.max_pool2d_with_indices.default": ("short_kernel", "strides"),
        "aten.mean.dim": ("kept",),
        "aten.mul.Tensor": ("alike",),
        "aten.permute_copy.default": ("rows_or_lanes",),
        "aten.relu.default": ("lanes", "codes"),
        "aten._softmax.default": ("last_axis",),
    }
)


class StrictPartitioner(ClusterPartitioner):
    """Every limit of every row."""

    backend_id = "StrictBackend"
    dtypes = (torch.int8, torch.uint8, torch.int16)
    per_channel = True
    rules: ClassVar = {op: tuple(LIMITS[code] for code in ("max_dims", *codes)) for op, codes in ROWS.items()}


class StrictBackend(BackendDetails):
    """Writes what the cluster is."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        header, arrays = only_cluster(edge_program).describe()
        return PreprocessResult(pack(json.loads(json.dumps(header)), arrays))


class StrictRuntime:
    """The operator itself, on real numbers in float64."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        return unpack(processed_bytes)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        header, arrays = handle
        reals = [_real(o, arrays[o["constant"]] if "constant" in o else inputs[o["input"]]) for o in header["operands"]]
        op: Any = edge_op(header["op"])._op
        found: Tensor | tuple[Tensor, ...] = op(*_arguments(op, reals, header["arguments"]))
        y, first = header["output"], found[0] if isinstance(found, tuple) else found
        codes = torch.floor(first / y["scale"] + 0.5) + y["zero_point"]
        return [codes.clamp(y["qmin"], y["qmax"]).to(DTYPES[y["dtype"]]).contiguous()]


def _arguments(op: Any, reals: Sequence[Tensor], named: Mapping[str, Any]) -> list[Any]:
    """By position, operands from the first to the last; what is only by name is left to its default."""
    given = iter(reals)
    kinds = {a.name: str(a.type) for a in op._schema.arguments if not a.kwarg_only}
    lists = (name for name, kind in kinds.items() if kind == "List[Tensor]")
    if next(lists, None) is not None:
        return [[*reals], *(named[name] for name in kinds if name in named)]
    return [next(given, None) if "Tensor" in kind else named[name] for name, kind in kinds.items()]


def _real(operand: Mapping[str, Any], codes: Tensor) -> Tensor:
    scale = torch.as_tensor(operand["scale"], dtype=torch.float64)
    if scale.dim():
        scale = scale.reshape([-1 if axis == operand["axis"] else 1 for axis in range(codes.dim())])
    return torch.mul(codes.to(torch.float64) - operand["zero_point"], scale)


TABLE = str(Path(__file__).parent / "data" / "strict@1.0.toml")
backend = Backend("strict", TABLE, StrictPartitioner, StrictBackend, StrictRuntime())


def without(code: str) -> Backend:
    """The same, which forgets one limit."""

    class Forgetful(StrictPartitioner):
        rules: ClassVar = {
            op: tuple(r for r in found if r.code != code) for op, found in StrictPartitioner.rules.items()
        }

    return Backend("strict", TABLE, Forgetful, StrictBackend, StrictRuntime())


def wide_and_coarse(node: fx.Node) -> bool:
    """A convolution with a kernel of 5 rows that goes on by 4."""
    return rank(node.args[0]) == 4 and _kernel(node)[0] == 5 and _strides(node)[0] == 4


def backend_that_also_refuses(op: str, check: Callable[[fx.Node], bool]) -> Backend:
    """The same, with one more limit, which the table does not have."""

    class Narrow(StrictPartitioner):
        rules: ClassVar = {**StrictPartitioner.rules, op: (*StrictPartitioner.rules[op], _breaks("more", check))}

    return Backend("strict", TABLE, Narrow, StrictBackend, StrictRuntime())
