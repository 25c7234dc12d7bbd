"""Edge programs as plain data, to compare those that are written with those that torch.export makes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputSpec

from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir.ops import target_name

OPEN = "open"
"""Stands for a size that a program leaves open, whatever it calls it."""


def exported_program(graph: Graph) -> ExportedProgram:
    """What torch.export makes of the graph's module; the open sizes of its inputs stay open."""
    inputs = [value for value in graph.values if not value.constant]
    sizes = {value.name: dict.fromkeys(value.dynamic, Dim.AUTO) for value in inputs}
    with warnings.catch_warnings():
        # torch.export warns about its own use of a deprecated tree registration.
        warnings.simplefilter("ignore")
        return torch.export.export(module(graph), model_inputs(graph), dynamic_shapes=tuple(sizes.values()))


def _sizes(sizes: Sequence[int | torch.SymInt]) -> list[int | str]:
    return [size if isinstance(size, int) else OPEN for size in sizes]


def _value(node: fx.Node) -> Any:
    def facts(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _sizes(value.shape), _sizes(value.stride()), value.dtype
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return OPEN
        if not isinstance(value, list | tuple):
            return value
        return [facts(item) for item in value]

    return facts(node.meta.get("val"))


def _plain(argument: Any) -> Any:
    """An argument by value; numbers with their types, so that 1 and 1.0 differ."""
    if isinstance(argument, fx.Node):
        return argument.name
    if isinstance(argument, list | tuple):
        return [_plain(item) for item in argument]
    return type(argument).__name__, repr(argument) if isinstance(argument, float) else argument


def nodes_of(program: ExportedProgram) -> list[tuple[Any, ...]]:
    """Every node: kind, name, operator, arguments and value."""
    return [
        (
            node.op,
            node.name,
            target_name(node.target),
            _plain(node.args),
            {key: _plain(item) for key, item in node.kwargs.items()},
            None if node.op == "output" else _value(node),
        )
        for node in program.graph.nodes
    ]


def _inputs(program: ExportedProgram) -> list[tuple[Any, ...]]:
    def facts(spec: InputSpec) -> tuple[Any, ...]:
        return spec.kind, spec.arg, spec.target, spec.persistent

    return [facts(spec) for spec in program.graph_signature.input_specs]


def assert_same(built: ExportedProgram, exported: ExportedProgram) -> None:
    """The same nodes, inputs, outputs, dialect and constants."""
    assert nodes_of(built) == nodes_of(exported)
    assert _inputs(built) == _inputs(exported)
    assert built.graph_signature.output_specs == exported.graph_signature.output_specs
    assert built.dialect == exported.dialect == "EDGE"
    assert built.state_dict.keys() == exported.state_dict.keys()
    for name, tensor in built.state_dict.items():
        assert torch.equal(tensor, exported.state_dict[name]), name
