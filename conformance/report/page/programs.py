"""Programs of cases for the page: every value, step and text is written once, and programs refer to them by number."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from npu_assay.conformance.common.escaped import plain
from npu_assay.conformance.fuzz.text import argument_text, called_with
from npu_assay.conformance.programs.graph import ChannelsLast, Fill, Graph, Quant, Step, Value, references

FULL = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}
"""The codes of a type that has nothing left out."""


class Numbered:
    """Things that are written once, by the number of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.all: list[Any] = []

    def of(self, key: Hashable, make: Callable[[], Any]) -> int:
        """The number of a thing, which is made when it is new."""
        if key not in self._numbers:
            self.all.append(make())
            self._numbers[key] = len(self.all) - 1
        return self._numbers[key]

    def text(self, text: str) -> int:
        """The number of a text, without control characters."""
        return self.of(text, lambda: plain(text))


class Programs:
    """The programs of all cases.

    A value is [name, kind, shape, type, quantization, numbers], a step [name, operator, arguments, names of operands,
    quantization], each a number of a text; a program [values, steps, outputs].
    """

    def __init__(self, texts: Numbered) -> None:
        self._texts = texts
        self.values, self.steps, self.programs = Numbered(), Numbered(), Numbered()

    def of(self, graph: Graph) -> int:
        """The number of a case's program."""
        values = [self.values.of(repr(value), partial(self._value, value)) for value in graph.values]
        steps = [self.steps.of(repr(step), partial(self._step, step)) for step in graph.steps]
        outputs = [self._texts.text(argument_text(ref)) for ref in graph.outputs]
        return self.programs.of((*values, -1, *steps, -1, *outputs), lambda: [values, steps, outputs])

    def _value(self, value: Value) -> list[int]:
        last = ", channels last" if isinstance(value, ChannelsLast) else ""
        kind = f"{'constant' if value.constant else 'input'}{last}"
        dtype = value.dtype if value.quant is None else value.quant.dtype
        quant = "" if value.quant is None else quant_text(value.quant)
        texts = (value.name, kind, shape_text(value), dtype, quant, fill_text(value.fill, value.quant))
        return list(map(self._texts.text, texts))

    def _step(self, step: Step) -> list[Any]:
        quant = "" if step.quant is None else f"{step.quant.dtype} {quant_text(step.quant)}"
        operands = dict.fromkeys(ref.name for ref in references((step.args, tuple(v for _, v in step.kwargs))))
        called = called_with(step) + (f" (first operand quantized {step.dynamic})" if step.dynamic else "")
        texts = self._texts.text
        return [texts(step.name), texts(step.op), texts(called), list(map(texts, operands)), texts(quant)]


def shape_text(value: Value) -> str:
    """The shape, "scalar" for none; dynamic sizes have a star after them."""
    sizes = [f"{size}*" if axis in value.dynamic else str(size) for axis, size in enumerate(value.shape)]
    return " x ".join(sizes) or "scalar"


def quant_text(quant: Quant) -> str:
    """Scale and zero point, and what is unusual: a scale for each channel or group, codes that are left out."""
    if isinstance(quant.scale, tuple):
        many = "group" if quant.group is not None else "channel"
        size = f" of {quant.group}" if quant.group is not None else f" of axis {quant.axis}"
        low, high = min(quant.scale), max(quant.scale)
        scale = f"{len(quant.scale)} scales, one per {many}{size}, {low:g} to {high:g}"
    else:
        scale = f"scale {quant.scale:g}"
    codes = (quant.qmin, quant.qmax)
    left_out = "" if codes == FULL.get(quant.dtype) else f", codes {quant.qmin} to {quant.qmax}"
    return f"{scale}, zero point {quant.zero_point}{left_out}"


def fill_text(fill: Fill, quant: Quant | None) -> str:
    """The numbers of a value in words."""
    what = "numbers" if quant is None else "codes"
    match fill.kind:
        case "random":
            return f"random {what}, seed {fill.seed}"
        case "one_hot":
            return f"the largest at {fill.index}, zero elsewhere"
        case "list" | "reals":
            some = ", ".join(f"{value:g}" for value in fill.values[:8])
            return f"{some}{', ...' if len(fill.values) > 8 else ''}"
        case "all_codes" | "ramp":
            return "one after another, from the smallest on"
        case "alternating":
            return "smallest and largest in turn"
    return {"min": "all the smallest", "max": "all the largest", "zero": "all zero"}.get(fill.kind, fill.kind)
