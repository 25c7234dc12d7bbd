"""Limits that vendors' documents state have programs on both sides, which is read off the programs here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.boundaries.asked import asked
from npu_assay.conformance.cases.families.convolution.integers import Convolution
from npu_assay.conformance.cases.make import SUBJECT, model
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.programs.graph import Case, Graph, Step, Value
from npu_assay.conformance.table import Table, load_table
from npu_assay.reference.golden.aten import parameters

TABLE = """schema = 2
name = "acme"
version = "1.0"
backend_id = "AcmeBackend"
source = "a document"
rescale = ""

[parameters]

[common]
constraints = ["quantized @document", "static_shape @document"]

[constraints]
quantized = "the operator must stand between dequantize and quantize nodes"
static_shape = "every dimension must be a known number, at least 1"
asked = {{ says = "as asked", holds = "{holds}" }}

[operators]
"aten.{op}" = {{ document = "", precisions = ["int8"], constraints = ["asked @document"] }}
"""


def subject(graph: Graph) -> Step:
    return next(step for step in graph.steps if step.name == SUBJECT)


def value(graph: Graph, name: str) -> Value:
    return next(value for value in graph.values if value.name == name)


def arguments(graph: Graph) -> Mapping[str, Any]:
    """What the program gives, by name; what it leaves out is not there."""
    step = subject(graph)
    names = [name for name, _, _ in parameters(step.op)]
    return dict(zip(names, step.args, strict=False)) | dict(step.kwargs)


def in_channels(graph: Graph) -> int:
    """As its weight and groups say; the input may come from another operator."""
    shape, given = weight(graph).shape, arguments(graph)
    return shape[0] if given["transposed"] else shape[1] * int(given["groups"])


def weight(graph: Graph) -> Value:
    return value(graph, arguments(graph)["weight"].name)


def clamped_to(graph: Graph) -> float:
    """How far apart the bounds of a clamp are."""
    low, high = (arguments(graph).get(end) for end in ("min", "max"))
    return math.inf if low is None or high is None else high - low


def operand_shapes(graph: Graph) -> list[tuple[int, ...]]:
    """Of both operands; of none where another operator makes one of them."""
    names = {v.name: v.shape for v in graph.values}
    refs = [ref for ref in subject(graph).args[:2] if hasattr(ref, "name")]
    return [names[ref.name] for ref in refs] if all(ref.name in names for ref in refs) else []


def moved(graph: Graph) -> int:
    """The numbers of two operands, and of their sum."""
    x, y = (torch.empty(shape) for shape in operand_shapes(graph))
    return x.numel() + y.numel() + (x + y).numel()


def seen_shapes(graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a view takes, and makes."""
    shape = graph.values[0].shape
    return shape, tuple(torch.empty(shape).reshape(arguments(graph)["size"]).shape)


def input_scale(graph: Graph) -> float:
    quant = graph.values[0].quant
    assert quant is not None and isinstance(quant.scale, float)
    return quant.scale


def made_shape(graph: Graph) -> tuple[int, ...]:
    """Of an operator that copies parts of its first operand, by torch."""
    first, given = subject(graph).args[0], subject(graph)
    known = {v.name: torch.zeros(v.shape) for v in graph.values}
    if first.name not in known:
        return ()
    _, name, overload = given.op.split(".")
    op = getattr(getattr(torch.ops.aten, name), overload)
    return tuple(op(known[first.name], *given.args[1:], **dict(given.kwargs)).shape)


def resized_height(graph: Graph) -> int:
    given, height = arguments(graph), graph.values[0].shape[2]
    return given["output_size"][0] if given.get("output_size") else int(height * given["scale_factors"][0])


