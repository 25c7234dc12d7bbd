"""The reasons for which XNNPACK's partitioner leaves nodes out."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from torch import fx
from xnnpack_graphs import WEIGHT, Q, coded, graph, partitioned, real, step

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.programs.graph import Case, Quant, Step, Value
from npu_assay.conformance.run.tagging import prepare, tag
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.ops import edge_op, target_name
from npu_assay.partitioners.xnnpack import (
    backend,
)

TABLE = load_table("xnnpack@1.5")


# ------------------------------------------------------------------------------------------------ reasons


def _one_each(cases: Iterable[Case]) -> list[Case]:
    found = {(case.row, case.constraint): case for case in cases if case.expect == "reject"}
    return list({case.reason: case for case in found.values()}.values())


NORM = "aten._native_batch_norm_legit_no_training.default"
NORMALISED = "aten.conv2d.default/fp32/operator/context/batch_norm_after"
DYNAMIC_LINEAR = "aten.linear.default/dynamic_int8/operator/accept/baseline"


def _of_another(graph: fx.Graph, choose: fx.Node) -> None:
    """The scale and zero point are those of another tensor."""
    (x,) = choose.all_input_nodes
    with graph.inserting_before(choose):
        another = graph.call_function(edge_op("aten.abs.default"), (x,))
    another.meta = dict(x.meta)
    choose.replace_input_with(x, another)


def _chosen_apart(graph: fx.Graph, choose: fx.Node) -> None:
    """The zero point is chosen by another node than the scale."""
    zero_point = next(user for user in choose.users if user.args[1] == 1)
    with graph.inserting_before(zero_point):
        zero_point.replace_input_with(choose, graph.node_copy(choose))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_batch_norm_whose_statistics_somebody_takes_is_refused(index: int) -> None:
    case = next(each for each in cases_for(TABLE) if each.id == NORMALISED)
    made = prepare(case, backend, TABLE)
    norm = next(node for node in made.graph.nodes if target_name(node.target) == NORM)
    with made.graph.inserting_after(norm):
        result = made.graph.call_function(operator.getitem, (norm, index))
    result.meta["val"] = norm.meta["val"][index]
    refused = partitioned(made).codes.get(norm.name, [])
    assert ("first_result" in refused) == (index > 0)


def test_an_operator_that_no_config_has_is_told_from_a_conversion_without_a_product() -> None:
    found = partitioned(graph([real("x", 2, 3)], [step("y", "erf", "x")])).rejections
    assert [each.sentence for each in found] == ["the operator is not in the support table"]


def test_a_padding_is_part_of_a_convolution_alone() -> None:
    """A linear layer has no padding of its own."""
    values = [coded("x", 2, 3, 4), coded("w", 3, 6, quant=WEIGHT, constant=True)]
    steps = [step("padded", "constant_pad_nd", "x", [1, 1], 0.0), step("y", "linear", "padded", "w", quant=Q)]
    assert partitioned(graph(values, steps)).steps["y"] is None
    image = [coded("x", 1, 3, 4, 4), coded("w", 2, 3, 2, 2, quant=WEIGHT, constant=True)]
    convolution = step("y", "convolution", "padded", "w", None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, quant=Q)
    assert partitioned(graph(image, [steps[0], convolution])).steps["y"] is not None


SMALLEST_SCALE = Quant(1e-50, 0)
"""A scale that is 0 in float32."""


@pytest.mark.parametrize(
    ("values", "made"),
    [
        ([coded("x", 2, 3)], step("y", "add.Tensor", "x", "x", quant=SMALLEST_SCALE)),
        ([coded("x", 2, 4), coded("w", 3, 4, quant=WEIGHT, constant=True)], step("y", "linear", "x", "w")),
    ],
    ids=["sum", "product"],
)
def test_a_scale_of_zero_has_one_reason(values: list[Value], made: Step) -> None:
    """Ratios to it are not asked for, too."""
    reasons = partitioned(graph(values, [replace(made, quant=SMALLEST_SCALE)])).rejections
    assert [each.code for each in reasons if "linear" in each.node or "add" in each.node] == ["scalar_qparams"]


def _exchanged(graph: fx.Graph, choose: fx.Node) -> None:
    """The scale is taken for the zero point, and the zero point for the scale."""
    for user in list(choose.users):
        user.args = (choose, 1 - user.args[1])  # type: ignore[operator]  # a number


@pytest.mark.parametrize("change", [_chosen_apart, _exchanged, _of_another], ids=lambda each: each.__name__)
def test_parameters_from_run_time_are_both_those_of_the_codes(change: Callable[[fx.Graph, fx.Node], None]) -> None:
    case = next(each for each in cases_for(TABLE) if each.id == DYNAMIC_LINEAR)
    made = prepare(case, backend, TABLE)
    assert partitioned(made).steps[SUBJECT] is not None
    made = prepare(case, backend, TABLE)
    change(made.graph, next(node for node in made.graph.nodes if "choose_qparams" in target_name(node.target)))
    assert partitioned(made).steps[SUBJECT] is None


@pytest.mark.parametrize("case", _one_each(cases_for(TABLE)), ids=lambda case: case.id)
def test_reasons_have_the_tables_words_and_say_what_was_found(case: Case) -> None:
    row = TABLE.row(case.row)
    tagging = tag(case, backend, row, prepare(case, backend, TABLE))
    assert tagging.verdict == "reject" and tagging.reasons
    (reason,) = (reason for reason in tagging.reasons if reason.code == case.reason)
    pattern = re.escape(dict(TABLE.meanings)[reason.code]).replace(re.escape("{value}"), ".+") + "(: .+)?"
    assert re.fullmatch(pattern, reason.sentence), (pattern, reason.sentence)
    assert reason.found and reason.found != reason.sentence


def _channel_scales(scale: float) -> Quant:
    return Quant((0.01, scale, 0.01), 0, -127, axis=0)


TRANSPOSED = step("y", "convolution", "x", "w", None, [1, 1], [0, 0], [2, 2], True, [1, 1], 1)
OF_CODES = step("y", "linear", "x", "w", quant=Q)
FOUR_BITS = Quant((0.01,) * 6, 0, -8, 7, axis=0, group=32)


@pytest.mark.parametrize(
    ("values", "made", "code", "found"),
    [
        ([real("x", 2, 4), real("w", 4, constant=True)], step("y", "linear", "x", "w"), "rank", "weight of rank 1"),
        (
            [real("x", 1, 3, 4, 4), real("w", 3, 2, 2, 2, constant=True)],
            TRANSPOSED,
            "output_padding",
            "output padding 1x1, stride 1x1",
        ),
        (
            [coded("x", 2, 4), coded("w", 3, 4, quant=_channel_scales(1e-39), constant=True)],
            OF_CODES,
            "weight_scales",
            "scale 1.0000002153053333e-39",
        ),
        (
            [coded("x", 2, 64), coded("w", 3, 64, quant=FOUR_BITS, constant=True)],
            OF_CODES,
            "group_codes",
            "activations are quantized ahead of time",
        ),
        (
            [
                coded("x", 2, 64),
                coded("w", 3, 64, quant=replace(FOUR_BITS, group=64, scale=(0.01,) * 3), constant=True),
            ],
            OF_CODES,
            "group_codes",
            "activations are quantized ahead of time",
        ),
        (
            [real("x", 1, 3, 4), real("w", 3, 2, 2, constant=True)],
            replace(TRANSPOSED, args=(*TRANSPOSED.args[:3], (1,), (0,), (2,), True, (1,), 1)),
            "output_padding",
            "output padding 1, stride 1",
        ),
        (
            [coded("x", 2, 3), coded("w", 3, 3, quant=replace(_channel_scales(0.02), axis=1), constant=True)],
            OF_CODES,
            "weight_axis",
            "3 scales along axis 1",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) and " " not in each else "",
)
def test_a_product_is_refused_for_one_thing(values: list[Value], made: Step, code: str, found: str) -> None:
    rejections = partitioned(graph(values, [made])).rejections
    assert [(one.code, one.found) for one in rejections if "dequantize" not in one.node] == [(code, found)]


@pytest.mark.parametrize("computed", ["gain", "offset", "mean", "variance"])
def test_what_a_batch_norm_needs_is_constant(computed: str) -> None:
    values = [real(name, 3, constant=name != computed) for name in ("gain", "offset", "mean", "variance")]
    norm = step("y", "_native_batch_norm_legit_no_training", "x", "gain", "offset", "mean", "variance", 0.1, 1e-5)
    found = partitioned(graph([real("x", 1, 3, 4, 4), *values], [replace(norm, outputs=3)])).rejections
    norms = [(one.code, one.found) for one in found if "getitem" not in one.node]
    assert norms == [("static_weights", f"{computed} is computed")]
