"""Every guard and gate catches a fault that nothing else catches, and a correct backend never fails one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.cases.families import BASELINES, baseline
from npu_assay.conformance.cases.make import bias_quant, quant, weight_quant
from npu_assay.conformance.judge.gates import FORM
from npu_assay.conformance.judge.integer_golden import exact_codes
from npu_assay.conformance.judge.numerics import GateResult, Golden, golden, judge
from npu_assay.conformance.judge.second_golden import disagreements
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.common.rescale import quantize_multiplier, tflite_single_round
from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.arithmetic import tflite

SCHEME = "tflite_double_round"
Q = quant(0.05, 3)
Y = quant(0.13, -5)


def value(
    name: str, shape: Sequence[int], q: Quant | None = Q, fill: Fill | None = None, constant: bool = False
) -> Value:
    return Value(name, tuple(shape), q, fill or Fill(seed=sum(map(ord, name))), constant)


def chain(values: Sequence[Value], *steps: tuple[str, tuple[Any, ...], Quant | None]) -> Graph:
    """Steps s0, s1, ...; each takes the one before as first operand ("x" at the start) and then its arguments."""
    written, last = [], Ref("x")
    for index, (op, rest, q) in enumerate(steps):
        written.append(Step(f"s{index}", op, (last, *rest), (), q))
        last = Ref(f"s{index}")
    return Graph(tuple(values), tuple(written), (last,))


def one(op: str, *rest: Any, x: Value | None = None, y: Quant | None = Y, more: Sequence[Value] = ()) -> Graph:
    return chain([x or value("x", (1, 8, 6, 6)), *more], (op, rest, y))


def reals(codes: Tensor, q: Quant) -> Tensor:
    """Codes as a program's output: float32."""
    assert isinstance(q.scale, float)
    return (codes.to(torch.float32) - q.zero_point) * float32(q.scale)


def integers(graph: Graph) -> Tensor:
    """The exact codes of the first output."""
    return exact_codes(graph)[graph.outputs[0]].codes


def device(graph: Graph) -> list[Tensor]:
    """What a correct device returns."""
    found, quants = golden(graph).codes(), golden(graph).walk(SCHEME, True).quants
    return [reals(c, q) for c, q in zip(found, quants, strict=True) if c is not None and q is not None]


def fallback(graph: Graph) -> list[Tensor]:
    """What the model returns when torch runs it, in float32 between quantize and dequantize."""
    outputs = module(graph)(*model_inputs(graph))
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def failed(results: Sequence[GateResult]) -> list[str]:
    return [result.gate for result in results if not result.passed]


def sharing(graph: Graph, codes: Tensor) -> Golden:
    """A golden whose exact integers are wrong in the same way as the device's: both run the same kernels."""
    found, ref = golden(graph), graph.outputs[0]
    found.exact(SCHEME).codes[ref] = replace(exact_codes(graph)[ref], codes=codes)
    return found


def assert_only(gate: str, found: Golden, outputs: Sequence[Tensor], scheme: str | None = SCHEME) -> str:
    """The outputs fail this gate and, without it, none. Returns its message."""
    results = judge(found, outputs, scheme)
    assert failed(results) == [gate]
    assert failed(judge(found, outputs, scheme, without=[gate])) == []
    return next(result.messages[0] for result in results if result.gate == gate)


# ------------------------------------------------------------------------------------ no false alarm


def varied(graph: Graph, seed: int) -> Graph:
    """The graph with other numbers in every random value."""
    values = (replace(v, fill=replace(v.fill, seed=v.fill.seed + seed)) for v in graph.values)
    return replace(graph, values=tuple(values))


@pytest.mark.parametrize("row", BASELINES)
def test_correct_device_and_correct_fallback_pass(row: str) -> None:
    for seed in range(3):
        graph = varied(baseline(row), seed)
        found = golden(graph)
        indices = [b.value.to(torch.int64) for b in found.walk(SCHEME, True).bounded[1:]] if "indices" in row else []
        outputs = [*device(graph), *indices]
        assert failed(judge(found, outputs, SCHEME)) == []
        assert failed(judge(found, outputs, None)) == []
        assert failed(judge(found, fallback(graph), SCHEME, delegated=False)) == []