ASKED: dict[str, tuple[str, str, Callable[[Graph], bool]]] = {
    "depthwise or one group": (
        "convolution.default", "groups in (1, in_channels)",
        lambda g: arguments(g)["groups"] in (1, in_channels(g)),
    ),
    "both sizes of a matrix": (
        "linear.default", "weight.shape[0] % 16 == 0 and weight.shape[1] % 16 == 0",
        lambda g: all(size % 16 == 0 for size in weight(g).shape),
    ),
    "how many tensors": ("cat.default", "len(tensors) <= 4", lambda g: len(arguments(g)["tensors"]) <= 4),
    "how many dimensions": ("mean.dim", "len(dim) == 1", lambda g: len(arguments(g)["dim"]) == 1),
    "an argument that is left out": (
        "avg_pool2d.default", "'divisor_override' not in given",
        lambda g: arguments(g).get("divisor_override") is None,
    ),
    "bounds": (
        "clamp.default", "bounds == (0, 6)",
        lambda g: (arguments(g).get("min"), arguments(g).get("max")) == (0, 6),
    ),
    "a zero point": (
        "linear.default", "weight.zero_point == 0",
        lambda g: (quant := weight(g).quant) is None or quant.zero_point == 0,
    ),
    "windows of volumes": (
        "avg_pool3d.default", "kernel_d * kernel_h * kernel_w <= 30",
        lambda g: math.prod(arguments(g)["kernel_size"]) <= 30,
    ),
    "a text": (
        "div.Tensor_mode", "rounding_mode == 'floor'", lambda g: arguments(g)["rounding_mode"] == "floor",
    ),
    "a text that has a default": (
        "gelu.default", "approximate == 'tanh'", lambda g: arguments(g).get("approximate", "none") == "tanh",
    ),
    "a real number": (
        "leaky_relu.default", "0 < negative_slope < 1", lambda g: 0 < arguments(g).get("negative_slope", 0.01) < 1,
    ),
    "a number that is left out": (
        "var.correction", "correction is None or correction in (1, 2)",
        lambda g: arguments(g).get("correction") in (None, 1, 2),
    ),
    "how many dimensions are normalized": (
        "native_layer_norm.default", "len(normalized_shape) == 1 and normalized_shape[0] <= 32",
        lambda g: len(arguments(g)["normalized_shape"]) == 1 and arguments(g)["normalized_shape"][0] <= 32,
    ),
    "pieces": (
        "split_with_sizes_copy.default", "len(split_sizes) <= 3 and split_sizes[0] % 2 == 0",
        lambda g: len(arguments(g)["split_sizes"]) <= 3 and arguments(g)["split_sizes"][0] % 2 == 0,
    ),
    "sizes of a view": (
        "view_copy.default", "x.rank == 1 or out.shape[-1] == x.shape[-1]",
        lambda g: len(seen_shapes(g)[0]) == 1 or seen_shapes(g)[0][-1] == seen_shapes(g)[1][-1],
    ),
    "a whole factor": (
        "upsample_nearest2d.vec", "out.shape[2] % x.shape[2] == 0",
        lambda g: resized_height(g) % g.values[0].shape[2] == 0,
    ),
    "a part that guards another": (
        "clamp.default", "min is not None and max is not None and bounds[1] - bounds[0] <= 6",
        lambda g: clamped_to(g) <= 6,
    ),
    "two sizes that are the same number": (
        "convolution.default", "x.rank != 4 or kernel_h == kernel_w == 3",
        lambda g: len(weight(g).shape) != 4 or weight(g).shape[2:] == (3, 3),
    ),
    "scales of channels": (
        "linear.default", "weight.is_per_channel",
        lambda g: (quant := weight(g).quant) is not None and isinstance(quant.scale, tuple),
    ),
    "rows of the same length": (
        "maximum.default", "x.shape[-1] == y.shape[-1]",
        lambda g: len({shape[-1:] for shape in operand_shapes(g)}) < 2,
    ),
    "the same sizes, or one number": (
        "sub.Tensor", "x.shape == y.shape or y.elements == 1",
        lambda g: len({*operand_shapes(g)}) < 2 or math.prod(operand_shapes(g)[-1]) == 1,
    ),
}  # fmt: skip


def cases(name: str, folder: Path) -> list[Case]:
    op, holds, _ = ASKED[name]
    return generated(op, holds, folder)


def generated(op: str, holds: str, folder: Path, precision: str = "int8", without: tuple[str, ...] = ()) -> list[Case]:
    """The cases of a table with this predicate. without: what else of the table goes."""
    path, text = folder / "acme@1.0.toml", TABLE.format(op=op, holds=holds).replace('"int8"', f'"{precision}"')
    for part in without:
        text = text.replace(part, "")
    path.write_text(text)
    table: Table = load_table(str(path))
    return list(cases_for(table))


