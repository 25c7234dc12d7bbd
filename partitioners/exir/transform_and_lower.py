"""`to_edge_transform_and_lower`: from exported programs to lowered ones in one go.

Partitioners are asked before anything is taken apart which operators they want whole. What they keep and then do not
delegate is an error: no kernel runs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.partitioner import Partitioner
from npu_assay.partitioners.exir.config import EdgeCompileConfig, check_config, check_overloads, side_effect
from npu_assay.partitioners.exir.decompose import decomposed, functional
from npu_assay.partitioners.exir.edge import edge_from_functional
from npu_assay.partitioners.exir.errors import BackendError, ExirError
from npu_assay.partitioners.exir.lowering import Details, PartitionerOrClass, made_partitioner
from npu_assay.partitioners.exir.manager import EdgeProgramManager, by_method
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.transform import GraphPass

logger = logging.getLogger(__name__)

NodeFilter = Callable[[fx.Node], bool]
aten: Any = torch.ops.aten

NEVER_WHOLE: frozenset[OpOverload] = frozenset(
    {
        aten._local_scalar_dense.default,
        aten._to_copy.default,
        aten.add.Tensor,
        aten.div.Tensor,
        aten.item.default,
        aten.mul.Tensor,
        aten.split_with_sizes.default,
        aten.sub.Tensor,
        aten.unbind.int,
    }
)
"""Operators that the edge dialect itself rewrites, or that numbers come out of."""

QUANTISATION = "quantized_decomposed"
"""The namespace of operators that are never taken apart and may stay outside of delegates."""


@dataclass(frozen=True)
class Wanted:
    """The operators one partitioner wants whole, and which of their nodes."""

    partitioner: str
    ops: frozenset[OpOverload]
    keeps: NodeFilter | None

    def takes(self, node: fx.Node) -> bool:
        """Whether the node, of a torch or an edge operator, is to stay whole for this partitioner."""
        if node.op != "call_function" or target_name(node.target) not in self.names:
            return False
        return self.keeps is None or bool(self.keeps(node))

    @property
    def names(self) -> frozenset[str]:
        """The operators' names."""
        return frozenset(map(target_name, self.ops))


def to_edge_transform_and_lower(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    transform_passes: Sequence[GraphPass] | Mapping[str, Sequence[GraphPass]] | None = None,
    partitioner: Sequence[PartitionerOrClass] | Mapping[str, Sequence[PartitionerOrClass]] | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    *,
    details: Details | None = None,
) -> EdgeProgramManager:
    """Bring programs into the edge dialect, run passes over them and lower what the partitioners choose.

    `partitioner` is a list, tried in order on every method, or one list per method. Operators that a partitioner's
    `ops_to_not_decompose` names stay whole where its filter wants them. `details` maps backend ids to compilers that
    are not found by class name. The programs given stay as they are. Raises ExirError for wrong arguments, EdgeError
    for programs without edge form, and BackendError for an operator kept whole that no delegate took.
    """
    config = check_config(compile_config)
    sources = by_method(programs, "programs")
    chosen = check_partitioners(partitioner, sources)
    wanted: dict[str, list[Wanted]] = {}
    edge = {}
    for method, source in sources.items():
        for one in chosen[method]:
            source = one.transform_for_pre_decomposition(source)
        edge[method], wanted[method] = _edge(source, chosen[method], config)
    whole = {op for found in wanted.values() for one in found for op in one.ops}
    manager = EdgeProgramManager(edge, constant_methods, config, preserve_ops=sorted(whole, key=str))
    if transform_passes is not None:
        manager = manager.transform(transform_passes)
    for turn in range(max(map(len, chosen.values()))):
        manager = manager.to_backend({m: p[turn] for m, p in chosen.items() if turn < len(p)}, details=details)
    for method in sources:
        check_delegated(manager.exported_program(method), wanted[method])
    return manager


def _edge(
    source: ExportedProgram, partitioners: Sequence[Partitioner], config: EdgeCompileConfig
) -> tuple[ExportedProgram, list[Wanted]]:
    """The edge form with what the partitioners want left whole."""
    plain = functional(source)
    wanted = [wanted_by(one, plain) for one in partitioners]
    ops = {op for one in wanted for op in one.ops}
    program = decomposed(plain, {*config.preserve_ops, *ops})
    unwanted = frozenset(map(target_name, ops)) - frozenset(map(target_name, config.preserve_ops))
    candidates = [n for n in program.graph.nodes if n.op == "call_function" and target_name(n.target) in unwanted]
    kept = [n for n in candidates if any(one.takes(n) for one in wanted)]
    if len(kept) < len(candidates):
        program = decomposed(program, config.preserve_ops, kept)
    whole = replace(config, preserve_ops=[*config.preserve_ops, *ops])
    return edge_from_functional(program, whole), wanted


def wanted_by(partitioner: Partitioner, program: ExportedProgram) -> Wanted:
    """What a partitioner wants whole. With a filter, operators that cannot stay whole are left out, with a warning."""
    name = type(partitioner).__name__
    ops, keeps = partitioner.ops_to_not_decompose(program)
    check_overloads(tuple(ops), f"{name}.ops_to_not_decompose")
    possible = []
    for op in ops:
        reason = side_effect(op) or ("the edge dialect rewrites" if op in NEVER_WHOLE else None)
        if reason is None:
            possible.append(op)
        else:
            logger.warning("%s: cannot be kept whole for %s: an operator that %s", target_name(op), name, reason)
    return Wanted(name, frozenset(possible), keeps)


def check_partitioners(partitioner: object, methods: Iterable[str]) -> dict[str, list[Partitioner]]:
    """The partitioners of each method. Raises ExirError for anything but a list, or a dict of lists by method."""
    if partitioner is None:
        return {name: [] for name in methods}
    if isinstance(partitioner, Mapping):
        unknown = sorted(set(partitioner) - set(methods))
        if unknown:
            raise ExirError(
                "unknown method", found=repr(unknown[0]), expected=f"one of {sorted(methods)}", where="partitioner"
            )
        return {name: _checked_list(partitioner.get(name, []), f"partitioner[{name!r}]") for name in methods}
    return {name: _checked_list(partitioner, "partitioner") for name in methods}


def _checked_list(partitioners: object, where: str) -> list[Partitioner]:
    if not isinstance(partitioners, (list, tuple)):
        name = partitioners.__name__ if isinstance(partitioners, type) else type(partitioners).__name__
        raise ExirError(
            "partitioners of the wrong type", found=name, expected=f"a list, as in [{name}(...)]", where=where
        )
    return [made_partitioner(one) for one in partitioners]


def check_delegated(program: ExportedProgram, wanted: Sequence[Wanted]) -> None:
    """Raise BackendError for the first node left that a partitioner had kept whole."""
    for node in program.graph.nodes:
        for one in wanted:
            if node.op != "call_function" or target_name(node.target).startswith(QUANTISATION):
                continue
            if one.takes(node):
                raise BackendError(
                    f"{one.partitioner} kept an operator whole and did not delegate it",
                    found=f"{target_name(node.target)} outside of all delegates",
                    expected="a partition that has it, or a filter in ops_to_not_decompose that leaves it out",
                    where=node.name,
                )