TIES = [
    one("aten.relu.default", x=value("x", (256,), quant(0.5, 0), Fill("all_codes")), y=quant(1.0, 0)),
    one("aten.add.Tensor", Ref("x"), x=value("x", (256,), quant(0.5, 0), Fill("all_codes")), y=quant(2.0, 0)),
    one("aten.avg_pool1d.default", (2,), x=value("x", (1, 1, 512), Q, Fill("all_codes")), y=Q),
    one("aten.relu.default", x=value("x", (1,), quant(0.5, 0), Fill("list", values=(3,))), y=quant(1.0, 0)),
]


@pytest.mark.parametrize("graph", TIES)
def test_ties_and_single_elements_pass(graph: Graph) -> None:
    """Errors of exactly half a step everywhere are as far as a bound goes, and still legal."""
    assert failed(judge(golden(graph), device(graph), SCHEME)) == []
    assert failed(judge(golden(graph), fallback(graph), None, delegated=False)) == []


def test_fused_activation_rounds_once() -> None:
    w, b = value("w", (4, 8, 1, 1), weight_quant(0.01), constant=True), value("b", (4,), constant=True)
    b = replace(b, quant=bias_quant(Q, weight_quant(0.01)))
    convolution = ("aten.convolution.default", (Ref("w"), Ref("b"), (1, 1), (0, 0), (1, 1), False, (0, 0), 1), None)
    graph = chain(
        [value("x", (1, 8, 4, 4)), w, b], convolution, ("aten.hardtanh.default", (0, 6), quant(6 / 255, -128))
    )
    assert failed(judge(golden(graph), device(graph), SCHEME)) == []
    assert failed(judge(golden(graph), fallback(graph), None, delegated=False)) == []


def test_float_model_has_gates_3_and_4_only() -> None:
    graph = one("aten.sigmoid.default", x=value("x", (3, 5), None), y=None)
    found = golden(graph)
    assert found.codes() == (None,)
    (output,) = fallback(graph)
    results = judge(found, [output], SCHEME)
    assert failed(results) == []
    assert [result.gate for result in results if result.metrics] == ["gate1", "gate3", "gate4"]
    assert dict(results[len(FORM) + 2].metrics) == {"allowed_lsb": math.inf}
    assert failed(judge(found, [output * 1.0001], SCHEME)) == ["gate3", "gate4"]


def test_step_with_a_real_operand_is_judged_as_fallback() -> None:
    graph = one("aten.add.Tensor", Ref("r"), more=[value("r", (1, 8, 6, 6), None)])
    found = golden(graph)
    assert found.codes() == (None,)
    assert failed(judge(found, fallback(graph), SCHEME)) == []


def test_bounds_do_not_grow_through_movement() -> None:
    """Forty views and a relu later the bound is still the first rounding's."""
    views = [("aten.view_copy.default", ((6, 48),), Y), ("aten.relu.default", (), Y)] * 20
    graph = chain([value("x", (288,))], ("aten.hardtanh.default", (), Y), *views)
    (bounded,) = golden(graph).walk(SCHEME, True).bounded
    assert float(bounded.error.max()) < 0.9 * float(Y.scale if isinstance(Y.scale, float) else 0)


# ------------------------------------------------------------------------------------ guards


def good() -> tuple[Graph, Tensor]:
    graph = one("aten.relu.default", x=value("x", (2, 4)))
    return graph, device(graph)[0]


def test_count_of_outputs() -> None:
    graph, output = good()
    (result,) = judge(golden(graph), [output, output], SCHEME)
    assert result.messages == ("found 2 outputs, expected 1",)


def test_only_the_shape_guard_sees_an_extra_axis() -> None:
    graph, output = good()
    assert assert_only("shape", golden(graph), [output[None]]) == "out: shape [1, 2, 4], expected [2, 4]"


def test_only_the_dtype_guard_sees_float64() -> None:
    graph, output = good()
    message = assert_only("dtype", golden(graph), [output.to(torch.float64)])
    assert message == "out: dtype torch.float64, expected torch.float32"


