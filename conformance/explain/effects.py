"""What the error of each layer does to the results of the model, to first order.

The derivatives are those of the model without its quantization, so that small channels count as far as the model makes
something of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from npu_assay.partitioners.exir.ops import DEQUANTIZE, DEQUANTIZE_DYNAMIC, QUANTIZE, QUANTIZE_DYNAMIC, target_name

DIRECTIONS = 4
"""Random directions of the results along which errors are followed back; their mean is the power at the results."""
CONVERTING = QUANTIZE | DEQUANTIZE | QUANTIZE_DYNAMIC | DEQUANTIZE_DYNAMIC


@dataclass(frozen=True)
class Effects:
    """Powers: of the model's results, and of what each layer's error makes of them.

    ranges: the smallest and the largest result of each layer where nothing is quantized.
    """

    signal: float
    noise: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


class _Straight(fx.Interpreter):
    """Runs a quantized model without its quantization; `known` are the results that have derivatives."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.known: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        """The node's value; numbers instead of their codes."""
        if n.op == "call_function" and target_name(n.target) in CONVERTING:
            source = self.fetch_args_kwargs_from_env(n)[0][0]
            if isinstance(source, Tensor) and source.is_floating_point():
                return source
        found = super().run_node(n)
        if n.op in ("placeholder", "call_function") and isinstance(found, Tensor) and found.is_floating_point():
            found = found if found.requires_grad else found.detach().requires_grad_()
            self.known[n.name] = found
        return found

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator that writes gets copies: what has derivatives is not written."""
        schema = getattr(target, "_schema", None)
        if schema is not None and schema.is_mutable:
            args = pytree.tree_map_only(Tensor, torch.clone, args)
        return super().call_function(target, args, kwargs)


def effects_of(module: fx.GraphModule, inputs: Sequence[Any], errors: Mapping[str, Tensor]) -> Effects:
    """What errors of the layers of these names do to the results. Raises RuntimeError where torch has no derivative."""
    running = _Straight(module)
    with torch.enable_grad():
        results = pytree.tree_leaves(running.run(*inputs))
    results = [y for y in results if isinstance(y, Tensor) and y.is_floating_point() and y.requires_grad]
    signal = sum(float((y.detach().double() ** 2).sum()) for y in results)
    names = [name for name, error in errors.items() if name in running.known]
    known = {name: found.detach() for name, found in running.known.items() if found.numel()}
    ranges = {name: (float(found.min()), float(found.max())) for name, found in known.items()}
    if not results or not names:
        return Effects(signal, {}, ranges)
    noise = dict.fromkeys(names, 0.0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(DIRECTIONS):
        along = [torch.randn(y.shape, generator=generator).to(y.dtype) for y in results]
        derivatives = torch.autograd.grad(
            results, [running.known[name] for name in names], along, retain_graph=True, allow_unused=True
        )
        for name, each in zip(names, derivatives, strict=True):
            if each is not None:
                moved = float((each.double() * errors[name].double()).nan_to_num(0.0, 0.0, 0.0).sum())
                noise[name] += moved**2 / DIRECTIONS
    return Effects(signal, noise, ranges)
