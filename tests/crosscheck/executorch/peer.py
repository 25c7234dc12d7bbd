"""ExecuTorch's own XnnpackPartitioner on our edge programs.

The program is copied node by node: same names, arguments, values and signature, with ExecuTorch's edge operators in
the place of ours. Nothing is exported or decomposed again, so both partitioners see the same graph.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from conformance.tagging import tags_of
from partitioners.exir.ops import EdgeOp, target_name
from partitioners.exir.program import copy_program

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses parts of itself, of torch and of Python that are deprecated
    from executorch.backends.xnnpack.partition import config as peer_configs
    from executorch.backends.xnnpack.partition.config.generic_node_configs import EluConfig
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name
    from executorch.exir.dialects._ops import ops as peer_ops

logging.getLogger("executorch").setLevel(logging.ERROR)

Check = Callable[[fx.Node, ExportedProgram], bool]

CONFIGS = {config.__name__: config for config in (*peer_configs.ALL_PARTITIONER_CONFIGS, EluConfig)}


def peer_op(target: Any) -> Any:
    """ExecuTorch's edge operator of the same name; what is no edge operator stays."""
    if not isinstance(target, EdgeOp):
        return target
    found = peer_ops.edge
    for part in target_name(target).split("."):
        found = getattr(found, part)
    return found


def peer_program(program: ExportedProgram) -> ExportedProgram:
    """The same program in ExecuTorch's operators, with lists where cases have tuples."""
    twin = copy_program(program, verify=False)
    for node in twin.graph.nodes:
        if node.op == "call_function":
            node.target = peer_op(node.target)
            node.kwargs = {
                key: list(found) if isinstance(found, tuple) else found for key, found in node.kwargs.items()
            }
    return twin


def peer_partitioner(**options: Any) -> XnnpackPartitioner:
    """The real partitioner for a case's options, which name configs and precisions."""
    given: dict[str, Any] = dict(options)
    names = given.pop("configs", ())
    asked = given.pop("config_precisions", ())
    configs = [CONFIGS[name] for name in ((names,) if isinstance(names, str) else names)]
    kinds = [ConfigPrecisionType[name] for name in ((asked,) if isinstance(asked, str) else asked)]
    return XnnpackPartitioner(configs=configs or None, config_precisions=kinds or None, **given)


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
