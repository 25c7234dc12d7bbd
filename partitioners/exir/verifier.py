"""Checks of edge programs beyond their structure: operators of core ATen, and tensors of known dtypes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from npu_assay.partitioners.exir.config import EdgeCompileConfig
from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.nodes import tensors
from npu_assay.partitioners.exir.ops import EdgeOp, is_dim_order_op, target_name

FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
BOOL = frozenset({torch.bool})
CODES = frozenset({torch.uint16})
NUMBERS = FLOATS | INTEGERS
REALS = NUMBERS | BOOL
EDGE_TYPES = REALS | CODES | {torch.complex64, torch.complex128}
"""The tensor types that edge operators may take and return."""

_TYPES: tuple[tuple[frozenset[torch.dtype], str], ...] = (
    # Undefined for whole numbers, in torch as well.
    (FLOATS, "_log_softmax _softmax elu gelu glu leaky_relu native_layer_norm var"),
    (FLOATS | {torch.int64}, "avg_pool2d"),
    # Bits of floats mean nothing.
    (INTEGERS | BOOL, "bitwise_not"),
    (INTEGERS | BOOL | CODES, "bitwise_and bitwise_or bitwise_xor"),
    # Arithmetic that truth values do not have.
    (NUMBERS, "abs addmm argmax argmin bmm convolution hardtanh max_pool2d_with_indices mm neg relu"),
    (NUMBERS | CODES, "ceil floor round rsub sub"),
    # What truth values take part in as 0 and 1, and unsigned 16-bit numbers do not.
    (REALS, "amax amin index index_put logical_not masked_fill max min nonzero pixel_shuffle scatter_add sign tril"),
    # All other arithmetic and comparison, and what makes and copies tensors; complex numbers can only be moved.
    (
        REALS | CODES,
        """
        acos acosh add alias_copy any as_strided_copy asin asinh atan atanh cat clamp clone constant_pad_nd copy cos
        cosh cumsum detach_copy div embedding eq erf exp fill floor_divide fmod full_like ge gt index_select isinf
        isnan le lift_fresh_copy log logical_and logical_or logical_xor logit lt mean minimum mul ne pow
        reciprocal remainder repeat rsqrt select_copy select_scatter sigmoid sin sinh slice_scatter split_copy
        split_with_sizes_copy sqrt stack sum t_copy tan tanh _to_copy transpose_copy unbind_copy view_copy where
        """,
    ),
)
OPERATOR_TYPES = {f"aten.{name}": types for types, names in _TYPES for name in names.split()}
"""Dtypes by operator, for all overloads; operators that are not listed move data or take all dtypes."""

OUTSIDE_CORE = frozenset({"aten._upsample_bilinear2d_aa.default", "aten.max.default", "aten.min.default"})
"""Operators that edge programs may have although they are not core ATen: ExecuTorch has kernels for them."""

_IN_DIM_ORDER = frozenset({"aten._to_copy.default", "aten.clone.default", "aten.empty.memory_format"})


def verify(program: ExportedProgram, config: EdgeCompileConfig) -> None:
    """Raise EdgeError for the first node that `config` does not let pass, in bodies of control flow, too."""
    if config._check_ir_validity:
        for _, error in violations(program, config):
            raise error


def violations(program: ExportedProgram, config: EdgeCompileConfig) -> Iterator[tuple[fx.Node, EdgeError]]:
    """The nodes that `config` does not let pass, in bodies of control flow, too, each with what is wrong with it."""
    exceptions = frozenset((*config.preserve_ops, *config._core_aten_ops_exception_list))
    for node in nodes_of(program.graph_module):
        try:
            if isinstance(node.target, EdgeOp):
                check_spelling(node, config._skip_dim_order)
                check_core(node, node.target._op, exceptions)
            check_types(node)
        except EdgeError as error:
            yield node, error


def nodes_of(module: fx.GraphModule) -> Iterator[fx.Node]:
    """The nodes of a graph and of the control flow bodies within it."""
    yield from module.graph.nodes
    for child in module.children():
        if isinstance(child, fx.GraphModule):
            yield from nodes_of(child)


def check_core(node: fx.Node, op: Any, exceptions: Collection[OpOverload]) -> None:
    """Raise EdgeError for an ATen operator outside the core set, and outside `exceptions`."""
    if not isinstance(op, OpOverload) or op.namespace != "aten" or op in exceptions or target_name(op) in OUTSIDE_CORE:
        return
    if torch.Tag.core not in op.tags and torch.Tag.view_copy not in op.tags:
        raise EdgeError(
            "operator outside core ATen",
            target_name(op),
            "a core ATen operator, or one listed in _core_aten_ops_exception_list or preserve_ops",
            node.name,
        )


def check_spelling(node: fx.Node, skip_dim_order: bool) -> None:
    """Raise EdgeError for a memory format where dim orders are asked for, and the other way round."""
    name = target_name(node.target)
    if is_dim_order_op(name) if skip_dim_order else name in _IN_DIM_ORDER:
        raise EdgeError(
            "operator with the wrong form of memory layout",
            name,
            "a memory_format" if skip_dim_order else "a dim_order operator",
            node.name,
        )


def check_types(node: fx.Node) -> None:
    """Raise EdgeError for a tensor of a type that edge, or the node's operator, does not know."""
    _check_known(node)
    if node.op != "call_function":
        return
    name = target_name(node.target)
    known = OPERATOR_TYPES.get(name.rpartition(".")[0])
    if known is None:
        return
    for source in _operands(node):
        for tensor in tensors(source):
            if tensor.dtype not in known:
                raise EdgeError(
                    f"{name} does not take this type of tensor",
                    f"{tensor.dtype} from {source.name}",
                    _text(known),
                    node.name,
                )


def _operands(node: fx.Node) -> Iterator[fx.Node]:
    """The operands that the operator computes with; bool and integer indices may have any dtype."""
    # An index, mask or condition is of its own type, which torch checks itself.
    extra = {"condition", "index", "indices", "mask"}
    target: Any = node.target
    schema = target._op._schema if isinstance(target, EdgeOp) and isinstance(target._op, OpOverload) else None
    names = [a.name for a in schema.arguments] if schema is not None else []
    skipped = {i for i, name in enumerate(names) if name in extra}
    for position, argument in enumerate(node.args):
        if position not in skipped:
            yield from (a for a in tree_leaves(argument) if isinstance(a, fx.Node))


def _check_known(node: fx.Node) -> None:
    for tensor in tensors(node):
        if tensor.dtype not in EDGE_TYPES:
            raise EdgeError("tensor of a type that edge does not know", str(tensor.dtype), _text(EDGE_TYPES), node.name)


def _text(types: Collection[torch.dtype]) -> str:
    return f"one of {', '.join(sorted(str(t).removeprefix('torch.') for t in types))}"
