"""Which placeholders of a program are constants, and the helpers that let partitioners take them along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from npu_assay.partitioners.exir.backend.partition_result import DELEGATION_TAG


def placeholders(program: ExportedProgram) -> Iterator[tuple[fx.Node, InputSpec]]:
    """The placeholders in order, each with its record in the signature."""
    nodes = (n for n in program.graph.nodes if n.op == "placeholder")
    return zip(nodes, program.graph_signature.input_specs, strict=True)


def user_inputs(program: ExportedProgram) -> list[fx.Node]:
    """The placeholders of what the program's user gives."""
    return [node for node, spec in placeholders(program) if spec.kind == InputKind.USER_INPUT]


def constant_nodes(program: ExportedProgram) -> list[fx.Node]:
    """Placeholders of parameters, buffers and lifted tensors, mutated buffers excepted."""
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    return [n for n, s in placeholders(program) if s.kind != InputKind.USER_INPUT and s.target not in mutated]


def constant_values(
    program: ExportedProgram, fallback: Mapping[str, torch.Tensor] = MappingProxyType({})
) -> dict[str, torch.Tensor | None]:
    """Data of the constants by placeholder name: the program's own, or `fallback`'s, by name in the state.

    None if neither has data: programs may hold fake tensors.
    """
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    found: dict[str, torch.Tensor | None] = {}
    for node, spec in placeholders(program):
        if spec.kind == InputKind.USER_INPUT or spec.target is None or spec.target in mutated:
            continue
        data = program.state_dict.get(spec.target, program.constants.get(spec.target))
        known = isinstance(data, torch.Tensor) and not isinstance(data, FakeTensor)
        found[node.name] = data if known else fallback.get(spec.target)
    return found


def mutated_buffer_nodes(program: ExportedProgram) -> list[fx.Node]:
    """Placeholders of buffers that the program writes."""
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    return [n for n, s in placeholders(program) if s.kind == InputKind.BUFFER and s.target in mutated]


def tag_constant_data(program: ExportedProgram) -> None:
    """Give every constant with a tagged user the smallest of its users' tags.

    It then moves into every partition that uses it, and also stays outside for untagged users.
    """
    _tag_like_users(constant_nodes(program))


def tag_mutated_buffer(program: ExportedProgram) -> None:
    """Give every mutated buffer its users' tag; all users of such a buffer must be in one partition."""
    _tag_like_users(mutated_buffer_nodes(program))


def _tag_like_users(nodes: list[fx.Node]) -> None:
    for node in nodes:
        tags = [user.meta[DELEGATION_TAG] for user in node.users if user.meta.get(DELEGATION_TAG) is not None]
        if tags:
            node.meta[DELEGATION_TAG] = min(tags)
