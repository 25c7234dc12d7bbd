"""Batch norms after products: folded into the product's weights where it alone feeds them, and nowhere else.

Every row of a convolution or a matrix product has them, in each of its precisions: after codes the norm is computed
between a dequantize and a quantize node. What is promised is the product; the norm may go anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, placed
from npu_assay.conformance.cases.make import RELU, SUBJECT, f32
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value, renamed

NORM = "aten._native_batch_norm_legit_no_training.default"
CONVOLUTIONS = ("aten.conv1d.default", "aten.conv2d.default", "aten.convolution.default")
MATRICES = ("aten.addmm.default", "aten.linear.default", "aten.mm.default")
NORMALISED = f32(0.08)
"""The scale of a normalized result, in 8 bits."""
ABS = "aten.abs.default"
FACTORS = (0.75, -1.25, 1.5, 0.5, 2.0, -0.625, 1.125)
SHIFTS = (0.5, -0.25, 1.0, -1.5, 0.125)
MEANS = (-0.75, 0.25, 1.25, -0.125, 0.0, 2.0)
VARIANCES = (0.5, 2.25, 1.0, 4.0, 0.25, 1.75, 3.0, 0.75)


def batch_norms(drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """Batch norms after a row's plain product, and after those of its products that have groups."""
    accepted = [draft for draft in drafts if (draft.constraint, draft.side) == (OPERATOR, "accept")]
    plain = next((draft.graph for draft in accepted if draft.variant == "baseline"), None)
    if plain is None or len(plain.steps) != 1 or channels(plain) is None:
        return
    yield placed("batch_norm_after", normalised(plain))
    unbiased = next((draft.graph for draft in accepted if draft.variant == "no_bias"), plain)
    yield placed("batch_norm_and_relu_after", normalised(unbiased, RELU))  # as most modules are: the norm has a bias
    yield placed("batch_norm_is_the_second_consumer", second_consumer(plain))
    yield placed("two_batch_norms_after", twice_normalised(plain))
    yield placed("used_twice_with_a_batch_norm_each", used_twice(plain))
    for name, graph in grouped(drafts).items():
        yield placed(f"batch_norm_after_{name}", normalised(graph))


def channels(graph: Graph) -> int | None:
    """How many channels the result of the graph's product has; None for another operator."""
    step, values = graph.steps[-1], {value.name: value for value in graph.values}
    shapes = [values[arg.name].shape for arg in step.args if isinstance(arg, Ref) and arg.name in values]
    match step.op, shapes:
        case (op, [_, weight, *_]) if op in CONVOLUTIONS:
            transposed, groups = (step.args[6], step.args[8]) if len(step.args) == 9 else (False, 1)
            return int(weight[1] * groups) if transposed else weight[0]
        case ("aten.linear.default", [x, weight, *_]):
            return weight[0] if len(x) == 2 else x[1] if len(x) > 2 else None
        case (("aten.addmm.default" | "aten.mm.default"), [*_, weight]):
            return weight[1]
    return None


def grouped(drafts: Sequence[CaseDraft]) -> dict[str, Graph]:
    """The first accepted product with groups among the drafts, and the first transposed one."""
    found: dict[str, Graph] = {}
    for draft in drafts:
        graph = draft.graph
        if draft.expect != "accept" or draft.options or len(graph.steps) != 1 or len(graph.steps[0].args) != 9:
            continue
        if any(value.dynamic for value in graph.values) or graph.steps[0].op not in CONVOLUTIONS:
            continue
        transposed, groups = graph.steps[0].args[6], graph.steps[0].args[8]
        if groups > 1:
            found.setdefault("transposed_groups" if transposed else "groups", graph)
    return found


# ------------------------------------------------------------------------------------ graphs


def normalised(graph: Graph, *after: str) -> Graph:
    """A batch norm takes the result, and what stands in `after` that of the norm."""
    steps, values = _norm(graph, Ref(SUBJECT), "norm", 0)
    for op in after:
        steps = (*steps, Step("after", op, (Ref(steps[-1].name),), (), steps[-1].quant))
    return Graph((*graph.values, *values), (*graph.steps, *steps), (Ref(steps[-1].name),))


def second_consumer(graph: Graph) -> Graph:
    """An abs takes the result, and a batch norm as well: what the abs gets must not be normalized."""
    steps, values = _norm(graph, Ref(SUBJECT), "norm", 0)
    first = Step("abs", ABS, (Ref(SUBJECT),), (), graph.steps[-1].quant)
    return Graph((*graph.values, *values), (*graph.steps, first, *steps), (Ref("abs"), Ref("norm")))


def twice_normalised(graph: Graph) -> Graph:
    """Two batch norms take the result."""
    first, values = _norm(graph, Ref(SUBJECT), "norm", 0)
    second, more = _norm(graph, Ref(SUBJECT), "other_norm", 2)
    return Graph((*graph.values, *values, *more), (*graph.steps, *first, *second), (Ref("norm"), Ref("other_norm")))


def used_twice(graph: Graph) -> Graph:
    """One module called on two inputs, each result with a batch norm of its own: the heads of a detector."""
    x, subject = graph.values[0], graph.steps[-1]
    again = replace(subject, name="again", args=renamed(subject.args, {x.name: "x_again"}))
    another = replace(x, name="x_again", fill=replace(x.fill, seed=99))
    first, values = _norm(graph, Ref(SUBJECT), "norm", 0)
    second, more = _norm(graph, Ref("again"), "other_norm", 2)
    steps = (*graph.steps, *first, again, *second)
    return Graph((*graph.values, another, *values, *more), steps, (Ref("norm"), Ref("other_norm")))


def _norm(graph: Graph, operand: Ref, name: str, shift: int) -> tuple[tuple[Step, ...], tuple[Value, ...]]:
    """A batch norm of the product's result, and its statistics. shift: of their numbers, so that two norms differ."""
    product, count = graph.steps[-1], channels(graph)
    assert count is not None
    dtype = "float16" if graph.values[0].dtype == "float16" else "float32"
    lists = {"factors": FACTORS, "shifts": SHIFTS, "means": MEANS, "variances": VARIANCES}
    values = tuple(
        Value(f"{name}_{part}", (count,), None, Fill("list", values=_turned(numbers, shift)), True, dtype)
        for part, numbers in lists.items()
    )
    args = (operand, *(Ref(value.name) for value in values), 0.1, 1e-3)
    return (Step(name, NORM, args, (), _result(product.quant)),), values


def _turned(numbers: tuple[float, ...], shift: int) -> tuple[float, ...]:
    return (*numbers[shift:], *numbers[:shift])


def _result(product: Quant | None) -> Quant | None:
    """The quantization of a normalized result: codes as the product's, at a scale of their own."""
    return None if product is None else replace(product, scale=NORMALISED * _steps(product))


def _steps(product: Quant) -> float:
    """How much finer than 8 bits the codes are."""
    return 255 / (product.qmax - product.qmin)
