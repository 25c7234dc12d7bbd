"""Every guard and gate catches a fault that nothing else catches, and a correct backend never fails one."""

from __future__ import annotations

import math
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
    device,
    failed,
    fallback,
    good,
    one,
    reals,
    value,
)

from npu_assay.conformance.cases.families import BASELINES, baseline
from npu_assay.conformance.cases.make import bias_quant, quant, weight_quant
from npu_assay.conformance.judge.gates import FORM
from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step

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


SCALES = (0.05, 0.07, 0.11, 0.13)


def channels(scales: tuple[float, ...] = SCALES) -> Graph:
    """A result with a scale for each of four channels, which torch alone computes."""
    return one("aten.neg.default", x=value("x", (3, 4), quant(0.03, 7)), y=Quant(scales, 5, axis=1))


def test_a_result_with_scales_of_channels_is_judged_by_each() -> None:
    graph = channels()
    assert failed(judge(golden(graph), fallback(graph), SCHEME, delegated=False)) == []
    inner = Step("t", "aten.relu.default", (Ref("s0"),), (), Y)
    after = replace(graph, steps=(*graph.steps, inner), outputs=(Ref("t"),))
    assert failed(judge(golden(after), fallback(after), SCHEME, delegated=False)) == []


def test_only_the_grid_guard_sees_scales_of_other_channels() -> None:
    (wrong,) = fallback(channels(SCALES[::-1]))
    (_, _, _, result) = judge(golden(channels()), [wrong], SCHEME, delegated=False)
    assert result.gate == "on_grid" and "expected one of codes -128..127 of scale 0.0" in result.messages[0]


@pytest.mark.parametrize("channel", range(4))
def test_a_code_too_many_of_one_channel_fails_gate_3(channel: int) -> None:
    graph = channels()
    (output,) = fallback(graph)
    output[2, channel] += SCALES[channel]
    found = judge(golden(graph), [output], SCHEME, delegated=False)
    assert "gate3" in failed(found) and f"out[2,{channel}] = " in found[-2].messages[0]


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


def test_a_comparison_may_be_the_devices_where_a_part_falls_back() -> None:
    """2.8 is at least 2.8125 on codes of the smaller scale, where both are 90, and not in floats."""
    x = value("x", (1,), Quant(0.05, 3), Fill("list", values=(59,)))
    y = value("y", (1,), Quant(0.03125, -7), Fill("list", values=(83,)))
    steps = (
        Step("more", "aten.ge.Tensor", (Ref("x"), Ref("y"))),
        Step("other", "aten.logical_not.default", (Ref("more"),)),
    )
    found = golden(Graph((x, y), steps, (Ref("other"),)))
    for truth in (False, True):
        assert failed(judge(found, [torch.tensor([truth])], "tosa_single_round", delegated=False)) == []
    assert failed(judge(found, [torch.tensor([False])], "xnnpack_fp32", delegated=False)) == ["gate3", "gate4"]
