"""Which nodes XNNPACK's partitioner tags: groups, options, other classes, what is not decomposed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from xnnpack_graphs import PRESERVE, WEIGHT, Q, coded, graph, partitioned, program, real, step
from xnnpack_partitioned import AT_RUN_TIME, CHAIN, DYNAMIC, FP32, LAYERS, STATIC, taken

from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir import to_edge_transform_and_lower
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import copy_program
from npu_assay.partitioners.xnnpack import (
    ConfigPrecisionType,
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackFloatingPointPartitioner,
    XnnpackPartitioner,
    XnnpackQuantizedPartitioner,
)
from npu_assay.partitioners.xnnpack.configs import LinearConfig, ReLUConfig

OPEN_PRODUCT = graph([real("x", 2, 4), real("w", 3, 4), real("b", 3)], [step("product", "linear", "x", "w", "b")])


# ------------------------------------------------------------------------------------------------ groups, tags


def test_one_delegate_by_default_and_one_per_operator_when_asked() -> None:
    """A relu behind a product of numbers belongs to it."""
    assert set(partitioned(LAYERS).steps.values()) == {"tag0"}
    found = partitioned(LAYERS, per_op_mode=True).steps
    assert found["two"] == found["last"] and len(set(found.values())) == 3


def test_tags_of_single_operators_are_numbered_in_graph_order() -> None:
    found = [tag_ for tag_ in partitioned(LAYERS, per_op_mode=True).steps.values() if tag_]
    numbers = [int(tag_.removeprefix("tag")) for tag_ in found]
    assert numbers == sorted(numbers)


def test_weights_and_biases_go_with_their_product() -> None:
    found = partitioned(LAYERS, per_op_mode=True)
    assert found.nodes["b_w1"] == found.nodes["b_b1"] == found.steps["one"]
    assert found.nodes["b_w2"] == found.nodes["b_b2"] == found.steps["two"]


def test_branches_share_a_delegate() -> None:
    """Groups merge whether they touch or not."""
    model = graph([real("x", 2, 3), real("y", 3)], [step("one", "relu", "x"), step("two", "abs", "y")], "one", "two")
    assert set(partitioned(model).steps.values()) == {"tag0"}
    assert len(set(partitioned(model, per_op_mode=True).steps.values())) == 2


def test_no_delegate_waits_for_itself() -> None:
    """abs -> erf (not supported) -> add, and abs -> add: two delegates, later operators first."""
    model = graph(
        [real("x", 2, 3)],
        [step("before", "abs", "x"), step("out", "erf", "before"), step("after", "add.Tensor", "before", "out")],
    )
    found = partitioned(model)
    assert found.steps == {"before": "tag1", "out": None, "after": "tag0"}
    assert found.codes == {"aten_erf_default": ["unsupported"]}


def test_a_pool_that_was_decomposed_is_refused_for_what_its_rules_say() -> None:
    class Pool(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.max_pool2d(x, 2, stride=3)

    partitioner = XnnpackPartitioner()
    exported = torch.export.export(Pool(), (torch.randn(1, 2, 9, 9),))
    to_edge_transform_and_lower(exported, partitioner=[partitioner])
    assert {(r.target, r.code) for r in partitioner.rejections} == {
        ("aten.max_pool2d_with_indices.default", "stride_within_kernel"),
        ("getitem", "stride_within_kernel"),
    }


def test_a_shared_dequantize_glues_its_readers() -> None:
    model = graph(
        [coded("x", 2, 3)],
        [
            step("mid", "relu", "x", quant=Q),
            step("one", "add.Tensor", "mid", "mid", quant=Q),
            step("two", "mul.Tensor", "one", "one", quant=Q),
        ],
    )
    whole, single = partitioned(model), partitioned(model, per_op_mode=True)
    assert set(whole.steps.values()) == {"tag0"}
    assert all(single.steps.values()) and len(set(single.steps.values())) == 3


def test_only_tags_change_and_they_are_the_same_again() -> None:
    made = program(LAYERS)
    before = copy_program(made)
    partitioner = XnnpackPartitioner()
    result = partitioner.partition(made)
    assert result.tagged_exported_program is made
    for old, new in zip(before.graph.nodes, made.graph.nodes, strict=True):
        assert (old.name, old.target, str(old.args), str(old.kwargs)) == (
            new.name, new.target, str(new.args), str(new.kwargs),
        )  # fmt: skip
        assert set(new.meta) - set(old.meta) <= {DELEGATION_TAG}
    assert partitioned(LAYERS).nodes == partitioned(LAYERS, partitioner).nodes


def test_reasons_are_those_of_the_last_program() -> None:
    partitioner = XnnpackPartitioner(configs=[ReLUConfig])
    partitioned(CHAIN, partitioner)
    assert [reason.node for reason in partitioner.rejections] == ["aten_abs_default"]
    partitioned(graph([real("x", 2)], [step("only", "relu", "x")]), partitioner)
    assert partitioner.rejections == []


def test_an_empty_program_has_no_delegates() -> None:
    found = partitioned(Graph((real("x", 2),), (), ()))
    assert (found.steps, found.nodes, found.rejections) == ({}, {}, ())


# ------------------------------------------------------------------------------------------------ further options


def test_weights_that_are_inputs() -> None:
    """Rejected unless the option is set; then they are inputs of the delegate."""
    (reason, *_) = partitioned(OPEN_PRODUCT).rejections
    assert reason.code == "static_weights"
    found = partitioned(OPEN_PRODUCT, force_non_static_weights_for_f32_linear=True)
    assert found.steps == {"product": "tag0"} and set(found.nodes) == {"aten_linear_default"}


def test_a_bias_goes_with_a_product_of_dequantized_weights() -> None:
    """The conversion of the weights stays outside, where only real numbers are asked for; with inputs all does."""
    weight, bias = coded("w", 3, 4, quant=WEIGHT, constant=True), real("b", 3, constant=True)
    model = graph([real("x", 2, 4), weight, bias], [step("product", "linear", "x", "w", "b")])
    assert partitioned(model, config_precisions=FP32).nodes == {"b_b": "tag0", "aten_linear_default": "tag0"}
    model = replace(OPEN_PRODUCT, values=(*OPEN_PRODUCT.values[:2], bias))
    found = partitioned(model, force_non_static_weights_for_f32_linear=True)
    assert found.nodes == {"aten_linear_default": "tag0"}


def test_weights_of_two_delegates_are_those_of_the_first() -> None:
    """Of the products of two delegates, with an operator between them that nobody takes, the later comes first."""
    values = [real("x", 2, 4), real("w", 4, 4, constant=True)]
    steps = [step("one", "linear", "x", "w"), step("out", "erf", "one"), step("two", "linear", "out", "w")]
    found = partitioned(graph(values, steps))
    assert found.steps == {"one": "tag1", "out": None, "two": "tag0"} and found.nodes["b_w"] == "tag1"


def test_a_relu_behind_a_product_of_numbers_goes_with_it_unasked() -> None:
    """Not behind one whose activations are quantized at run time."""
    relu = step("y", "relu", "product")
    numbers = replace(OPEN_PRODUCT, values=tuple(replace(v, constant=v.name != "x") for v in OPEN_PRODUCT.values))
    for model, expected in ((numbers, True), (AT_RUN_TIME, False)):
        found = taken(graph(model.values, [*model.steps, relu]), configs=[LinearConfig])
        assert found == {"product": True, "y": expected}


def test_the_option_leaves_quantised_products_alone() -> None:
    open_codes = graph(
        [coded("x", 2, 4), coded("w", 3, 4, quant=WEIGHT)],
        [step("product", "linear", "x", "w", quant=Q)],
    )
    assert taken(open_codes, force_non_static_weights_for_f32_linear=True) == {"product": False}


# ------------------------------------------------------------------------------------------------ other classes


@pytest.mark.parametrize(
    ("owner", "precision"),
    [
        (XnnpackFloatingPointPartitioner, FP32),
        (XnnpackQuantizedPartitioner, STATIC),
        (XnnpackDynamicallyQuantizedPartitioner, DYNAMIC),
    ],
)
def test_one_class_per_precision(owner: type[XnnpackPartitioner], precision: ConfigPrecisionType) -> None:
    assert owner().options.config_precisions == (precision,)
    assert owner(per_op_mode=True).options.per_op_mode
    assert partitioned(LAYERS, owner()).nodes == partitioned(LAYERS, config_precisions=precision).nodes
    for given in (precision, FP32, None):
        with pytest.raises(ValueError, match=rf"{owner.__name__} has config_precisions={precision}, it cannot be"):
            owner(config_precisions=given)


# ------------------------------------------------------------------------------------------------ not decomposed


def test_operators_that_are_kept_whole() -> None:
    """Those that the table preserves, and torchao's conversions where that package is loaded."""
    found, _ = XnnpackPartitioner().ops_to_not_decompose(program(CHAIN))
    names = {target_name(op) for op in found}
    assert set(PRESERVE) <= names
    assert all(name.startswith("torchao.") for name in names - set(PRESERVE))


