"""What can be changed about a model: sizes, arguments, constants, ranks, types; a knob is one thing to turn.

A size that others must follow (the channels of an image and of its weights) is one knob with them, which torch is
asked for: sizes are tied where it refuses one without the other. No operator is named here.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_assay.conformance.cases.boundaries.arguments import arguments
from npu_assay.conformance.cases.boundaries.knob import Knob
from npu_assay.conformance.cases.boundaries.ranks import constants, directions, ranks
from npu_assay.conformance.cases.boundaries.sizes import alike, sizes
from npu_assay.conformance.cases.boundaries.types import types
from npu_assay.conformance.programs.graph import Graph


def knobs(graph: Graph, told: Sequence[int], deep: Sequence[int] = (), listed: bool = False) -> tuple[Knob, ...]:
    """Every knob of the model's subject, in an order of its own.

    told: numbers of the row's limits. deep: those of limits on how many dimensions there are. listed: whether a limit
    is on every tensor of several.
    """
    return (
        *sizes(graph, told),
        *arguments(graph, told),
        *constants(graph),
        *ranks(graph, deep),
        *directions(graph),
        *types(graph),
        *(alike(graph, told) if listed else ()),
    )
