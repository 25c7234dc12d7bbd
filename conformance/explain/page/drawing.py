"""Where the operators of a program stand in its drawing, and how its edges run: laid out by Graphviz's dot.

Graphviz gets numbers only: no name of a model reaches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO

from pygraphviz import AGraph

from npu_assay.conformance.explain.record import Operator

WIDTH, HEIGHT = 168, 58  # of an operator, in pixels
INCH = 72  # pixels: Graphviz's unit
GAP, RANKS = 0.25, 0.4  # inches between operators side by side, and between ranks
MARGIN = 12
LONG = (32, 16, 8, 4)  # ranks, beyond which an edge is a straight line: dot would give it a place in each
PLACES = 5000  # that dot gives to edges within a second; the first of LONG that needs no more is taken
EFFORT = "nslimit=1 nslimit1=1 mclimit=0.1"
"""How long dot looks for better places: without it a DenseNet takes 10 s, with it half a second."""

Link = tuple[int, int]


@dataclass(frozen=True)
class Edge:
    """From one operator to another that takes its result. path: as an SVG path."""

    source: Operator
    target: Operator
    path: str

    @property
    def crosses(self) -> bool:
        """Whether it crosses the border of a delegate."""
        return self.source.delegate != self.target.delegate


@dataclass(frozen=True)
class Drawing:
    """Sizes in pixels; of each operator, in their order, the left upper corner."""

    width: int
    height: int
    corners: tuple[tuple[float, float], ...]
    edges: tuple[Edge, ...]


def drawing_of(operators: Sequence[Operator]) -> Drawing:
    """The drawing of a program's operators."""
    if not operators:
        return Drawing(0, 0, (), ())
    near, far = _links(operators)
    with redirect_stderr(StringIO()):  # it warns of how long 1000 operators may take
        plain = AGraph(_dot(len(operators), near)).draw(format="plain", prog="dot").decode()
    lines = [line.split() for line in plain.splitlines()]
    height = float(lines[0][3]) * INCH
    corners, edges = dict[int, tuple[float, float]](), []
    for kind, *words in lines:
        if kind == "node":
            x, y = (float(each) * INCH for each in words[1:3])
            corners[int(words[0])] = (round(x - WIDTH / 2 + MARGIN, 1), round(height - y - HEIGHT / 2 + MARGIN, 1))
        elif kind == "edge":
            source, target = (operators[int(each)] for each in words[:2])
            edges.append(Edge(source, target, _path(words[3 : 3 + 2 * int(words[2])], height)))
    edges += [Edge(operators[a], operators[b], _line(corners[a], corners[b])) for a, b in far]
    return Drawing(
        round(float(lines[0][2]) * INCH) + 2 * MARGIN,
        round(height) + 2 * MARGIN,
        tuple(corners[place] for place in range(len(operators))),
        tuple(edges),
    )


def _path(numbers: Sequence[str], height: float) -> str:
    """A spline of Graphviz: its first point, then three for each curve."""
    x = [f"{float(each) * INCH + MARGIN:.1f}" for each in numbers[::2]]
    y = [f"{height - float(each) * INCH + MARGIN:.1f}" for each in numbers[1::2]]
    points = [f"{a},{b}" for a, b in zip(x, y, strict=True)]
    return f"M{points[0]} C{' '.join(points[1:])}"


def _line(source: tuple[float, float], target: tuple[float, float]) -> str:
    """From under the one corner's operator to above the other's."""
    return f"M{source[0] + WIDTH / 2},{source[1] + HEIGHT} L{target[0] + WIDTH / 2},{target[1]}"


def _dot(count: int, links: Iterable[Link]) -> str:
    """Operators and links in Graphviz's language."""
    box = f"width={WIDTH / INCH:.4f} height={HEIGHT / INCH:.4f}"
    attributes = (
        f"graph [nodesep={GAP} ranksep={RANKS} {EFFORT}]",
        f'node [shape=box fixedsize=true label="" {box}]',
        "edge [arrowhead=none]",
    )
    edges = (f"{source} -> {target}" for source, target in links)
    return "\n".join(("digraph {", *attributes, *map(str, range(count)), *edges, "}"))


def _links(operators: Sequence[Operator]) -> tuple[list[Link], list[Link]]:
    """Places of an operator and of one that takes its result: those that are near, and those that are far apart.

    The nearest that takes a result is never far, so that no part of the drawing is loose.
    """
    ranks, users = _ranks(operators)
    nearest = {source: min(ranks[each] for each in targets) for source, targets in users.items()}
    links = [(source, each) for source, targets in users.items() for each in targets]
    more = [ranks[target] - ranks[source] for source, target in links if ranks[target] > nearest[source]]
    long = next((each for each in LONG if sum(span for span in more if span <= each) <= PLACES), LONG[-1])
    near = [(a, b) for a, b in links if ranks[b] <= max(nearest[a], ranks[a] + long)]
    known = set(near)
    return near, [link for link in links if link not in known]


def _ranks(operators: Sequence[Operator]) -> tuple[list[int], dict[int, list[int]]]:
    """How many operators stand before each, at most; and the places of those that take its result."""
    places, ranks, users = dict[str, int](), list[int](), dict[int, list[int]]()
    for place, one in enumerate(operators):
        sources = [places[name] for name in one.inputs if name in places]
        ranks.append(1 + max((ranks[each] for each in sources), default=-1))
        places[one.name] = place
        for each in sources:
            users.setdefault(each, []).append(place)
    return ranks, users
