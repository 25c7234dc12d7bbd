"""Which inputs count for an element of an output, against changing every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.judge.influence import Influence
from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.programs.build import materialise
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step, Value
from npu_assay.conformance.record.results import rounded
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

X = Value("x", (1, 4, 6, 5), None, Fill(seed=1))
W = Value("w", (6, 2, 3, 1), None, Fill(seed=2), constant=True)
B = Value("b", (6,), None, Fill(seed=3), constant=True)


def program(op: str, *rest: object, values: tuple[Value, ...] = (X,)) -> Graph:
    return Graph(values, (Step("y", op, (Ref("x"), *rest)),), (Ref("y"),))


GROUPED = program(
    "aten.convolution.default", Ref("w"), Ref("b"), (2, 1), (1, 0), (2, 1), False, (0, 0), 2, values=(X, W, B)
)
ROWS = (Value("x", (3, 4), None, Fill(seed=4)), Value("w", (4, 5), None, Fill(seed=5)))
Compute = Callable[..., Tensor]
PROGRAMS: dict[str, tuple[Graph, Compute]] = {
    "convolution": (GROUPED, lambda x, w, b: torch.conv2d(x, w, b, (2, 1), (1, 0), (2, 1), 2)),
    "product": (program("aten.mm.default", Ref("w"), values=ROWS), torch.mm),
    "mean": (program("aten.mean.dim", (2,), True), lambda x: x.mean(2, keepdim=True)),
    "maximum": (program("aten.amax.default", (1,), False), lambda x: x.amax(1)),
    "turned": (program("aten.permute.default", (0, 3, 1, 2)), lambda x: x.permute(0, 3, 1, 2)),
    "softmax": (program("aten._softmax.default", 3, False), lambda x: x.softmax(3)),
}


def changing(numbers: list[Tensor], at: int, compute: Compute, index: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Indices of the argument whose element changes the output's element when it alone is changed a little."""
    right = compute(*numbers)[index]
    for flat in range(numbers[at].numel()):
        other = [each.clone() for each in numbers]
        other[at].view(-1)[flat] += 2.0**-6
        if compute(*other)[index] != right:
            yield tuple(int(place) for place in torch.unravel_index(torch.tensor(flat), numbers[at].shape))


def box(places: list[tuple[int, ...]], shape: tuple[int, ...]) -> str:
    """As a slice."""
    told = []
    for each, size in zip(zip(*places, strict=True), shape, strict=True):
        low, high = min(each), max(each) + 1
        told.append(str(low) if high == low + 1 else ":" if (low, high) == (0, size) else f"{low}:{high}")
    return f"[{', '.join(told)}]"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_box_holds_what_changes_the_element(name: str) -> None:
    graph, compute = PROGRAMS[name]
    numbers = [materialise(value).to(torch.float64) for value in graph.values]
    output = compute(*numbers)
    influence = Influence(graph)
    for index in [(0,) * output.dim(), tuple(size - 1 for size in output.shape), tuple(n // 2 for n in output.shape)]:
        found = dict(influence.on(0, index))
        for at, value in enumerate(graph.values):
            places = [*changing(numbers, at, compute, index)]
            if len(places) == 1:
                assert found[value.name] == rounded(float(numbers[at][places[0]]))
            else:
                assert found[value.name] == box(places, value.shape), (index, value.name)


def test_what_has_no_gradient_is_left_out() -> None:
    assert dict(Influence(program("aten.argmax.default", 1)).on(0, (0, 1, 1))) == {}


@pytest.mark.parametrize(("table", "most"), [("neutron@1.3", 1), ("xnnpack@1.5", 6), ("ethos_u85@1.5", 64)])
def test_nearly_every_row_of_floats_can_be_asked(table: str, most: int) -> None:
    """Whatever the quantization. Without an answer: whole numbers, what is rounded, and elements that are clamped."""
    silent = set()
    for case in all_cases(load_table(table)):
        if case.id.endswith("/accept/baseline"):
            dims = len(shape_of(case.graph))
            silent |= set() if dict(Influence(case.graph).on(0, (0,) * dims)) else {case.row}
    assert len(silent) <= most, sorted(silent)


def shape_of(graph: Graph) -> tuple[int, ...]:
    return tuple(golden(graph).walk(None, False).bounded[0].value.shape)
