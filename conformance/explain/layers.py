"""Where error enters: each layer of a quantised model by itself, against its float64 golden on the inputs that it gets.

A layer's own error is that of its result, as those behind it read it, against the same operator in float64 on the same
(already wrong) inputs and the weights as they were before they were quantised. What it inherits does not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from npu_assay.conformance.explain.cures import Seen, cures
from npu_assay.conformance.explain.origins import module_of, source_of
from npu_assay.conformance.explain.record import Layer
from npu_assay.conformance.outline import NO_WORK
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, target_name

Constants = Mapping[str, Mapping[int, Tensor]]
"""Real constants of operators, by the operator's node and the place among its arguments."""


def constants_of(module: fx.GraphModule) -> Constants:
    """The real constants of a model's operators, seen through observers. Read them before the model is converted."""
    known = dict(module.named_parameters()) | dict(module.named_buffers())
    found: dict[str, dict[int, Tensor]] = {}
    for node in module.graph.nodes:
        for place, argument in enumerate(node.args) if node.op == "call_function" else ():
            source = _behind_observers(argument)
            if source is not None and isinstance(data := known.get(str(source.target)), Tensor):
                found.setdefault(node.name, {})[place] = data.detach()
    return found


def _behind_observers(argument: Any) -> fx.Node | None:
    """The constant that an argument is, or None."""
    while isinstance(argument, fx.Node) and argument.op == "call_module" and argument.args:
        argument = argument.args[0]
    return argument if isinstance(argument, fx.Node) and argument.op == "get_attr" else None


def infinite_of(program: ExportedProgram) -> frozenset[str]:
    """The operators that take a constant with infinities, which no code stands for."""
    module = program.module()
    assert isinstance(module, fx.GraphModule)
    constants = constants_of(module)
    return frozenset(name for name, own in constants.items() if any(bool(c.isinf().any()) for c in own.values()))


class _Watched(fx.Interpreter):
    """Runs a converted model, and each of its layers once more in float64."""

    def __init__(self, module: fx.GraphModule, constants: Constants, infinite: frozenset[str]) -> None:
        super().__init__(module)
        self.constants, self.infinite = constants, infinite
        self.seen: dict[str, Seen] = {}
        self.golden: dict[fx.Node, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        """The node's value, as it is."""
        found = super().run_node(n)
        if _is_layer(n) and isinstance(found, Tensor) and found.is_floating_point():
            self._look_at(n, found)
        elif _is_dequantize(n):
            self._look_behind(n, found)
        return found

    def _look_at(self, node: fx.Node, found: Tensor) -> None:
        """A layer: its golden; where nothing quantises its result, its error as well."""
        seen = self.seen.setdefault(node.name, Seen(node, infinite=node.name in self.infinite))
        golden = self._golden(node, seen)
        if golden is None or golden.shape != found.shape:
            return
        self.golden[node] = golden
        if not any(_is_quantize(user) for user in node.users):
            _add(seen, golden, found)

    def _golden(self, node: fx.Node, seen: Seen) -> Tensor | None:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        given = list(args)
        for place, real in self.constants.get(node.name, {}).items():
            if isinstance(given[place], Tensor) and given[place].shape == real.shape:
                seen.weights[place] = (real, given[place], _is_per_tensor(node.args[place]))
                given[place] = real
        function: Any = node.target
        try:
            result = function(*fx.node.map_aggregate(tuple(given), _wide), **fx.node.map_aggregate(dict(kwargs), _wide))
        except (RuntimeError, TypeError, NotImplementedError):  # it has no float64, or an argument says float32
            return None
        return result if isinstance(result, Tensor) and result.dtype == torch.float64 else None

    def _look_behind(self, node: fx.Node, found: Tensor) -> None:
        """A dequantize node: the result of a layer as others read it."""
        quantize = node.args[0]
        if not isinstance(quantize, fx.Node) or not _is_quantize(quantize):
            return
        layer = quantize.args[0]
        if isinstance(layer, fx.Node) and layer in self.golden and layer.name in self.seen:
            seen, golden = self.seen[layer.name], self.golden.pop(layer)
            seen.grid = _range(quantize)
            seen.shared = any(_range(each) == seen.grid for each in layer.all_input_nodes if _is_dequantize(each))
            _add(seen, golden, found)


def _wide(x: Any) -> Any:
    return x.to(torch.float64) if isinstance(x, Tensor) and x.is_floating_point() else x


def _is_layer(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) not in NO_WORK


def _is_quantize(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) in QUANTIZE


def _is_dequantize(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) in DEQUANTIZE


def _is_per_tensor(argument: Any) -> bool:
    return isinstance(argument, fx.Node) and "per_tensor" in str(argument.target)


def _range(quantize: fx.Node) -> tuple[float, float] | None:
    """The smallest and largest number that the codes of a quantize or dequantize node stand for."""
    scale, *rest = quantize.args[1:5]
    if not isinstance(scale, float) or not all(isinstance(each, int) for each in rest):
        return None
    zero, low, high = (int(each) for each in rest)  # type: ignore[arg-type]
    return scale * (low - zero), scale * (high - zero)


def _add(seen: Seen, golden: Tensor, found: Tensor) -> None:
    away = torch.where(golden == found, 0.0, golden - found.to(torch.float64))
    seen.signal += float((golden**2).sum())
    seen.noise += float((away**2).sum())
    seen.count += golden.numel()
    if golden.numel():
        seen.low, seen.high = min(seen.low, float(golden.min())), max(seen.high, float(golden.max()))
    if seen.grid is not None:
        low, high = seen.grid
        step = (high - low) / 255
        seen.clipped += int(((golden < low - step) | (golden > high + step)).sum())


# ------------------------------------------------------------------------------------ what was seen


def layers_of(
    converted: nn.Module, constants: Constants, infinite: frozenset[str], inputs: Sequence[Sequence[Any]]
) -> tuple[Layer, ...]:
    """The layers of a quantised model, those that add most of what is wrong first."""
    assert isinstance(converted, fx.GraphModule)
    watched = _Watched(converted, constants, infinite)
    with torch.no_grad():
        for each in inputs:
            watched.golden.clear()
            watched.run(*each)
    found = [_layer(seen) for seen in watched.seen.values() if seen.count]
    return tuple(sorted(found, key=_worst))


def _worst(layer: Layer) -> tuple[bool, float]:
    return not layer.infinite, math.inf if layer.own is None else layer.own


def _layer(seen: Seen) -> Layer:
    module, kind = module_of(seen.node)
    source, code = source_of(seen.node)
    own = None
    if 0 < seen.signal < math.inf and 0 < seen.noise < math.inf:
        own = round(10 * math.log10(seen.signal / seen.noise), 2)
    name = target_name(seen.node.target)
    clipped = round(seen.clipped / seen.count, 4)
    return Layer(seen.node.name, name, module, kind, source, code, own, clipped, seen.infinite, tuple(cures(seen)))
