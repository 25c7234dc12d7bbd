"""A program as text: one line for each value and step."""

from __future__ import annotations

from typing import Any

from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value


def graph_text(graph: Graph) -> str:
    """Inputs and constants, then steps, then what is returned."""
    lines = [_value(value) for value in graph.values] + [_step(step) for step in graph.steps]
    return "\n".join([*lines, f"return {', '.join(map(argument_text, graph.outputs))}"])


def _value(value: Value) -> str:
    kind = "constant" if value.constant else "input"
    dtype = value.dtype if value.quant is None else _quant(value.quant)
    numbers = f"{value.fill.kind}{f' {value.fill.seed}' if value.fill.kind == 'random' else ''}"
    return f"{value.name} = {kind} {list(value.shape)} {dtype}, {numbers}"


def _quant(quant: Quant) -> str:
    scale = f"{quant.scale:g}" if isinstance(quant.scale, float | int) else f"{len(quant.scale)} of axis {quant.axis}"
    return f"{quant.dtype} [{quant.qmin}, {quant.qmax}] scale {scale} zero point {quant.zero_point}"


def _step(step: Step) -> str:
    dynamic = f", first operand quantized {step.dynamic}" if step.dynamic else ""
    quant = f" -> {_quant(step.quant)}" if step.quant is not None else ""
    return f"{step.name} = {step.op}({called_with(step)}){dynamic}{quant}"


def called_with(step: Step) -> str:
    """The arguments of a step, with the names of those that are given by name."""
    return ", ".join([*map(argument_text, step.args), *(f"{key}={argument_text(value)}" for key, value in step.kwargs)])


def argument_text(argument: Any) -> str:
    """An argument as Python has it, references by name."""
    if isinstance(argument, Ref):
        return f"{argument.name}[{argument.index}]" if argument.index else argument.name
    if isinstance(argument, tuple):
        return f"[{', '.join(map(argument_text, argument))}]"
    return repr(argument)