@pytest.mark.long
@pytest.mark.parametrize("name", ASKED)
def test_both_sides_of_what_a_document_states(name: str, tmp_path: Path) -> None:
    holds = ASKED[name][2]
    found = cases(name, tmp_path)
    accepted = [case for case in found if case.expect == "accept"]
    refused = [case for case in found if case.expect == "reject" and case.reason == "asked"]
    assert accepted and refused
    assert [case.id for case in accepted if not holds(case.graph)] == []
    assert [case.id for case in refused if holds(case.graph)] == []


TOLD: dict[str, tuple[str, str, str, Callable[[Graph], bool]]] = {
    "a member of a list that takes two changes": (
        "pixel_shuffle.default", "upscale_factor in (2, 3)", "accept", lambda g: arguments(g)["upscale_factor"] == 3,
    ),
    "a number above a list": (
        "select_copy.int", "index in (0, 1)", "reject", lambda g: arguments(g)["index"] == 2,
    ),
    "a list of which one item is as asked, and another is not": (
        "flip.default", "all(d == x.rank - 1 for d in dims)", "reject",
        lambda g: {dim == len(g.values[0].shape) - 1 for dim in arguments(g)["dims"]} == {True, False},
    ),
    "an empty list of dimensions": (
        "sum.dim_IntList", "len(dim) == 1 and dim[0] >= x.rank - 2", "reject", lambda g: arguments(g)["dim"] == (),
    ),
    "an empty list of pads": (
        "constant_pad_nd.default", "len(pad) == 2 and pad[0] <= 3", "reject", lambda g: arguments(g)["pad"] == (),
    ),
    "what both sides of a padding break": (
        "avg_pool2d.default", "count_include_pad or padding_h + padding_w == 0", "reject",
        lambda g: arguments(g)["padding"] == (1, 1),
    ),
    "a sum that is as large as its limit": (
        "minimum.default", "x.elements + y.elements + out.elements <= 1000", "accept",
        lambda g: moved(g) == 1000,
    ),
    "a product that is as large as its limit": (
        "avg_pool3d.default", "kernel_d * kernel_h * kernel_w <= 27", "accept",
        lambda g: math.prod(arguments(g)["kernel_size"]) == 27,
    ),
    "two sizes that are the same larger number": (
        "max_pool2d.default", "kernel_h == kernel_w == 3", "reject",
        lambda g: set(arguments(g)["kernel_size"]) == {4},
    ),
    "a number that is not only another than a limit": (
        "leaky_relu.default", "0 < negative_slope", "reject", lambda g: arguments(g)["negative_slope"] < 0,
    ),
    "a whole number above a list of real ones": (
        "pow.Tensor_Scalar", "exponent in (2, 3)", "reject", lambda g: arguments(g)["exponent"] == 4,
    ),
    "a constant that has one scale": (
        "linear.default", "weight.is_per_channel", "reject",
        lambda g: weight(g).constant and not isinstance(getattr(weight(g).quant, "scale", None), tuple),
    ),
    "what is within a limit when two things are": (
        "transpose_copy.int", "min(dim0, dim1) >= x.rank - 2", "accept",
        lambda g: min(arguments(g)["dim0"], arguments(g)["dim1"]) == len(g.values[0].shape) - 1,
    ),
    "one of two operands that is larger": (
        "mul.Tensor", "y.elements <= 16 or not y.is_constant", "reject",
        lambda g: math.prod(operand_shapes(g)[0]) <= 16 < math.prod(operand_shapes(g)[1]),
    ),
    "a multiple that is not one of twice as much": (
        "linear.default", "x.shape[-1] < 8 or x.shape[-1] % 4 == 0", "accept",
        lambda g: weight(g).shape[-1] > 8 and weight(g).shape[-1] % 8 == 4,
    ),
    "a scale as small as its limit": (
        "sqrt.default", "x.scale >= 0.001", "accept", lambda g: abs(input_scale(g) / 0.001 - 1) < 1e-6,
    ),
    "a scale a little smaller": (
        "sqrt.default", "x.scale >= 0.001", "reject", lambda g: 0.0009 < input_scale(g) < 0.00099,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_programs_that_tell_small_changes_of_a_rule(name: str, tmp_path: Path) -> None:
    """Each was missing, and let a wrong rule of `benchmarks/strangers_table.py` live."""
    op, holds, expect, is_it = TOLD[name]
    found = [case for case in generated(op, holds, tmp_path) if case.constraint == "asked" and case.expect == expect]
    assert [case.id for case in found if is_it(case.graph)]


def test_groups_of_a_weight_have_another_size(tmp_path: Path) -> None:
    common = '"quantized @document", ', 'quantized = "the operator must stand between dequantize and quantize nodes"\n'
    found = generated("linear.default", "weight.group == 32", tmp_path, "dynamic_int4", without=common)
    groups = {(case.expect, quant.group) for case in found if (quant := weight(case.graph).quant) is not None}
    assert groups >= {("accept", 32), ("reject", 16), ("reject", 64)}


@pytest.mark.long
def test_programs_stay_in_the_precision_that_a_limit_is_for(tmp_path: Path) -> None:
    """Codes of 8 bits were among the rejected ones of a limit for 16 bits, which those of 8 bits do not have."""
    found = generated("minimum.default", "x.bytes + y.bytes + out.bytes <= 1000", tmp_path, "int16")
    kinds = {v.quant.dtype for case in found if case.constraint == "asked" for v in case.graph.values if v.quant}
    assert kinds == {"int16"}


@pytest.mark.long
def test_a_limit_on_bytes_is_not_looked_for_at_a_dtype_of_1(tmp_path: Path) -> None:
    """It was a KeyError: dtypes move bytes as sizes do, and every size was set to 1."""
    found = generated("minimum.default", "x.bytes + y.bytes + out.bytes <= 1000", tmp_path, "int16")
    refused = [case.graph for case in found if case.reason == "asked"]
    assert {value(graph, "x").shape for graph in refused} >= {(167, 1, 1, 1)}


@pytest.mark.parametrize(
    ("op", "holds"), [("slice_copy.Tensor", "start % 2 == 0"), ("repeat.default", "repeats[0] != 2")]
)
def test_no_accepted_case_is_without_elements_where_the_table_asks_for_some(
    op: str, holds: str, tmp_path: Path
) -> None:
    """They were: a start of 2 of two rows, and no repetition, kept the limit, and broke static_shape."""
    found = [case for case in generated(op, holds, tmp_path) if case.expect == "accept"]
    assert found and [case.id for case in found if 0 in made_shape(case.graph)] == []


@pytest.mark.long
def test_depthwise_is_one_of_the_accepted_convolutions(tmp_path: Path) -> None:
    found = [case.graph for case in cases("depthwise or one group", tmp_path) if case.expect == "accept"]
    assert any(arguments(graph)["groups"] == in_channels(graph) > 1 for graph in found)


def test_a_convolution_of_a_vector_has_no_groups(tmp_path: Path) -> None:
    """It was an IndexError, where a limit on groups made the search turn the rank as well."""
    graph = next(case.graph for case in cases("depthwise or one group", tmp_path) if case.expect == "accept")
    values = tuple(replace(v, shape=v.shape[1:2]) if v.name == "x" else v for v in graph.values)
    vector = replace(graph, values=values)
    knobs = asked(graph, frozenset({"groups"}), [1])
    assert [knob.turn(vector, "depthwise") for knob in knobs if knob.name == "groups_of_channels"] == [None]


def test_a_transposed_convolution_of_a_vector_is_no_program(tmp_path: Path) -> None:
    """It was an error of the suite's own, wherever a limit made the search turn the rank of a transposed one."""
    graph = next(case.graph for case in cases("depthwise or one group", tmp_path) if case.expect == "accept")
    args = subject(graph).args
    step = replace(subject(graph), args=(*args[:6], True, *args[7:]))
    values = tuple(replace(v, shape=v.shape[1:2]) if v.name == "x" else v for v in graph.values)
    with pytest.raises(NoProgram):
        application(replace(graph, values=values, steps=(step,)), step.name)


@pytest.mark.parametrize("left_out", range(9))
def test_a_convolution_without_an_argument_is_no_program(left_out: int) -> None:
    """A search leaves out whatever it may: torch refuses most, but for a bias, and takes None for no transposed one."""
    graph = model(Convolution((1, 4, 8, 8), (4, 4), 1).call())
    assert application(graph, SUBJECT).results[0].rank == 4
    steps = tuple(
        replace(step, args=(*step.args[:left_out], None, *step.args[left_out + 1 :])) if step.name == SUBJECT else step
        for step in graph.steps
    )
    if left_out in (2, 6):
        assert application(replace(graph, steps=steps), SUBJECT).results[0].rank == 4
    else:
        with pytest.raises(NoProgram):
            application(replace(graph, steps=steps), SUBJECT)
