"""What a device computes inside of a model: it is compiled once more with the codes of every layer as results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

from npu_assay.conformance.explain.origins import origin_of
from npu_assay.partitioners.exir import Backend, copy_program, run_program, to_backend
from npu_assay.partitioners.exir.qdq import is_quantize

Codes = Mapping[str, Tensor]
"""What a device gave, by the name of the quantize node in the quantized program."""


def codes_inside(program: ExportedProgram, backend: Backend, inputs: Sequence[Sequence[Any]]) -> list[Codes]:
    """For each input the codes of the layers, as the device computes them. Raises what the backend raises.

    inputs: in the program's order, nested in nothing. program: in the edge dialect, as the partitioner gets it.
    """
    opened = copy_program(program)
    output = opened.graph.output_node()
    given = output.args[0]
    assert isinstance(given, (list, tuple))
    nodes = [node for node in opened.graph.nodes if is_code(node) and node not in given]
    output.args = ((*given, *nodes),)
    specs = opened.graph_signature.output_specs
    specs += [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in nodes]
    name = backend.details.__name__
    lowered = to_backend(opened, backend.partitioner(), details={name: backend.details})
    runs = (run_program(lowered, list(each), {name: backend.runtime}) for each in inputs)
    names = [(origin_of(node), place - len(nodes)) for place, node in enumerate(nodes)]
    return [{name: results[place] for name, place in names if name is not None} for results in runs]


def is_code(node: fx.Node) -> bool:
    """Whether a node makes codes by a scale that is known before the model runs."""
    return is_quantize(node) and len(node.args) > 1 and isinstance(node.args[1], float)
