"""Each gate notices its fault, and the faults of whole operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from judged_numbers import (
    COARSE,
    SCHEME,
    Q,
    Y,
    assert_only,
    chain,
    convolution,
    device,
    failed,
    fallback,
    good,
    one,
    reals,
    value,
)
from torch import Tensor

from npu_assay.conformance.cases.make import quant
from npu_assay.conformance.judge.integer_golden import exact_values
from npu_assay.conformance.judge.numerics import Golden, golden, judge
from npu_assay.conformance.judge.second_golden import disagreements
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step
from npu_assay.partitioners.common.rescale import quantize_multiplier, tflite_single_round
from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.arithmetic import tflite


def integers(graph: Graph) -> Tensor:
    """The exact codes of the first output."""
    return exact_values(graph).codes[graph.outputs[0]].codes


def sharing(graph: Graph, codes: Tensor) -> Golden:
    """A golden whose exact integers are wrong in the same way as the device's: both run the same kernels."""
    found, ref = golden(graph), graph.outputs[0]
    found.exact(SCHEME).codes[ref] = replace(exact_values(graph).codes[ref], codes=codes)
    return found


# ------------------------------------------------------------------------------------ gates, one fault each


def test_only_gate_1_sees_the_other_rounding() -> None:
    """Single instead of double rounding is within every float bound: only exact integers tell."""
    x = value("x", (256,), Q, Fill("all_codes"))
    graph = one("aten.relu.default", x=x)
    multiplier, shift = quantize_multiplier(float32(float32(0.05) / float32(0.13)))
    codes = tflite_single_round(torch.arange(-128, 128) - 3, multiplier, shift) - 5
    single = codes.clamp(-5, 127).to(torch.int8)
    assert int((single != integers(graph)).sum()) > 0
    message = assert_only("gate1", golden(graph), [reals(single, Y)])
    assert message.endswith("elements") and "(exact)" in message and message.startswith("out[")


def test_message_of_gate_1() -> None:
    graph, _ = good()
    codes = integers(graph)
    wrong = codes.clone()
    wrong[0, 3] += 2
    message = judge(golden(graph), [reals(wrong, Y)], SCHEME)[6].messages[0]
    assert message == f"out[0,3] = {int(wrong[0, 3])}, expected {int(codes[0, 3])} (exact); 1 of 8 elements"


def deep() -> Graph:
    """Three steps of about the same size: the chain's bound is wider than one LSB, each step's error bound is none."""
    x = value("x", (20, 20), quant(0.05, 0))
    clamp = ("aten.clamp.default", (-100, 100))
    return chain([x], (*clamp, quant(0.09, 1)), (*clamp, quant(0.1, 1)), (*clamp, quant(0.11, 2)))


def test_only_gate_2_sees_a_vendor_without_a_scheme_that_is_one_off_too_often() -> None:
    """One LSB up, wherever the chain's bound still allows it, passes gate 1 (1 LSB), gate 3 and the SQNR."""
    graph = deep()
    (bounded,), q = golden(graph).walk(None, True).bounded, graph.steps[-1].quant or Q
    codes = integers(graph)
    drift = (reals(codes + 1, q) - bounded.value).abs() < bounded.error
    assert 0.2 < float(drift.double().mean()) < 0.9
    message = assert_only("gate2", golden(graph), [reals(codes + drift, q)], None)
    assert "of codes are not the nearest (limit " in message and "mean error +0." in message


def wrong_relu(monkeypatch: pytest.MonkeyPatch, more: Callable[[Tensor, Affine], Tensor]) -> None:
    """The specification adds that to its result, and so does the device here, which gives the golden's codes."""
    specified = tflite.relu

    def misread(codes: Tensor, lo: float | None, hi: float | None, x: Affine, y: Affine) -> Tensor:
        return specified(codes, lo, hi, x, y) + more(codes, x).to(torch.int8)

    monkeypatch.setattr(tflite, "relu", misread)


