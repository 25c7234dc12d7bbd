"""The inputs that a program runs on, drawn by who judges when the backend has compiled: no blob can hold the answers.

The first are the case's own. Dynamic sizes are larger in the second run, and again in the third one, where torch takes
them: a slice may be written for no smaller ones. The second follow from the program and its blobs: the same in every
run with the same blobs, and unknown to whoever makes these. The third follow from a secret of the run as well, so that
no memory of earlier runs has them. What a case lists (indices, special numbers) stays as it is: the operator may be
defined for nothing else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from npu_assay.conformance.predicates.applications import runs
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.programs.seeds import fills, redrawn, sizes, stretched
from npu_assay.conformance.record.results import program_sha256
from npu_assay.conformance.run.question import Inputs

LARGEST = 2**40  # of a number of inputs, as `redrawn` takes it: seeds have 64 bits
NO_SECRET = ""
"""The secret of a process that certifies nothing, whose inputs can be drawn again."""


@dataclass
class Drawing:
    """Draws a program's inputs once. `blobs`: the digest of those that they were drawn for; `graphs`: the programs.

    beside: another program, which keeps its own inputs.
    """

    graph: Graph
    beside: Graph | None = None
    secret: str = NO_SECRET
    blobs: str | None = None
    graphs: tuple[Graph, ...] = field(default=(), init=False)

    def __call__(self, blobs: str) -> Inputs:
        """The inputs of the first, the second and the third run. Raises ValueError when they were drawn before."""
        if self.blobs is not None:
            raise ValueError("inputs are drawn once")
        self.blobs = blobs
        known = (program_sha256(self.graph), blobs)
        numbers = (0, _number(*known), _number(*known, self.secret))
        bases = (self.graph, _at_sizes(self.graph, 1), _at_sizes(self.graph, 2))
        self.graphs = tuple(map(redrawn, bases, numbers))
        beside = () if self.beside is None else fills(self.beside)
        return Inputs(tuple(map(fills, self.graphs)), tuple(map(sizes, self.graphs)), beside)


def _at_sizes(graph: Graph, by: int) -> Graph:
    """The program at other dynamic sizes; as it is where torch does not take these."""
    other = stretched(graph, by) if any(value.dynamic for value in graph.values) else graph
    return other if other == graph or runs(other) else graph


def _number(*known: str) -> int:
    digest = hashlib.sha256("\n".join(known).encode()).digest()
    return 1 + int.from_bytes(digest, "big") % LARGEST
