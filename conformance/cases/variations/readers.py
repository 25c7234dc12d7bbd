"""Several readers: of an operand, a constant and a result; who stands before each operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.make import RELU
from npu_assay.conformance.cases.variations.base import Base, Variation
from npu_assay.conformance.cases.variations.operands import moved
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, renamed

ABS = "aten.abs.default"
NEG = "aten.neg.default"
WINDOW, IMAGE = "aten.max_pool2d.default", 4
"""With RELU, neighbors that take any shape; that they are of different kinds is all that counts."""


def read_by_others(base: Base) -> Iterator[Variation]:
    """Each operand read by another operator, too: before the step, after it, and by the same operator again."""
    for ref in base.operands[::-1]:
        quant = _quant(base, ref)
        for op in (ABS, NEG, RELU):
            reader = Step(base.beside, op, (ref,), (), quant)
            kind = op.split(".")[1]
            yield f"{ref.name}_by_{kind}", _with_reader(base, reader)
            yield f"{ref.name}_before_by_{kind}", _before(base, reader)
        product = Step(base.beside, "aten.mul.Tensor", (ref, ref), (), quant)
        yield f"{ref.name}_by_mul", _with_reader(base, product)
    yield "all_again", _with_reader(base, replace(base.step, name=base.beside))


def after_others(base: Base) -> Iterator[Variation]:
    """Each operand after another operator, the last one first, and after two; all of them."""
    for ref in base.operands[::-1]:
        for op in (ABS, NEG, RELU):
            kind = op.split(".")[1]
            yield f"{ref.name}_after_{kind}", _after_others(base, (ref,), op)
            if (quant := _quant(base, ref)) is not None:
                yield f"{ref.name}_after_{kind}_moved", _after_others(base, (ref,), op, moved(quant))
        yield f"{ref.name}_after_real", _after_others(base, (ref,), ABS, None)
    yield "all_after_abs", _after_others(base, base.operands, ABS)


def results_read(base: Base) -> Iterator[Variation]:
    """Each result alone, the last one first; all; one by two readers of different kinds; one by nobody."""
    step, count = base.step, base.step.outputs
    made = [Ref(step.name, index) for index in range(count)]
    first = made[0]
    if not any(ref.name == step.name for ref in base.graph.outputs):
        return
    for ref in made[::-1] if count > 1 else ():
        yield f"result_{ref.index}_alone", replace(base.graph, outputs=(ref,))
    if count > 1:
        yield "all_results", replace(base.graph, outputs=tuple(made))
        yield "results_turned", replace(base.graph, outputs=tuple(made[::-1]))
    yield "result_twice", replace(base.graph, outputs=(first, first))
    abs_, neg = (Step(f"{base.beside}_{op.split('.')[1]}", op, (first,), (), step.quant) for op in (ABS, NEG))
    yield "by_two", replace(base.graph, steps=(*base.graph.steps, abs_, neg), outputs=(Ref(neg.name), Ref(abs_.name)))
    yield "by_one_and_returned", replace(base.graph, steps=(*base.graph.steps, abs_), outputs=(first, Ref(abs_.name)))
    for ref in base.operands[:1]:
        alone = Step(base.beside, ABS, (ref,), (), _quant(base, ref))
        yield "by_nobody", replace(base.graph, steps=(*base.graph.steps, alone), outputs=(Ref(alone.name),))
    real = (*base.graph.steps, replace(abs_, quant=None))
    yield "read_as_real", replace(base.graph, steps=real, outputs=(Ref(abs_.name), first))


def _quant(base: Base, ref: Ref) -> Quant | None:
    value = next((v for v in base.graph.values if v.name == ref.name), None)
    part = value if value is not None else next(s for s in base.graph.steps if s.name == ref.name)
    quant = part.quant
    return None if quant is not None and quant.axis is not None else quant


def _with_reader(base: Base, reader: Step) -> Graph:
    return replace(base.graph, steps=(*base.graph.steps, reader), outputs=(*base.graph.outputs, Ref(reader.name)))


def _before(base: Base, reader: Step) -> Graph:
    place = base.graph.steps.index(base.step)
    steps = (*base.graph.steps[:place], reader, *base.graph.steps[place:])
    return replace(base.graph, steps=steps, outputs=(*base.graph.outputs, Ref(reader.name)))


def images(base: Base) -> Iterator[Variation]:
    """A first operand of four dimensions after a window, which may put channels last, beside others of all ranks."""
    ref = next(iter(base.operands), None)
    if ref is None or len(base.shape) != IMAGE or _is_constant(base, ref):
        return
    found = _after_others(base, (ref,), WINDOW, _quant(base, ref), ((1, 1),))
    yield "image", found
    for value in base.values[::-1]:
        has_one_scale = value.quant is None or value.quant.axis is None
        for rank in range(len(value.shape)) if value.name != ref.name and has_one_scale else ():
            shape = {value.name: {"shape": value.shape[len(value.shape) - rank :]}}
            yield f"image_{value.name}_of_rank_{rank}", replace(base, graph=found).with_values(shape)


SAME = object()
"""The neighbor's quantization is that of what it reads."""


def _after_others(base: Base, refs: tuple[Ref, ...], op: str, quant: Any = SAME, rest: tuple[Any, ...] = ()) -> Graph:
    place, names, before = base.graph.steps.index(base.step), dict[str, str](), list[Step]()
    for ref in refs:
        if ref.index == 0 and not _is_constant(base, ref):
            names[ref.name] = f"{ref.name}_after"
            made = _quant(base, ref) if quant is SAME else quant
            before.append(Step(names[ref.name], op, (ref, *rest), (), made))
    step = base.step
    graph = base.with_step(args=renamed(step.args, names), kwargs=renamed(step.kwargs, names))
    return replace(graph, steps=(*graph.steps[:place], *before, *graph.steps[place:]))


def _is_constant(base: Base, ref: Ref) -> bool:
    return any(v.name == ref.name and v.constant for v in base.graph.values)
