"""`explain.html`: every operator and every edge is drawn, nothing overlaps, no text of a model is markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import combinations

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

from pages import HOSTILE, explanation, hostile
from quantizing import QUANTIZES

from npu_assay.conformance.explain.page import page
from npu_assay.conformance.explain.page.drawing import HEIGHT, LONG, WIDTH, drawing_of
from npu_assay.conformance.explain.record import Explanation, Operator, nothing

pytestmark = QUANTIZES


def program(*inputs: tuple[int, ...]) -> list[Operator]:
    """Operators by the places of those whose results they take."""
    return [
        Operator(f"n{n}", "aten.add.Tensor", "", "", "", "", tuple(f"n{i}" for i in own), (1,), "int8", 0, 0, None, ())
        for n, own in enumerate(inputs)
    ]


CHAIN = program((), *((n,) for n in range(60)))
DENSE = program((), *(tuple(range(n)) for n in range(1, 80)))
SKIPS = program((), *((n, 0) for n in range(60)))
LOOSE = program(*[()] * 5, (0, 4))


@pytest.mark.parametrize("operators", [CHAIN, DENSE, SKIPS, LOOSE], ids=["chain", "dense", "skips", "loose"])
def test_a_drawing_has_everything_once_and_nothing_overlaps(operators: list[Operator]) -> None:
    drawing = drawing_of(operators)
    assert len(drawing.corners) == len(operators)
    wanted = sorted((name, one.name) for one in operators for name in one.inputs)
    assert sorted((edge.source.name, edge.target.name) for edge in drawing.edges) == wanted
    for (a, b), (c, d) in combinations(drawing.corners, 2):
        assert abs(a - c) >= WIDTH or abs(b - d) >= HEIGHT
    for x, y in drawing.corners:
        assert 0 <= x <= drawing.width - WIDTH and 0 <= y <= drawing.height - HEIGHT


@pytest.mark.parametrize("operators", [CHAIN, DENSE, SKIPS], ids=["chain", "dense", "skips"])
def test_edges_run_downwards_from_one_box_to_the_other(operators: list[Operator]) -> None:
    drawing = drawing_of(operators)
    corners = dict(zip((one.name for one in operators), drawing.corners, strict=True))
    for edge in drawing.edges:
        numbers = [float(each) for each in re.findall(r"-?[\d.]+", edge.path)]
        source, target = corners[edge.source.name], corners[edge.target.name]
        assert source[1] < target[1]
        assert on_the_rim(numbers[0] - source[0], numbers[1] - source[1])
        assert on_the_rim(numbers[-2] - target[0], numbers[-1] - target[1])


def on_the_rim(x: float, y: float) -> bool:
    """Whether a point from a box's corner lies on that box, and not in it."""
    within = -1 <= x <= WIDTH + 1 and -1 <= y <= HEIGHT + 1
    return within and not (1 < x < WIDTH - 1 and 1 < y < HEIGHT - 1)


def test_edges_that_would_take_long_to_lay_out_are_straight() -> None:
    """Dot gives an edge a place in every rank that it passes: where each operator takes all before it, for minutes."""
    straight = [edge for edge in drawing_of(DENSE).edges if " L" in edge.path]
    assert len(straight) > len(DENSE)
    assert not [edge for edge in drawing_of(SKIPS).edges if " L" in edge.path and int(edge.target.name[1:]) < LONG[0]]


def test_a_drawing_is_always_the_same() -> None:
    assert drawing_of(DENSE) == drawing_of(DENSE)


class Elements(HTMLParser):
    """The elements of a page, and the text of those that hold scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.scripts.append(data)


def parsed(text: str) -> Elements:
    elements = Elements()
    elements.feed(text)
    return elements


def test_every_operator_is_in_the_graph_and_in_the_tree() -> None:
    elements = parsed(page(explanation()))
    wanted = [str(n) for one in explanation().backends for n in range(len(one.operators))]
    for tag in ("g", "li"):
        assert sorted(a["data-place"] or "" for t, a in elements.found if t == tag and "data-place" in a) == sorted(
            wanted
        )
    taken = sum("taken" in (a.get("class") or "") for tag, a in elements.found if tag == "g")
    assert taken == sum(len(one.taken) for one in explanation().backends)
    crossing = sum(a.get("class") == "crosses" for tag, a in elements.found if tag == "path")
    assert (
        crossing == sum(edge.crosses for one in explanation().backends for edge in drawing_of(one.operators).edges) > 0
    )


def test_dots_are_the_other_backends_that_take_it() -> None:
    """The two programs have the same operators but for names, so a dot is where the other one has a delegate."""
    first, second = explanation().backends
    pairs = {(one.module, one.operator): one for one in second.operators}
    shared = [(one, pairs[one.module, one.operator]) for one in first.operators if (one.module, one.operator) in pairs]
    wanted = sum((one.delegate is not None) + (two.delegate is not None) for one, two in shared)
    names = {(one.module, one.operator) for one in first.operators}
    assert len(names) == len(first.operators) and len(pairs) == len(second.operators)
    circles = [a for tag, a in parsed(page(explanation())).found if tag == "circle"]
    assert len(circles) == wanted > len(shared) > 0


def test_the_page_holds_the_explanation() -> None:
    data = parsed(page(explanation())).scripts[0]
    assert Explanation.from_json(json.loads(data)) == explanation()


def test_no_text_of_a_model_is_markup() -> None:
    text = page(hostile())
    elements = parsed(text)
    assert [tag for tag, _ in elements.found if tag in ("script", "img")] == ["script", "script"]
    assert not {"\x00", "\x1b"} & set(text) and HOSTILE not in text
    assert json.loads(elements.scripts[0])["model"] == HOSTILE


def test_nothing_is_loaded() -> None:
    elements = parsed(page(explanation()))
    asked = [a[key] for _, a in elements.found for key in ("src", "href", "action", "srcset") if key in a]
    assert not [each for each in asked if not str(each).startswith("#")]
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'") and "http" not in policy
    assert "url(" not in page(explanation()) and "@import" not in page(explanation())


def test_a_backend_without_operators() -> None:
    text = page(Explanation("m", (nothing("npu", "ValueError: no"),)))
    assert "ValueError: no" in text and "<svg" not in text
