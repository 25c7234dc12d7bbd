"""Where an operator stands: behind and before others of its own precision."""

from __future__ import annotations

from dataclasses import replace

from npu_assay.conformance.cases.integer.spelling import codes_quant
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Front,
    Q,
    Use,
    bias_quant,
    constant,
    model,
    step,
    then_abs,
    then_abs_and_returned,
    then_two,
    weight_quant,
)
from npu_assay.conformance.cases.shared import input_shared, used_twice
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step, Value

INPUTS = 4
WEIGHT_SCALE = 0.01

__all__ = ["around", "before_conv", "behind_conv", "behind_linear", "input_shared", "then_abs", "used_twice"]


def around(u: Use, front: Front) -> dict[str, Graph]:
    """Consumers of the result, and others of the operand."""
    return {
        "before_abs": model(u, front, then_abs),
        "two_consumers": model(u, front, then_two),
        "also_a_model_output": model(u, front, then_abs_and_returned),
        "input_shared_with_abs": input_shared(u, front),
    }


def behind_linear(u: Use, precision: str) -> Graph:
    """Behind a linear layer, which makes `x`."""
    x = u.values[0]
    source = Value("before_x", (*x.shape[:-1], INPUTS), Q, Fill(seed=5))
    shape = (x.shape[-1] if x.shape else 1, INPUTS)
    return _behind(u, source, shape, "aten.linear.default", (), precision)


def behind_conv(u: Use, precision: str) -> Graph:
    """Behind a 1x1 convolution, which makes the four-dimensional `x`."""
    x = u.values[0]
    source = Value("before_x", (x.shape[0], INPUTS, *x.shape[2:]), Q, Fill(seed=5))
    rest = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    return _behind(u, source, (x.shape[1], INPUTS, 1, 1), "aten.convolution.default", rest, precision)


def _behind(
    u: Use, source: Value, weights: tuple[int, ...], op: str, rest: tuple[object, ...], precision: str
) -> Graph:
    x, *others = u.values
    q, w = codes_quant(precision), constant("before_w", weights, weight_quant(WEIGHT_SCALE))
    b = constant("before_b", weights[:1], bias_quant(q, weight_quant(WEIGHT_SCALE)))
    args = (Ref("before_x"), Ref("before_w"), Ref("before_b"), *rest)
    before = Step("before", op, args, (), x.quant)
    values = (replace(source, quant=q), w, b, *others)
    return Graph(values, (before, step(u, Ref("before"))), model(u).outputs)


def before_conv(u: Use, precision: str) -> Graph:
    """In front of a 1x1 convolution of its four-dimensional result, which has the shape of `x`."""
    assert u.y is not None
    w = constant("after_w", (INPUTS, u.values[0].shape[1], 1, 1), weight_quant(WEIGHT_SCALE))
    b = constant("after_b", (INPUTS,), bias_quant(u.y, weight_quant(WEIGHT_SCALE)))
    args = (Ref(SUBJECT), Ref("after_w"), Ref("after_b"), (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    after = Step("after", "aten.convolution.default", args, (), codes_quant(precision))
    return Graph((*u.values, w, b), (step(u), after), (Ref("after"),))


def after(u: Use, op: str, args: tuple[object, ...]) -> Graph:
    """In front of an operator on its result, which is quantised as the result is."""
    behind = Step("after", op, (Ref(SUBJECT), *args), (), u.y)
    return Graph(u.values, (step(u), behind), (Ref("after"),))
