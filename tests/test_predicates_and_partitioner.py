"""Predicates say what Neutron's partitioner does, on generated programs of limits that written cases only sample."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from npu_assay.conformance.cases.around import behind_conv
from npu_assay.conformance.cases.families.convolution.transposed import _transposed
from npu_assay.conformance.cases.families.padding import pad
from npu_assay.conformance.cases.make import SUBJECT, Call, model
from npu_assay.conformance.covering.looks import looked
from npu_assay.conformance.predicates.definitions import defined
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.neutron import NeutronPartitioner

TABLE = load_table("neutron@1.3")
SHAPES = ((8,), (5, 8), (2, 5, 8), (1, 8, 5, 6), (2, 8, 3, 5))
PLACES = (0, 1, 2)
DRAWN = 60
Program = tuple[str, Graph]


def padded() -> Iterator[Program]:
    """One or two dimensions padded on one side or both, of every rank; images also behind a convolution."""
    for shape in SHAPES:
        choices = itertools.product(PLACES, repeat=2)
        for (before, after), dim in itertools.product(choices, range(len(shape))):
            sides = [0] * (2 * len(shape))
            sides[2 * dim : 2 * dim + 2] = (before, after)
            yield f"{shape}_{sides}", model(pad(shape, tuple(sides)))
            if len(shape) == 4 and shape[0] == 1:
                yield f"behind_{shape}_{sides}", model(pad(shape, tuple(sides)), behind_conv)


def transposed() -> Iterator[Program]:
    """Kernels, strides and paddings that fit each other or nearly do, and one or two other arguments."""
    kernels = ((1, 1), (1, 2), (1, 3), (1, 4), (1, 6), (1, 8), (2, 2), (2, 4))
    strides, paddings = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 2)), ((0, 0), (0, 1), (0, 3), (0, 4), (1, 0))
    others: tuple[dict[str, object], ...] = (
        {},
        {"dilation": (2, 1)},
        {"dilation": (1, 2)},
        {"output_padding": (0, 1)},
        {"groups": 2},
        {"cin": 7},
    )
    for kernel, stride, padding, height, other in itertools.product(kernels, strides, paddings, (1, 3), others):
        given = {"cin": 8, "cout": 16, "kernel": kernel, "stride": stride, "padding": padding, "size": (height, 8)}
        yield f"{given | other}", model(_call(**given | other))


def _call(**given: object) -> Call:
    return _transposed(**given)  # type: ignore[arg-type]  # whatever a program is generated with


def differs(name: str, row: str, code: str, graph: Graph) -> str | None:
    """How predicate and partitioner disagree on one program; None where they agree, or torch refuses it."""
    case = Case(name, row, code, "accept", "accept", None, graph, SUBJECT)
    try:
        look, program = looked(case, defined(TABLE, TABLE.row(row), None)), build(graph)
    except (EdgeError, RuntimeError):
        return None
    if look is None or look.truths.get(code) is None:
        return None
    partitioner = NeutronPartitioner()
    partitioner.partition(program)
    codes = {one.code for one in partitioner.rejections}
    if "static_shape" in codes:  # a result without elements, of which no other rule is asked
        return None
    refused = code in codes
    return f"{name}: predicate {look.truths[code]}, partitioner {not refused}" if look.truths[code] is refused else None


CODES = {
    "channel_and_batch_padding": ("aten.constant_pad_nd.default", padded),
    "transposed": ("aten.convolution.default", transposed),
}


@pytest.mark.parametrize("code", CODES)
def test_no_program_differs(code: str, pytestconfig: pytest.Config) -> None:
    row, programs = CODES[code]
    asked = list(programs())
    if not pytestconfig.option.whole:
        asked = random.Random(pytestconfig.option.seed or 0).sample(asked, DRAWN)
    found = (differs(name, row, code, graph) for name, graph in asked)
    assert [text for text in found if text is not None] == []
