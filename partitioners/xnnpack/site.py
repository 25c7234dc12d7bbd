"""What a rule looks at: one operator with its configuration, in the program it stands in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import torch
from torch import fx

from npu_assay.partitioners.exir import rules
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.xnnpack.linear import Places, Product, product
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType, Options
from npu_assay.partitioners.xnnpack.patterns import StaticForm, is_dequantize, result_path, static_form


@dataclass(frozen=True)
class Program:
    """What is known about a program: its constants by placeholder name (None: data not known), and the options."""

    constants: Mapping[str, torch.Tensor | None] = field(default_factory=dict)
    options: Options = field(default_factory=Options)

    def is_constant(self, node: object) -> bool:
        """Whether it is a parameter, buffer or lifted constant."""
        if not isinstance(node, fx.Node):
            return False
        return node.op == "get_attr" or (node.op == "placeholder" and node.name in self.constants)

    def data(self, node: object) -> torch.Tensor | None:
        """A constant's tensor; None when it is not one or its data is not known."""
        return self.constants.get(node.name) if isinstance(node, fx.Node) else None


@dataclass(frozen=True)
class Site:
    """One operator, judged by a config: `precisions` are those enabled, `fused` the activations it can be fused with.

    `on_codes` says whether it has arithmetic on int8 codes; without, it is computed on the dequantized numbers.
    `places` says where the operands of a matrix product or convolution stand; None for other operators.
    """

    node: fx.Node
    program: Program
    precisions: tuple[ConfigPrecisionType, ...]
    fused: frozenset[str] = frozenset()
    on_codes: bool = True
    places: Places | None = None

    @cached_property
    def static(self) -> StaticForm | None:
        """How the operator is computed on int8 codes, or None when it is computed on real numbers."""
        if self.places is not None or not self.on_codes or ConfigPrecisionType.STATIC_QUANT not in self.precisions:
            return None
        return static_form(self.node, self.fused)

    @cached_property
    def product(self) -> Product | None:
        """The operands of a matrix product or convolution; None for any other operator."""
        return None if self.places is None else product(self.node, self.places, self.precisions)

    @cached_property
    def is_overridden(self) -> bool:
        """Whether only FP32 is enabled, so that a product of codes is computed on the dequantized numbers."""
        weight = None if self.product is None else self.product.weight
        return self.precisions == (ConfigPrecisionType.FP32,) and is_dequantize(weight)

    @cached_property
    def coded(self) -> tuple[fx.Node, ...]:
        """The per-tensor quantize and dequantize nodes whose parameters the operator's arithmetic uses."""
        if qparams(self.node) is not None:
            return (self.node,)
        if self.static is not None:
            return (*self.static.inputs, self.static.output)
        if self.product is None or self.product.precision is not ConfigPrecisionType.STATIC_QUANT:
            return ()
        ends = (self.product.activation, result_path(self.node, self.fused)[1])
        return tuple(end for end in ends if end is not None and qparams(end) is not None)


Rule: TypeAlias = rules.Rule[Site]
"""A limit of XNNPACK."""
