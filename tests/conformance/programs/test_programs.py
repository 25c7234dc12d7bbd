"""The direct program builder: its numbers, and its equality with torch.export + to_edge on every row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from edge_programs import assert_same, exported_program, nodes_of
from torch.export import ExportedProgram

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import build, materialise, model_inputs, module
from npu_assay.conformance.programs.edge_form import normalise
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step, Value
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import EdgeCompileConfig, run_program, to_edge
from npu_assay.partitioners.exir.ops import target_name

CASES = cases_for(load_table("neutron@1.3"))
Q = Quant(0.05, 3)


# ------------------------------------------------------------------------------------ equality with to_edge


BASELINES = [case for case in CASES if case.id.endswith("/operator/accept/baseline")]
# Forms beyond the baselines: fused steps, transposed weights, lifted numbers, lists of one, absent arguments.
FORMS = [
    "aten.add.Tensor/operator/context/same_input_twice",
    "aten.addmm.default/operator/context/linear_form",
    "aten.avg_pool1d.default/count_include_pad/outside/false_list_1",
    "aten.avg_pool2d.default/divisor_override/outside/by_name",
    "aten.clone.default/memory_format/outside/channels_last",
    "aten.convolution.default/operator/accept/all_lists_of_one",
    "aten.convolution.default/operator/context/relu_fused_behind",
    "aten.convolution.default/operator/context/shared_weights_two_input_scales",
    "aten.convolution.default/static_bias/accept/none",
    "aten.convolution.default/transposed/at_limit/kernel_4_stride_2",
    "aten.div.Tensor/operator/accept/by_3",
    "aten.div.Tensor/operator/accept/by_minus_4.0",
    "aten.max_pool1d.default/dilation/outside/3",
    "aten.max_pool2d.default/operator/context/used_twice",
    "aten.max_pool2d.default/stride_h/outside/kernel_3_empty",
    "aten.max_pool2d_with_indices.default/indices_unused/outside/returned",
    "aten.relu.default/quantized/outside/float_model",
    "aten.slice_copy.Tensor/step/outside/2_to_the_end",
    "aten.split.Tensor/operator/context/one_chunk_used",
    "aten.squeeze.default/operator/accept/3x1x5_dims_1",
    "aten.upsample_bilinear2d.vec/scale/at_limit/to_6x10",
]


def _exported(case: Case) -> ExportedProgram:
    exported = exported_program(case.graph)
    skip = any(step.op == "aten.clone.default" for step in case.graph.steps)
    config = EdgeCompileConfig(_skip_dim_order=skip, preserve_ops=[torch.ops.aten.prelu.default])
    return to_edge(exported, compile_config=config).exported_program()


def _assert_equal(case: Case) -> None:
    assert_same(build(case.graph), _exported(case))


@pytest.mark.sampled(15)
@pytest.mark.parametrize("case", BASELINES, ids=lambda case: case.row)
def test_every_row_is_what_export_and_to_edge_make(case: Case) -> None:
    _assert_equal(case)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", FORMS)
def test_other_forms_are_what_export_and_to_edge_make(name: str) -> None:
    _assert_equal(_case(name))


def _case(name: str) -> Case:
    return next(case for case in CASES if case.id == name)


def test_a_difference_is_noticed() -> None:
    """The comparison sees another argument, another type of number and another name."""
    case = _case("aten.clamp.default/operator/accept/baseline")
    step = case.graph.steps[0]
    for args in ((*step.args[:2], 5), (step.args[0], 0.0, 6)):
        other = replace(case.graph, steps=(replace(step, args=args),))
        assert nodes_of(build(other)) != nodes_of(build(case.graph))


# ------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (Fill("all_codes"), [-128, -127, -126, -125, -124, -123]),
        (Fill("ramp"), [-128, -127, -126, -125, -124, -123]),
        (Fill("one_hot", index=2), [3, 3, 127, 3, 3, 3]),
        (Fill("min"), [-128] * 6),
        (Fill("max"), [127] * 6),
        (Fill("zero"), [3] * 6),
        (Fill("alternating"), [-128, 127] * 3),
        (Fill("list", values=(5.0, -200.0)), [5, -128] * 3),
    ],
)
def test_fills(fill: Fill, expected: list[int]) -> None:
    codes = materialise(Value("x", (2, 3), Q, fill))
    assert codes.dtype == torch.int8
    assert codes.flatten().tolist() == expected


def test_random_fills_follow_their_seed_and_cover_the_range() -> None:
    first, same, other = (materialise(Value("x", (64, 64), Q, Fill(seed=seed))) for seed in (1, 1, 2))
    assert torch.equal(first, same) and not torch.equal(first, other)
    assert first.min() == -128 and first.max() == 127


def test_weights_keep_to_their_range() -> None:
    codes = materialise(Value("w", (64, 64), Quant(0.1, 0, -127), Fill("all_codes"), constant=True))
    assert codes.min() == -127 and codes.max() == 127


def test_unknown_fill_is_an_error() -> None:
    with pytest.raises(ValueError, match="no numbers of fill 'gaussian': expected random, one_hot"):
        materialise(Value("x", (2,), Q, Fill("gaussian")))


def test_inputs_quantise_back_to_their_codes() -> None:
    value = Value("x", (256,), Quant(0.013, -7), Fill("all_codes"))
    (x,) = model_inputs(Graph((value,), (), ()))
    assert torch.equal(torch.round(x.double() / 0.013) - 7, materialise(value).double())


def test_float_inputs_are_reals() -> None:
    (x,) = model_inputs(Graph((Value("x", (1000,), None),), (), ()))
    assert x.dtype == torch.float32 and -4 <= x.min() < -3 and 3 < x.max() < 4


@pytest.mark.parametrize("denominator", range(1, 120))
def test_codes_of_reals_are_those_of_the_quantize_node(denominator: int) -> None:
    """-0.75 is on a tie of the scale 0.1 for a product with its reciprocal in float32, and not for a quotient."""
    quant = Quant(float(torch.tensor(1 / denominator)), 3)
    x = Value("x", (80,), quant, Fill("reals", values=tuple(step / 16 for step in range(-40, 40))))
    (numbers,) = model_inputs(Graph((x,), (), ()))
    node = torch.ops.quantized_decomposed.quantize_per_tensor(numbers, quant.scale, 3, -128, 127, torch.int8)
    assert torch.equal(materialise(x), node)


def test_an_input_may_have_a_scale_for_each_index() -> None:
    value = Value("x", (3, 2), Quant((0.1, 0.2), 5, axis=1), Fill("ramp"))
    graph = Graph((value,), (Step("y", "aten.abs.default", (Ref("x"),), (), Q),), (Ref("y"),))
    codes, (x,) = materialise(value), model_inputs(graph)
    assert torch.equal(x, (codes - 5.0) * torch.tensor([0.1, 0.2]))
    operators = [target_name(node.target) for node in build(graph).graph.nodes if node.op == "call_function"]
    assert operators[:2] == [f"quantized_decomposed.{name}quantize_per_channel.default" for name in ("", "de")]
    assert torch.equal(*(run(x)[0] for run in (module(graph), lambda x: run_program(build(graph), [x]))))


def test_a_result_may_have_a_scale_for_each_index() -> None:
    step = Step("y", "aten.abs.default", (Ref("x"),), (), Quant((0.1, 0.2), 5, axis=1))
    graph = Graph((Value("x", (3, 2), replace(Q, scale=0.031), Fill("ramp")),), (step,), (Ref("y"),))
    (x,) = model_inputs(graph)
    operators = [target_name(node.target) for node in build(graph).graph.nodes if node.op == "call_function"]
    assert operators[-2:] == [f"quantized_decomposed.{name}quantize_per_channel.default" for name in ("", "de")]
    steps = torch.tensor([0.1, 0.2])
    for (found,) in (module(graph)(x), run_program(build(graph), [x])):
        assert torch.allclose(found, steps * (x.abs() / steps).round().clamp(-133, 122))


# ------------------------------------------------------------------------------------ programs


def test_the_program_computes_what_the_module_computes() -> None:
    for case in BASELINES:
        inputs = model_inputs(case.graph)
        expected, found = module(case.graph)(*inputs), run_program(build(case.graph), list(inputs))
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True)), case.id


def test_nodes_of_a_step_carry_its_name() -> None:
    program = build(_case("aten.max_pool1d.default/operator/accept/baseline").graph)
    marked = [target_name(node.target) for node in program.graph.nodes if node.meta.get("step") == "subject"]
    assert marked == [
        "aten.unsqueeze_copy.default",
        "aten.max_pool2d_with_indices.default",
        "getitem",
        "aten.squeeze_copy.dims",
    ]


def test_building_twice_gives_separate_equal_programs() -> None:
    graph = BASELINES[0].graph
    first, second = build(graph), build(graph)
    assert first.graph is not second.graph and nodes_of(first) == nodes_of(second)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((2,), {}, ([2, 2],)),
        (([2], []), {}, ([2],)),
        (([2, 2], [1, 1], 0), {}, ([2, 2], [1, 1])),
        (([2, 2],), {"padding": 1}, ([2, 2], [], [1, 1])),
        (([2, 2], [2, 2], 0, False, True, 7), {}, ([2, 2], [2, 2], [0, 0], False, True, 7)),
    ],
)
def test_arguments_as_the_dispatcher_passes_them(
    args: tuple[Any, ...], kwargs: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    positional, keywords = normalise("aten.avg_pool2d.default", (None, *args), kwargs)
    assert (positional[1:], keywords) == (list(expected), {})


def test_arguments_that_do_not_fit_are_errors() -> None:
    with pytest.raises(TypeError, match="argument 'kernel_size' is missing"):
        normalise("aten.avg_pool2d.default", (None,), {})
    with pytest.raises(TypeError, match=r"unexpected arguments \['kernel'\]"):
        normalise("aten.avg_pool2d.default", (None, [2]), {"kernel": 3})


def test_a_step_with_wrong_operands_is_an_error() -> None:
    graph = Graph((Value("x", (2, 3), Q),), (Step("s", "aten.mm.default", (Ref("x"), Ref("x")), (), Q),), (Ref("s"),))
    with pytest.raises(RuntimeError, match="same reduction dim"):
        build(graph)