def test_only_the_grid_guard_sees_reals_between_codes() -> None:
    graph, output = good()
    wrong = output.clone()
    wrong[1, 2] += 0.3 * 0.13
    message = assert_only("on_grid", golden(graph), [wrong])
    assert message.startswith("out[1,2] = ") and "expected one of codes -128..127 of scale 0.13" in message


def test_codes_beyond_the_range_are_off_the_grid() -> None:
    graph, output = good()
    wrong = output.clone()
    wrong[0, 0] = 0.13 * (128 + 5)
    assert failed(judge(golden(graph), [wrong], SCHEME)) == ["on_grid"]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_not_finite(bad: float) -> None:
    graph, output = good()
    wrong = output.clone()
    wrong[1, 3] = bad
    (*_, result) = judge(golden(graph), [wrong], SCHEME)
    assert result.gate == "finite"
    assert result.messages == (f"out[1,3] = {bad}, expected a finite number; 1 of 8 elements",)


def test_only_the_finite_guard_sees_nan_beside_an_unbounded_element() -> None:
    """A bound may be infinite (division by what may be 0): then no gate says anything about the element."""
    x, z = value("x", (2,), quant(1.0), Fill("list", values=(1, 1))), value("z", (2,), quant(1.0), Fill("zero"))
    graph = chain([x, z], ("aten.hardtanh.default", (), quant(1.0)), ("aten.div.Tensor", (Ref("z1"),), None))
    divisor = Step("z1", "aten.sigmoid.default", (Ref("z"),), (), quant(1.0))
    graph = replace(graph, steps=(graph.steps[0], divisor, graph.steps[1]))
    assert torch.isinf(golden(graph).walk(SCHEME, True).bounded[0].error).all()
    assert_only("finite", golden(graph), [torch.full((2,), torch.nan)])


COARSE = quant(3.0, 0)
FINE = quant(2.0, 0)


def tied(*codes: float, last: Quant = FINE) -> Graph:
    """Two clamps at a coarse step, which widen the bound of the chain, then ties at the last one: 1.5 per code."""
    x = value("x", (len(codes),), COARSE, Fill("list", values=codes))
    clamp = ("aten.clamp.default", (-1000, 1000), COARSE)
    return chain([x], clamp, clamp, ("aten.clamp.default", (-1000, 1000), last))


def test_only_the_constant_guard_sees_a_device_that_forgets_its_input() -> None:
    """Legal codes are 1..2 and 4..5; a device answers 3 everywhere, one LSB off and within the chain's bound."""
    graph, stuck = tied(1, 3), torch.tensor([3, 3], dtype=torch.int8)
    message = assert_only("not_constant", golden(graph), [reals(stuck, FINE)], None)
    assert message == "out is 3 everywhere, the golden is not constant"


def test_only_the_saturation_guard_sees_a_device_that_saturates_early() -> None:
    """Legal codes are 125..126; a device answers 127, one LSB off and within the chain's bound."""
    last = quant(2.0, 124)
    graph, full = tied(1, 1, last=last), torch.tensor([127, 127], dtype=torch.int8)
    message = assert_only("not_saturated", golden(graph), [reals(full, last)], None)
    assert message == "out holds only -128 and 127, the golden does not; 2 of 2 elements"


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
    """Three steps of about the same size: the chain's bound is wider than one LSB, each step's slack is none."""
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


# ------------------------------------------------------------------------------------ faults of whole operators


def convolution(
    h: int = 1, w: int = 2, bias: bool = True, axis_scales: Sequence[float] = (0.004, 0.02, 0.01, 0.007)
) -> Graph:
    """Padding (h, w) differs by axis, so that exchanging them keeps the shape of a square image."""
    q = weight_quant(tuple(axis_scales), 0)
    values = [value("x", (1, 3, 7, 7)), value("w", (4, 3, 3, 3), q, constant=True)]
    values += [value("b", (4,), bias_quant(Q, weight_quant((0.004, 0.02, 0.01, 0.007), 0)), constant=True)]
    args = (Ref("w"), Ref("b") if bias else None, (1, 1), (h, w), (1, 1), False, (0, 0), 1)
    return chain(values, ("aten.convolution.default", args, quant(0.2, -7)))


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
