"""The XNNPACK partitioner as a whole: its arguments, groups, partitions, tags, and the reasons that it gives."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import fx
from xnnpack_graphs import OTHER, PRESERVE, WEIGHT, Q, coded, graph, partitioned, program, real, step

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.programs.graph import Case, Graph, Quant, Step, Value
from npu_assay.conformance.run.tagging import prepare, tag
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import to_edge_transform_and_lower
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import edge_op, target_name
from npu_assay.partitioners.exir.program import copy_program
from npu_assay.partitioners.xnnpack import (
    ConfigPrecisionType,
    XnnpackDynamicallyQuantizedPartitioner,
    XnnpackFloatingPointPartitioner,
    XnnpackPartitioner,
    XnnpackQuantizedPartitioner,
    backend,
)
from npu_assay.partitioners.xnnpack import configs as configurations
from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.configs import ALL_CONFIGS, AbsConfig, LinearConfig, ReLUConfig
from npu_assay.partitioners.xnnpack.partitioner import OPTIONS, by_target

FP32, STATIC, DYNAMIC = ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT, ConfigPrecisionType.DYNAMIC_QUANT
TABLE = load_table("xnnpack@1.5")

CHAIN = graph([real("x", 2, 3)], [step("first", "abs", "x"), step("second", "relu", "first")])
LAYERS = graph(
    [
        real("x", 2, 4),
        *(real(f"w{i}", 4, 4, constant=True) for i in (1, 2)),
        *(real(f"b{i}", 4, constant=True) for i in (1, 2)),
    ],
    [
        step("one", "linear", "x", "w1", "b1"),
        step("middle", "sigmoid", "one"),
        step("two", "linear", "middle", "w2", "b2"),
        step("last", "relu", "two"),
    ],
)
SUM = graph([coded("x", 2, 3)], [step("sum", "add.Tensor", "x", "x", quant=OTHER)])
PRODUCT = graph(
    [coded("x", 2, 4), coded("w", 3, 4, quant=WEIGHT, constant=True)],
    [step("product", "linear", "x", "w", quant=Q)],
)
AT_RUN_TIME = graph(
    [real("x", 2, 4), coded("w", 3, 4, quant=Quant((0.01,) * 3, 0, -127, axis=0), constant=True)],
    [step("product", "linear", "x", "w", dynamic="per_token")],
)
OPEN_PRODUCT = graph([real("x", 2, 4), real("w", 3, 4), real("b", 3)], [step("product", "linear", "x", "w", "b")])


def taken(model: Graph, **options: Any) -> dict[str, bool]:
    """Which steps are delegated."""
    return {name: found is not None for name, found in partitioned(model, **options).steps.items()}


# ------------------------------------------------------------------------------------------------ arguments


def test_defaults() -> None:
    partitioner = XnnpackPartitioner()
    assert (partitioner.delegation_spec.backend_id, partitioner.delegation_spec.compile_specs) == ("XnnpackBackend", [])
    assert {type(config) for config in partitioner.configs.values()} == set(ALL_CONFIGS)
    assert partitioner.rejections == []
    assert vars(partitioner.options) == {
        "config_precisions": (),
        "per_op_mode": False,
        "verbose": False,
        "force_non_static_weights_for_f32_linear": False,
        "enable_bf16": False,
    }


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([ReLUConfig], [False, True]),
        ((AbsConfig,), [True, False]),
        ([ReLUConfig, AbsConfig], [True, True]),
        ([LinearConfig], [False, False]),
        ([], [True, True]),
        (None, [True, True]),
    ],
)
def test_configs_select_operators(configs: Any, expected: list[bool]) -> None:
    assert list(taken(CHAIN, configs=configs).values()) == expected


def test_what_is_not_selected_has_a_reason() -> None:
    (reason,) = partitioned(CHAIN, configs=[ReLUConfig]).rejections
    assert (reason.node, reason.target, reason.code) == ("aten_abs_default", "aten.abs.default", "configs")
    assert (reason.found, reason.sentence) == (
        "AbsConfig is not selected",
        "the operator's config must be one of configs",
    )


def test_every_config_is_one_class_of_its_own_operator() -> None:
    assert len(by_target(ALL_CONFIGS)) == len(ALL_CONFIGS) == len({config.target for config in ALL_CONFIGS})
    for config in ALL_CONFIGS:
        assert getattr(configurations, config.__name__) is config
        assert config.__name__ in configurations.__all__
        assert config.precisions and (config.__doc__ or "").startswith(config.target)
        (alone,) = XnnpackPartitioner(configs=[config]).configs.values()
        assert isinstance(alone, config)


class _OtherAbs(AbsConfig):  # type: ignore[misc, valid-type]  # made by a call
    """Another config for the same operator."""


@pytest.mark.parametrize(
    ("configs", "error", "message"),
    [
        ([AbsConfig, _OtherAbs], ValueError, "AbsConfig and _OtherAbs are both for aten.abs.default, expected one"),
        ([AbsConfig, AbsConfig], ValueError, "AbsConfig and AbsConfig are both for aten.abs.default"),
        ([AbsConfig()], TypeError, "expected classes from npu_assay.partitioners.xnnpack.configs"),
        (["AbsConfig"], TypeError, "configs has 'AbsConfig', expected classes"),
        ("AbsConfig", TypeError, "configs is 'AbsConfig', expected a list of classes"),
        (AbsConfig, TypeError, "configs is <class .*AbsConfig'>, expected a list of classes"),
        ([int], TypeError, "configs has <class 'int'>"),
        (3, TypeError, "configs is 3, expected a list of classes"),
        (0, TypeError, "configs is 0, expected a list of classes"),
        ([PartitionerConfig], TypeError, "configs has <class .*PartitionerConfig'>, expected classes"),
    ],
)
def test_other_configs_are_errors(configs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        XnnpackPartitioner(configs=configs)


# The released filter compares what a config supports, not what the graph has: see docs/decisions.md.
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (CHAIN, {FP32: [True, True], STATIC: [False, True], DYNAMIC: [False, False]}),
        (
            LAYERS,
            {FP32: [True] * 4, STATIC: [True, False, True, True], DYNAMIC: [True, False, True, True]},
        ),  # relu goes along
        (SUM, {FP32: [True], STATIC: [True], DYNAMIC: [False]}),
        (PRODUCT, {STATIC: [True], DYNAMIC: [True]}),
        (AT_RUN_TIME, {STATIC: [True], DYNAMIC: [True]}),
    ],
    ids=["chain", "layers", "sum", "product", "at_run_time"],
)
def test_config_precisions(model: Graph, expected: dict[ConfigPrecisionType, list[bool]]) -> None:
    for precision, verdicts in expected.items():
        for asked in (precision, [precision], (precision,), iter([precision])):
            assert list(taken(model, config_precisions=asked).values()) == verdicts, precision
    for every in (None, [], list(ConfigPrecisionType)):
        assert all(taken(model, config_precisions=every).values())


def test_codes_stay_outside_when_only_numbers_are_asked_for() -> None:
    whole, alone = (partitioned(SUM, config_precisions=p).nodes for p in (STATIC, FP32))
    assert set(alone) == {"aten_add_tensor"} < set(whole)


def test_a_precision_that_a_config_does_not_support_is_named() -> None:
    (reason,) = partitioned(CHAIN, config_precisions=STATIC).rejections
    assert (reason.code, reason.found) == ("precision", "AbsConfig supports FP32")
    assert reason.sentence == "config_precisions must name a precision that the operator's config supports"


@pytest.mark.parametrize("asked", ["FP32", ["FP32"], 1, [1, 2], object(), [None], b"FP32"])
def test_other_precisions_are_one_clear_error(asked: Any) -> None:
    expected = (
        "expected one or more of ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT, "
        "ConfigPrecisionType.DYNAMIC_QUANT"
    )
    with pytest.raises(TypeError, match=f"^config_precisions has .*, {expected}$") as caught:
        XnnpackPartitioner(config_precisions=asked)
    if isinstance(asked, str):
        assert str(caught.value).startswith("config_precisions has 'FP32',")


def test_plain_data_names_precisions_and_configs() -> None:
    """What a case's options and the command line give."""
    for precisions in ("FP32", ("FP32",), ["FP32", "STATIC_QUANT"]):
        partitioner = backend.partitioner(config_precisions=precisions, configs=("ReLUConfig",))
        assert isinstance(partitioner, XnnpackPartitioner)
        assert partitioner.options.config_precisions[0] is FP32
        assert list(partitioner.configs) == ["aten.relu.default"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"config_precisions": "FP31"},
            "config_precisions has 'FP31': did you mean 'FP32'. expected names among FP",
        ),
        ({"config_precisions": ("FP32", "INT8")}, "config_precisions has 'INT8': .*STATIC_QUANT, DYNAMIC_QUANT"),
        ({"configs": ("LeakyRelUConfig",)}, "configs has 'LeakyRelUConfig': did you mean 'LeakyReLUConfig'."),
        ({"configs": "AbsConfigs"}, "configs has 'AbsConfigs': did you mean 'AbsConfig'."),
    ],
)
def test_other_names_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        backend.partitioner(**options)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("config_precision", "config_precisions"),
        ("per_op", "per_op_mode"),
        ("config", "configs"),
        ("verbos", "verbose"),
        ("enable_bfloat16", "enable_bf16"),
        ("force_non_static_weights", "force_non_static_weights_for_f32_linear"),
    ],
)
@pytest.mark.parametrize("owner", [XnnpackPartitioner, XnnpackFloatingPointPartitioner])
def test_an_unknown_argument_names_the_nearest(owner: type[XnnpackPartitioner], given: str, nearest: str) -> None:
    unknown: dict[str, Any] = {given: True}
    with pytest.raises(TypeError) as caught:
        owner(**unknown)
    assert str(caught.value) == (
        f"{owner.__name__} has no option {given!r}: did you mean {nearest!r}? expected one of {', '.join(OPTIONS)}"
    )


def test_an_unknown_argument_like_no_other_names_none() -> None:
    unknown: dict[str, Any] = {"zzz": 1}
    with pytest.raises(TypeError, match="has no option 'zzz': expected one of configs, config_precisions"):
        XnnpackPartitioner(**unknown)


@pytest.mark.parametrize("option", OPTIONS[2:])
def test_switches_are_true_or_false(option: str) -> None:
    for found in (1, "yes", None):
        with pytest.raises(TypeError, match=rf"{option} is {found!r}, expected True or False"):
            XnnpackPartitioner(**{option: found})  # type: ignore[arg-type]  # the error is what is tested


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


# ------------------------------------------------------------------------------------------------ kept whole


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