def test_only_gate_3_sees_a_fault_that_device_and_specification_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """One code of both is one off."""
    graph = one("aten.relu.default", x=value("x", (512,), Q, Fill("all_codes")))
    wrong_relu(monkeypatch, lambda codes, x: codes == 99)
    message = assert_only("gate3", golden(graph), device(graph))
    assert message.startswith("exact golden contradicts the float golden: step s0 output 0, element 227 is 33,")
    assert message.endswith(" expected 32; 2 of 512 elements")


def test_only_gate_3_sees_a_shared_fault_that_later_steps_hide(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry of the first step's table is one off; the chain's bound at the end holds that, the step's own not."""
    wrong_relu(monkeypatch, lambda codes, x: (codes == 50) & (x.scale < 0.06))
    message = assert_only("gate3", golden(deep()), device(deep()))
    assert message.startswith("exact golden contradicts the float golden: step s0 output 0, element ")


def with_float_output(graph: Graph) -> Graph:
    last = Step("t", "aten.tanh.default", (Ref(graph.steps[-1].name),))
    return replace(graph, steps=(*graph.steps, last), outputs=(Ref("t"),))


def test_only_gate_3_sees_one_element_of_a_float_output_beyond_its_bound() -> None:
    graph = with_float_output(deep())
    (bounded,) = golden(graph).walk(SCHEME, True).bounded
    output = bounded.value.clone()
    output[3, 5] += 1.5 * bounded.error[3, 5]
    message = assert_only("gate3", golden(graph), [output.to(torch.float32)])
    assert message.startswith("out[3,5] = ") and message.endswith(" (float); 1 of 400 elements")


def test_only_gate_4_sees_errors_that_all_lie_at_the_end_of_their_bounds() -> None:
    """A float output behind quantized steps of no named scheme: every error within its bound, and all to one side."""
    graph = with_float_output(deep())
    (bounded,) = golden(graph).walk(None, True).bounded
    output = (bounded.value + 0.99 * bounded.error).to(torch.float32)
    message = assert_only("gate4", golden(graph), [output], None)
    assert message.startswith("out: SQNR ") and " dB, expected at least " in message


def exchanged() -> Graph:
    """The same numbers with height and width exchanged, and back."""
    graph = convolution(2, 1)
    flip, flipped = "aten.permute_copy.default", (0, 1, 3, 2)
    step = replace(graph.steps[0], args=(Ref("f"), *graph.steps[0].args[1:]))
    front = Step("f", flip, (Ref("x"), flipped), (), Q)
    back = Step("g", flip, (Ref("s0"), flipped), (), graph.steps[0].quant)
    return Graph(graph.values, (front, step, back), (Ref("g"),))


def pooled(count_include_pad: bool) -> Graph:
    return one("aten.avg_pool2d.default", (3, 3), (1, 1), (1, 1), False, count_include_pad, y=Q)


Break = Callable[[], tuple[Graph, Tensor]]  # the graph, and the wrong device's codes


def instead(right: Graph, wrong: Graph) -> tuple[Graph, Tensor]:
    return right, integers(wrong)


def altered(change: Callable[[Tensor], Tensor], graph: Graph | None = None) -> tuple[Graph, Tensor]:
    right = graph or convolution()
    return right, change(integers(right).to(torch.int64)).clamp(-128, 127).to(torch.int8)


FAULTS: dict[str, Break] = {
    "dropped bias": lambda: instead(convolution(), convolution(bias=False)),
    "height and width exchanged": lambda: instead(convolution(), exchanged()),
    "one LSB up everywhere": lambda: altered(lambda codes: codes + 1),
    "two LSB down everywhere": lambda: altered(lambda codes: codes - 2),
    "gain of 5 %": lambda: altered(lambda codes: ((codes + 7) * 1.05).round().to(torch.int64) - 7),
    "zero output": lambda: altered(lambda codes: torch.full_like(codes, -7)),
    "all saturated": lambda: altered(lambda codes: torch.where(codes > -7, 127, -128)),
    "count_include_pad ignored": lambda: instead(pooled(True), pooled(False)),
    "scales along the wrong channels": lambda: instead(
        convolution(), convolution(axis_scales=(0.007, 0.01, 0.02, 0.004))
    ),
    "wrong axis": lambda: instead(
        one("aten._softmax.default", 1, False, y=quant(1 / 256, -128)),
        one("aten._softmax.default", 2, False, y=quant(1 / 256, -128)),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("scheme", [SCHEME, None])
def test_faults_of_a_device_are_caught(name: str, scheme: str | None) -> None:
    graph, codes = FAULTS[name]()
    caught = failed(judge(golden(graph), [reals(codes, graph.steps[-1].quant or Q)], scheme))
    assert ("gate1" in caught or scheme is None) and "gate2" in caught


@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_the_integer_golden_shares_are_caught(name: str) -> None:
    graph, codes = FAULTS[name]()
    caught = failed(judge(sharing(graph, codes), [reals(codes, graph.steps[-1].quant or Q)], SCHEME))
    assert "gate1" not in caught and {"gate2", "gate3"} <= set(caught)


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_fallback_are_caught(name: str) -> None:
    graph, codes = FAULTS[name]()
    output = reals(codes, graph.steps[-1].quant or Q)
    assert "gate3" in failed(judge(golden(graph), [output], SCHEME, delegated=False))


def test_fallback_may_be_one_lsb_off_only_where_float32_is_ambiguous() -> None:
    graph = convolution()
    (right,) = fallback(graph)
    results = {r.gate: r for r in judge(golden(graph), [right], SCHEME, delegated=False)}
    assert results["gate2"].metrics["rate_limit"] < 0.2
    wrong = right.clone()
    wrong[0, 0] += 0.2
    assert "gate2" in failed(judge(golden(graph), [wrong], SCHEME, delegated=False))


# ------------------------------------------------------------------------------------ several outputs, other errors


def test_every_output_is_named() -> None:
    graph = one("aten.split.Tensor", 4, 1, y=Q)
    graph = replace(graph, steps=(replace(graph.steps[0], outputs=2),), outputs=(Ref("s0"), Ref("s0", 1)))
    first, second = device(graph)
    assert failed(judge(golden(graph), [first, second], SCHEME)) == []
    results = {r.gate: r for r in judge(golden(graph), [second, first], SCHEME)}
    assert [message.split("[")[0] for message in results["gate1"].messages] == ["out0", "out1"]


def test_unused_indices_are_compared_exactly() -> None:
    x = value("x", (1, 2, 4, 4))
    graph = one("aten.max_pool2d_with_indices.default", (2, 2), x=x, y=Q)
    graph = replace(graph, steps=(replace(graph.steps[0], outputs=2),), outputs=(Ref("s0"), Ref("s0", 1)))
    found = golden(graph)
    outputs = fallback(graph)
    assert failed(judge(found, outputs, SCHEME, delegated=False)) == []
    assert "gate3" in failed(judge(found, [outputs[0], outputs[1] + 1], SCHEME, delegated=False))


def test_scheme_without_an_exact_golden_is_an_error() -> None:
    graph, output = good()
    with pytest.raises(ValueError, match="found 'tflite_float64', expected one of"):
        judge(golden(graph), [output], "tflite_float64")


def test_empty_output() -> None:
    graph = one("aten.relu.default", x=value("x", (0, 3)))
    assert failed(judge(golden(graph), [torch.zeros(0, 3)], SCHEME)) == []


def test_second_opinion_agrees_on_a_chain() -> None:
    assert disagreements(deep()) == ()


def test_second_opinion_names_the_step_of_a_wrong_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_assay.reference.golden.run", lambda op, args, kwargs: (args[0],))
    graph = chain([value("x", (4,), COARSE, Fill("max"))], ("aten.clamp.default", (-1, 1), COARSE))
    (message,) = disagreements(graph)
    assert message == "s0: aten.clamp.default: golden output 0 is 381 at 0, onnx.reference 1"
