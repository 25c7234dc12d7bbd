"""Which elements of its inputs and constants an element of an output is computed from, as torch's gradient has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from npu_assay.conformance.programs.build import materialise, module
from npu_assay.conformance.programs.graph import Graph, Value
from npu_assay.conformance.record.results import Number, rounded


class Influence:
    """The program on real numbers, without its quantization, ready to be asked. For readers: no verdict needs it."""

    def __init__(self, graph: Graph) -> None:
        self._values = graph.values
        self._given = [_leaf(value) for value in graph.values]
        plain = replace(
            graph,
            values=tuple(replace(value, quant=None, constant=False, dtype="float32") for value in graph.values),
            steps=tuple(replace(step, quant=None, dynamic=None) for step in graph.steps),
        )
        try:
            with torch.enable_grad():
                self._outputs = list[Tensor](module(plain)(*self._given))
        except (RuntimeError, TypeError, ValueError):  # an operator that torch does not compute on these types
            self._outputs = []

    def on(self, output: int, index: Sequence[int]) -> Iterator[tuple[str, Number]]:
        """Names of values, each with its one element that counts, or with the smallest box that holds all of these.

        A box is written as a slice: `[0, :, 2:5, 3:6]`. Values of which none counts, or without gradient, are left out.
        """
        asked = [each for each in self._given if each.requires_grad]
        try:
            found = torch.autograd.grad(
                self._outputs[output][tuple(index)], asked, retain_graph=True, allow_unused=True
            )
        except (IndexError, RuntimeError):  # a result that has no gradient, such as indices
            return
        gradients = iter(found)
        for value, given in zip(self._values, self._given, strict=True):
            gradient = next(gradients) if given.requires_grad else None
            if gradient is not None and gradient.count_nonzero():
                low, high = (pick(gradient.nonzero(), 0) for pick in (torch.amin, torch.amax))
                one = bool((low == high).all())
                yield value.name, number_at(value, low.tolist()) if one else _box(low, high, value.shape)


def _leaf(value: Value) -> Tensor:
    """The value's numbers; codes from the zero point, times their scale: several scales change no dependence."""
    numbers = materialise(value)
    if value.quant is not None:
        scale = value.quant.scale
        numbers = (numbers.to(torch.float32) - value.quant.zero_point) * (1.0 if isinstance(scale, tuple) else scale)
    return numbers.clone().requires_grad_() if numbers.is_floating_point() else numbers


def number_at(value: Value, index: Sequence[int]) -> Number:
    """The code or the number at an index."""
    numbers = materialise(value)
    number = numbers[tuple(index)].item()
    return rounded(float(number)) if numbers.is_floating_point() else int(number)


def _box(low: Tensor, high: Tensor, shape: Sequence[int]) -> str:
    return f"[{', '.join(map(_range, low.tolist(), high.tolist(), shape))}]"


def _range(low: int, high: int, size: int) -> str:
    if low == high:
        return str(low)
    return ":" if (low, high) == (0, size - 1) else f"{low}:{high + 1}"
