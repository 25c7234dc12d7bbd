"""What the vendors' quantizers share: specifications of int8 tensors for torchao's PT2E flow.

Needs the extra `quantize` (torchao); nothing else in this package imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npu_assay.partitioners.exir.constants_clamped import clamp_constants, warn_clamped
from npu_assay.partitioners.exir.observers import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver
from npu_assay.partitioners.exir.pt2e import DerivedQuantizationSpec, QuantizationSpec

ANNOTATION = "quantization_annotation"
"""The key in `node.meta` under which torchao looks for a node's annotation."""
SMALLEST_SCALE = 2.0**-12
"""The smallest scale that observers choose; a tensor that needs a smaller one gets a `ClampedScaleWarning`."""
INFINITIES = (-256.0, 255.0)
"""The numbers that replace infinite ones in constants: the default of ExecuTorch 1.5.1's passes for Arm."""


def activation_spec(smallest: float = SMALLEST_SCALE, symmetric: bool = False) -> QuantizationSpec:
    """int8 [-128, 127], per-tensor affine, zero point 0 if symmetric; `smallest` is the smallest scale."""
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=smallest),
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
    )


def weight_spec(axis: int | None, smallest: float = SMALLEST_SCALE) -> QuantizationSpec:
    """int8 [-127, 127], symmetric; per channel along `axis`, per tensor for None."""
    observer = MinMaxObserver if axis is None else PerChannelMinMaxObserver
    scheme = torch.per_tensor_symmetric if axis is None else torch.per_channel_symmetric
    options: dict[str, Any] = {"eps": smallest} | ({} if axis is None else {"ch_axis": axis})
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=observer.with_args(**options),
        quant_min=-127,
        quant_max=127,
        qscheme=scheme,
        ch_axis=axis,
    )


def bias_spec(
    node: Node, data: Node, weight: Node, per_channel: bool, derive: Callable[..., Any]
) -> DerivedQuantizationSpec:
    """int32 and zero point 0, with the scales that `derive` makes of the observers of input and weights."""
    return DerivedQuantizationSpec(
        derived_from=((data, node), (weight, node)),
        derive_qparams_fn=derive,
        dtype=torch.int32,
        quant_min=-(2**31) + 1,
        quant_max=2**31 - 1,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
        ch_axis=0 if per_channel else None,
    )


def is_float(node: Node) -> bool:
    """Whether the node's value is a tensor of float32 numbers: quantize nodes take no others."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def has_other_reals(node: Node) -> bool:
    """Whether the operator takes or gives real numbers of another type, which stay as they are."""
    values = (member.meta.get("val") for member in (node, *node.all_input_nodes))
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return any(value.is_floating_point() and value.dtype != torch.float32 for value in tensors)


def finite_constants(model: GraphModule, quantizer: str, annotate: Callable[[GraphModule], object]) -> None:
    """Give operators that `annotate` would quantize finite constants; a ClampedConstantWarning names those replaced.

    Otherwise an observer ignores the infinite numbers of a mask, and all its codes mean zero. quantizer: its name in
    the warning.
    """
    before = {node: node.meta[ANNOTATION] for node in model.graph.nodes if ANNOTATION in node.meta}
    annotate(model)
    readers = [node for node in model.graph.nodes if ANNOTATION in node.meta and node.op == "call_function"]
    for node in model.graph.nodes:
        node.meta.pop(ANNOTATION, None)
        if node in before:
            node.meta[ANNOTATION] = before[node]
    warn_clamped(quantizer, clamp_constants(model, readers, *INFINITIES), *INFINITIES)


def check_annotations(model: GraphModule) -> None:
    """Every annotated input must be one of the node's inputs; raises ValueError naming the node."""
    for node in model.graph.nodes:
        annotation = node.meta.get(ANNOTATION)
        stray = [] if annotation is None else [n for n in annotation.input_qspec_map if n not in node.all_input_nodes]
        if stray:
            raise ValueError(f"{node.name}: annotated input {stray[0].name} is not one of its inputs")