def test_only_selected_operators_are_kept_whole() -> None:
    found, _ = XnnpackPartitioner(configs=[LinearConfig, ReLUConfig]).ops_to_not_decompose(program(CHAIN))
    assert found == [torch.ops.aten.linear.default]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (LAYERS, {"one": True, "middle": False, "two": True, "last": False}),
        (OPEN_PRODUCT, {"product": False}),
        (graph([real("x", 1, 2, 4, 4)], [step("pool", "max_pool2d", "x", [2, 2], [2, 2])]), {"pool": True}),
        (graph([real("x", 1, 2, 6, 6)], [step("pool", "max_pool2d", "x", [2, 2], [3, 3])]), {"pool": False}),
        (graph([real("x", 2, 3)], [step("elu", "elu", "x")]), {"elu": True}),
        (graph([real("x", 2, 3)], [step("elu", "elu", "x", 1.0, 2.0)]), {"elu": False}),
        (graph([real("x", 2, 3, dtype="float64")], [step("act", "hardswish", "x")]), {"act": False}),
    ],
)
def test_the_filter_keeps_nodes_that_can_be_delegated(model: Graph, expected: dict[str, bool]) -> None:
    made = program(model)
    _, keep = XnnpackPartitioner().ops_to_not_decompose(made)
    assert keep is not None
    calls = {node.meta["step"]: keep(node) for node in made.graph.nodes if node.op == "call_function"}
    assert calls == expected
    assert not any(keep(node) for node in made.graph.nodes if node.op != "call_function")
