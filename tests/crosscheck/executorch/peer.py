"""ExecuTorch's own XnnpackPartitioner on our edge programs.

The program is copied node by node: same names, arguments, values and signature, with ExecuTorch's edge operators in
the place of ours. Nothing is exported or decomposed again, so both partitioners see the same graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.adapters.executorch.xnn import partitioner as peer_partitioner
from npu_assay.conformance.run.partitioning import tags_of
from npu_assay.partitioners.exir.interop import executorch_program as peer_program

with quiet():
    from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name

__all__ = ["peer_accepts", "peer_partitioner", "peer_program", "peer_tags"]

Check = Callable[[fx.Node, ExportedProgram], bool]


def peer_tags(
    program: ExportedProgram, options: Mapping[str, Any], refused: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The real partitioner's tags, by node name, when it also refuses the nodes in `refused`."""
    twin, partitioner = peer_program(program), peer_partitioner(**options)
    for config in partitioner.target_partitioner_configs.values():
        config.check_constraints = _refusing(config.check_constraints, refused)
    partitioner.partition(twin)
    return tags_of(twin.graph)


def _refusing(check: Check, refused: frozenset[str]) -> Check:
    return lambda node, program: node.name not in refused and check(node, program)


def peer_accepts(program: ExportedProgram, name: str, options: Mapping[str, Any]) -> bool:
    """Whether the real partitioner has a config for a node, and its constraints hold."""
    twin = peer_program(program)
    node = next(node for node in twin.graph.nodes if node.name == name)
    config = peer_partitioner(**options).target_partitioner_configs.get(format_target_name(node.target.__name__))
    return config is not None and bool(config.check_constraints(node, twin))
