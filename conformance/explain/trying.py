"""Trying what a user could write instead: a small model of it, brought to the backend as the user's model was."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional

from npu_assay.conformance.cases.boundaries.knob import subject
from npu_assay.conformance.explain.lowered import lower, operators_in
from npu_assay.conformance.explain.models import model_of, quantize
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import is_quantize

Form = Callable[[Tensor], Tensor]
FORMS: Mapping[str, Mapping[str, Form]] = {
    "silu": {
        "x * torch.sigmoid(x)": lambda x: x * torch.sigmoid(x),
        "F.silu(x)": functional.silu,
    },
    "hardswish": {
        "F.hardswish(x)": functional.hardswish,
        "x * F.hardsigmoid(x)": lambda x: x * functional.hardsigmoid(x),
        "x * F.relu6(x + 3) / 6": lambda x: x * functional.relu6(x + 3) / 6,
    },
    "hardsigmoid": {
        "F.hardsigmoid(x)": functional.hardsigmoid,
        "F.relu6(x + 3) / 6": lambda x: functional.relu6(x + 3) / 6,
        "torch.clamp(x * (1 / 6) + 0.5, 0, 1)": lambda x: torch.clamp(x * (1 / 6) + 0.5, 0, 1),
    },
}
"""Functions of one tensor by torch's names for them, and how they are written; each form gives the same numbers."""
SIMILAR: Mapping[str, tuple[str, Form]] = {
    "hardswish": ("x * torch.sigmoid(x)", lambda x: x * torch.sigmoid(x)),
    "hardsigmoid": ("torch.sigmoid(x)", torch.sigmoid),
    "gelu": ("x * torch.sigmoid(1.702 * x)", lambda x: x * torch.sigmoid(1.702 * x)),
    "mish": ("x * torch.sigmoid(x)", lambda x: x * torch.sigmoid(x)),
}
"""A function of nearly the same numbers."""


def name_of(label: str) -> str:
    """The function that a module, an operator or a line stands for: "silu" of SiLU and of `y * torch.sigmoid(y)`."""
    plain = label.lower().replace("_", "")
    if plain in FORMS or plain in SIMILAR:
        return plain
    return next((name for name, forms in FORMS.items() if _shape(label) in map(_shape, forms)), "")


def _shape(text: str) -> str:
    """A line without blanks and the names of torch's modules, its variables as `x`."""
    plain = re.sub(r"\s|\b(torch|nn|functional|F)\.", "", text)
    return re.sub(r"\b(?!\d)\w+\b(?!\()", "x", plain)


@dataclass
class Trying:
    """Answers of one backend, each kept. quantizer: makes the one that the model was quantized with."""

    backend: Backend
    quantizer: Callable[[], Any]
    known: dict[tuple[Any, ...], bool] = field(default_factory=dict)

    def advice(self, label: str, shape: tuple[int, ...]) -> str:
        """Another way to write the function that this stands for, which the backend takes whole; "" for none."""
        name = name_of(label)
        for text, form in FORMS.get(name, {}).items():
            if _shape(text) != _shape(label) and self._takes(text, form, shape):
                return f"write it as {text}, which gives the same: this backend takes that whole"
        for text, form in [SIMILAR[name]] if name in SIMILAR else []:
            if self._takes(text, form, shape):
                return f"this backend takes {text} whole, which gives nearly the same: train the model with that"
        return ""

    def knows(self, graph: Graph) -> bool:
        """True if the quantizer gives codes to the results of an exported operator where its operands have codes."""
        op = subject(graph).op
        key = (op, tuple(value.shape for value in graph.values))
        if key not in self.known:
            self.known[key] = self._gives_codes(graph, op)
        return self.known[key]

    def _gives_codes(self, graph: Graph, op: str) -> bool:
        values = tuple(replace(value, quant=None) for value in graph.values)
        plain = replace(graph, values=values, steps=tuple(replace(step, quant=None) for step in graph.steps))
        try:
            quantized = self._quantized(_Behind(module(plain)), model_inputs(plain))
        except Exception:  # noqa: BLE001  (torch raises anything for what is no program)
            return False
        made = (node for node in operators_in(quantized.graph) if target_name(node.target) == op)
        return any(is_quantize(user) for node in made for each in (node, *node.users) for user in each.users)

    def _takes(self, text: str, form: Form, shape: tuple[int, ...]) -> bool:
        if (key := (text, shape)) not in self.known:
            x = torch.linspace(-4, 4, prod(shape)).reshape(shape)
            try:
                lowered = lower(self._quantized(nn.Sequential(_Behind(form), nn.ReLU()), (x,)), self.backend)
            except Exception:  # noqa: BLE001  (a backend may raise anything)
                return False
            self.known[key] = all(one.delegate is not None for one in lowered.operators)
        return self.known[key]

    def _quantized(self, tried: nn.Module, inputs: tuple[Tensor, ...]) -> ExportedProgram:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            model = model_of(torch.export.export(tried.eval(), inputs), [inputs])
            return quantize(model, self.quantizer(), [inputs]).program


class _Behind(nn.Module):
    """A function of what activations give."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*(functional.relu(x) if x.is_floating_point() else x for x in inputs))
