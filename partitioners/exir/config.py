"""What `to_edge` may and may not do."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch._ops import OpOverload

from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.ops import target_name


@dataclass
class EdgeCompileConfig:
    """What `to_edge` may and may not do.

    _check_ir_validity: refuse operators outside core ATen and tensors of types their operator does not take in edge.
    _skip_dim_order: keep memory_format arguments instead of dim_order operators.
    _core_aten_ops_exception_list: operators outside core ATen to let pass.
    preserve_ops: operators that are not decomposed.
    """

    _check_ir_validity: bool = True
    _skip_dim_order: bool = False
    _core_aten_ops_exception_list: list[OpOverload] = field(default_factory=list)
    preserve_ops: list[OpOverload] = field(default_factory=list)


def check_config(config: object) -> EdgeCompileConfig:
    """The configuration, or the default one. Raises ExirError for operators that cannot be preserved."""
    if config is None:
        return EdgeCompileConfig()
    if not isinstance(config, EdgeCompileConfig):
        raise ExirError(
            "configuration of the wrong type", type(config).__name__, "an EdgeCompileConfig", "compile_config"
        )
    check_overloads((*config.preserve_ops, *config._core_aten_ops_exception_list), "compile_config")
    for op in config.preserve_ops:
        if side_effect(op) is not None:
            raise ExirError(
                "operator that cannot be preserved",
                f"{target_name(op)}, which {side_effect(op)}",
                "an operator without side effects",
                "compile_config.preserve_ops",
            )
    return config


def check_no_etrecord(generate_etrecord: object) -> None:
    """Refuse `generate_etrecord`, which ExecuTorch's functions have for its developer tools."""
    if generate_etrecord is not False:
        raise ExirError("no ETRecord is made", repr(generate_etrecord), "False", "generate_etrecord")


def check_overloads(ops: tuple[object, ...], where: str) -> None:
    """Refuse anything but operator overloads."""
    for op in ops:
        if not isinstance(op, OpOverload):
            raise ExirError("not an operator overload", repr(op), "e.g. torch.ops.aten.add.Tensor", where)


def side_effect(op: OpOverload) -> str | None:
    """Why decompositions must see through an operator: it writes an argument, or returns one's memory."""
    if op._schema.is_mutable:
        return "writes its argument"
    return "returns a view" if is_view(op) else None


def is_view(op: OpOverload) -> bool:
    """Whether the operator's result shares memory with its argument."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in op._schema.returns)
