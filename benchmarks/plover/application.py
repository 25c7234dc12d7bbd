"""What a rule of plover reads of a node: operands, arguments, sizes and windows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx


class Tensor:
    """What a rule reads of an operand, or of the result."""

    def __init__(self, node: fx.Node, quantized: fx.Node | None) -> None:
        value = node.meta["val"]
        self.shape = tuple((value[0] if isinstance(value, (list, tuple)) else value).shape)
        self.rank, self.elements = len(self.shape), math.prod(self.shape)
        given: Any = quantized.args if quantized is not None and "quantize" in str(quantized.target) else ()
        self.is_per_channel = bool(given) and "per_channel" in str(quantized)
        scales: tuple[Any, Any] = given[1:3] if given and not self.is_per_channel else (None, None)
        self.scale, self.zero_point = scales
        self.dtype = next((each for each in reversed(given) if isinstance(each, torch.dtype)), None)
        self.bytes = self.elements * (self.dtype.itemsize if self.dtype else 4)
        while node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
            node = node.args[0]
        self.is_constant = node.name.startswith(("b_", "c_", "p_"))


class Application:
    """One node: `x`, `y` and `out`, its arguments by name, and what follows from them."""

    def __init__(self, node: fx.Node) -> None:
        target: Any = node.target
        schema, self.name = target._schema.arguments, str(target)
        given = dict(zip((a.name for a in schema), node.args, strict=False)) | node.kwargs
        named = {a.name: self._read(given.get(a.name, a.default_value)) for a in schema}
        tensors = [t for each in named.values() for t in (each if isinstance(each, list) else [each])]
        operands = [t for t in tensors if isinstance(t, Tensor)]
        self.out = Tensor(node, self._after(node))
        self.out.is_constant = False
        counted = self.out.rank if "unsqueeze" in node.name else operands[0].rank
        for name, found in named.items():
            setattr(self, name, self._front(found, counted) if name.startswith("dim") else found)
        self.x, self.y = operands[0], operands[1] if len(operands) > 1 else None
        self.number = next((each for each in named.values() if type(each) in (int, float)), None)
        shape = self.x.shape
        self.batch, self.channels = (*shape[:2], None, None)[:2]
        self.height, self.width = (None, None, *shape)[-2:]
        if len(shape) < 4:
            self.height = None
        self._windows(named)

    def _after(self, node: fx.Node) -> fx.Node | None:
        user = next(iter(node.users), None)
        while user is not None and "quantize" not in str(user.target):
            user = next(iter(user.users), None)
        return user

    def _read(self, given: Any) -> Any:
        if isinstance(given, fx.Node):
            return Tensor(given, given)
        return [self._read(each) for each in given] if isinstance(given, (list, tuple)) else given

    def _front(self, found: Any, rank: int) -> Any:
        if isinstance(found, list):
            return [self._front(each, rank) for each in found]
        return found + rank if type(found) is int and found < 0 else found

    def _windows(self, named: dict[str, Any]) -> None:
        weight = named.get("weight") if "stride" in named else None
        self.directions = next((int(n) for n in "123" if f"pool{n}d" in self.name), self.x.rank - 2)
        kernel = list(weight.shape[2:]) if weight else named.get("kernel_size") or []
        for kind, found in (("kernel", kernel), *((k, named.get(k)) for k in ("stride", "padding", "dilation"))):
            sizes = (found or kernel) if kind == "stride" else found if found is not None else []
            sizes = [sizes] if isinstance(sizes, int) else sizes
            sizes = list(sizes) * self.directions if len(sizes) == 1 else list(sizes)
            for direction, size in zip("whd", reversed(sizes), strict=False):
                setattr(self, f"{kind}_{direction}", size)
        if weight:
            self.in_channels, self.out_channels = self.x.shape[1], self.out.shape[1]
        if "min" in named:
            self.bounds = (named["min"], named["max"])
