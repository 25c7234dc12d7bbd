"""Where error enters: each layer of a quantized model by itself, against its float64 golden on the inputs that it gets.

A layer's own error is that of its result, as those after it read it, against the same operator in float64 on the same
(already wrong) inputs and the weights as they were before they were quantized. What it inherits does not count. Where
the device's codes are known, they are the results, and what the next layers get.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from npu_assay.conformance.explain.cures import CLIPPED, POOR, SEEN, Power, Seen, cures
from npu_assay.conformance.explain.effects import Effects, effects_of
from npu_assay.conformance.explain.inside import Codes
from npu_assay.conformance.explain.origins import module_of, place_of, source_of
from npu_assay.conformance.explain.record import Layer
from npu_assay.conformance.run.outline import NO_WORK
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import is_dequantize, is_quantize

INPUT = "input"
"""Stands for the operator of a model input."""
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


def infinite_of(module: fx.GraphModule) -> frozenset[str]:
    """The operators that take a constant with infinities, which no code stands for."""
    constants = constants_of(module)
    return frozenset(name for name, own in constants.items() if any(bool(c.isinf().any()) for c in own.values()))


@dataclass(frozen=True)
class _Golden:
    """A layer's result in float64: with its real constants, and with those that its codes stand for."""

    real: Tensor
    coded: Tensor


class _Watched(fx.Interpreter):
    """Runs a quantized model, and each of its layers once more in float64. codes: what the device gave instead."""

    def __init__(self, module: fx.GraphModule, constants: Constants, infinite: frozenset[str]) -> None:
        super().__init__(module)
        self.constants, self.infinite = constants, infinite
        self.seen: dict[str, Seen] = {}
        self.golden: dict[fx.Node, _Golden] = {}
        self.codes: Codes = {}
        self.errors: dict[str, Tensor] = {}
        self.calls = Counter(each.data_ptr() for own in constants.values() for each in own.values())

    def run_node(self, n: fx.Node) -> Any:
        """The node's value, as it is."""
        found = super().run_node(n)
        if _is_layer(n) and isinstance(found, Tensor) and found.is_floating_point():
            self._look_at(n, found)
        elif is_dequantize(n):
            self._look_behind(n, found)
        elif n.name in self.codes:
            found = self._device(n, found)
        return found

    def _device(self, node: fx.Node, found: Tensor) -> Tensor:
        """The device's codes in place of torch's."""
        codes = self.codes[node.name].to(found.dtype)
        if found.numel():
            seen = self._seen(layer := coded_by(node))
            seen.apart = max(seen.apart or 0, int((codes.long() - found.long()).abs().max()))
            seen.joined = tuple(dict.fromkeys(_joined(layer)))
        return codes

    def _seen(self, layer: fx.Node) -> Seen:
        return self.seen.setdefault(layer.name, Seen(layer, infinite=layer.name in self.infinite))

    def _look_at(self, node: fx.Node, found: Tensor) -> None:
        """A layer: its golden; where nothing quantizes its result, its error as well."""
        seen = self._seen(node)
        golden = self._golden(node, seen) if node.op == "call_function" else _Golden(_wide(found), _wide(found))
        if golden is None or golden.real.shape != found.shape:
            return
        self.golden[node] = golden
        if not any(is_quantize(user) for user in node.users):
            self._add(seen, golden, found)

    def _golden(self, node: fx.Node, seen: Seen) -> _Golden | None:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        real = list(args)
        for place, constant in self.constants.get(node.name, {}).items():
            if isinstance(real[place], Tensor) and real[place].shape == constant.shape:
                seen.weights[place] = (constant, real[place].detach(), _is_per_tensor(node.args[place]))
                seen.calls = max(seen.calls, self.calls[constant.data_ptr()])
                real[place] = constant
        try:
            found = [_computed(node, given, kwargs) for given in (real, args)]
        except (RuntimeError, TypeError, NotImplementedError):  # it has no float64, or an argument says float32
            return None
        if not all(isinstance(each, Tensor) and each.dtype == torch.float64 for each in found):
            return None
        return _Golden(*found)

    def _look_behind(self, node: fx.Node, found: Tensor) -> None:
        """A dequantize node: the result of a layer as others read it."""
        quantize = node.args[0]
        if not isinstance(quantize, fx.Node) or not is_quantize(quantize):
            return
        layer = quantize.args[0]
        if isinstance(layer, fx.Node) and layer in self.golden:
            seen, golden = self.seen[layer.name], self.golden.pop(layer)
            seen.grid = _range(quantize)
            seen.shared = any(_range(each) == seen.grid for each in layer.all_input_nodes if is_dequantize(each))
            self._add(seen, golden, found)

    def _add(self, seen: Seen, golden: _Golden, found: Tensor) -> None:
        """Count what a layer gave beside what it had to."""
        error = self.errors[seen.node.name] = _away(golden.real, _wide(found))
        _count(seen, golden, error)


def _computed(node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The operator in float64."""
    function: Any = node.target
    return function(*fx.node.map_aggregate(tuple(args), _wide), **fx.node.map_aggregate(dict(kwargs), _wide))


def _wide(x: Any) -> Any:
    return x.to(torch.float64) if isinstance(x, Tensor) and x.is_floating_point() else x


def _is_layer(node: fx.Node) -> bool:
    """Whether its results may be quantized: an operator that does more than to convert, or a model input."""
    return node.op == "placeholder" or (node.op == "call_function" and target_name(node.target) not in NO_WORK)


def coded_by(quantize: fx.Node) -> fx.Node:
    """The layer that a quantize node is part of: the one before it, or, where there are codes already, the next one."""
    layer = quantize.args[0]
    assert isinstance(layer, fx.Node)
    while not _is_layer(layer) and quantize.users:
        layer = quantize = next(iter(quantize.users))
    return layer


def _joined(layer: fx.Node) -> Iterator[str]:
    """The operators that a layer's result is computed with since the last codes, the first one first."""
    for each in layer.all_input_nodes:
        if each.op == "call_function" and _is_layer(each):
            yield from _joined(each)
            yield each.name


def _is_per_tensor(argument: Any) -> bool:
    return isinstance(argument, fx.Node) and "per_tensor" in str(argument.target)


def _range(quantize: fx.Node) -> tuple[float, float] | None:
    """The smallest and largest number that the codes of a quantize or dequantize node stand for."""
    scale, *rest = quantize.args[1:5]
    if not isinstance(scale, float) or not all(isinstance(each, int) for each in rest):
        return None
    zero, low, high = (int(each) for each in rest)  # type: ignore[arg-type]
    return scale * (low - zero), scale * (high - zero)


def _count(seen: Seen, golden: _Golden, error: Tensor) -> None:
    real = golden.real
    power = Power(_power(real), _power(error), _power(_away(real, golden.coded)))
    seen.power = power if seen.power is None else seen.power.plus(power)
    seen.count += real.numel()
    if real.numel():
        seen.low, seen.high = min(seen.low, float(real.min())), max(seen.high, float(real.max()))
    if seen.grid is not None:
        low, high = seen.grid
        step = (high - low) / 255
        seen.clipped += int(((real < low - step) | (real > high + step)).sum())
        seen.vanished += int(((real != 0) & (real.abs() < step / 2)).sum())


def _away(wanted: Tensor, given: Tensor) -> Tensor:
    return torch.where(wanted == given, 0.0, wanted - given)


def _power(numbers: Tensor) -> Tensor:
    """Sums of squares by channel: axis 1 of images and what has more dimensions, the last of all else."""
    rank = numbers.dim()
    channel = 1 if rank > 3 else rank - 1
    return (numbers**2).sum([axis for axis in range(rank) if axis != channel]) if rank > 1 else (numbers**2).sum()


# ------------------------------------------------------------------------------------ what was seen


def look_at(
    module: fx.GraphModule,
    constants: Constants,
    infinite: frozenset[str],
    runs: Sequence[tuple[Sequence[Any], Codes]],
) -> list[Seen]:
    """What each layer of a quantized program, as a module, showed, in the program's order.

    constants: as they were before they were codes, where that is known. runs: inputs, and what the device made of them
    inside, as far as that is known.
    """
    watched, effects = _Watched(module, constants, infinite), list[Effects]()
    for inputs, codes in runs:
        watched.golden.clear()
        watched.errors.clear()
        watched.codes = codes
        with torch.no_grad():
            watched.run(*inputs)
        with suppress(RuntimeError):  # no derivative
            effects.append(effects_of(module, inputs, watched.errors))
    for name, seen in watched.seen.items():
        seen.effect = _effect(effects, name)
        seen.inherited = _inherits(seen, watched.seen, effects)
        seen.wider = _wider(seen, watched.seen.values())
    return [seen for seen in watched.seen.values() if seen.count]


def layers_of(seen: Sequence[Seen], operators: Mapping[str, tuple[str, ...]]) -> tuple[Layer, ...]:
    """The layers, those that add most of what is wrong first.

    operators: names of those in the lowered program, by the name of the layer.
    """
    return tuple(_layer(each, operators.get(each.node.name, ())) for each in sorted(seen, key=_worst))


def _effect(effects: Sequence[Effects], name: str) -> float | None:
    """Power of the model's results over that of a layer's error in them, in dB; None where that is not known."""
    known = [each for each in effects if name in each.noise]
    signal, noise = sum(each.signal for each in known), sum(each.noise[name] for each in known)
    if signal <= 0:
        return None
    return round(10 * math.log10(signal / noise), 2) if noise > 0 else math.inf


def _inherits(seen: Seen, known: Mapping[str, Seen], effects: Sequence[Effects]) -> bool:
    """Whether its results are where its codes are not only for what comes before.

    They are clipped, and would not be if nothing were quantized; or they use little of the range, as a layer before it
    does: what was far away when the model was calibrated went through both.
    """
    if seen.grid is None or not seen.count:
        return False
    if seen.clipped > CLIPPED * seen.count:
        found = [each.ranges[seen.node.name] for each in effects if seen.node.name in each.ranges]
        step = (seen.grid[1] - seen.grid[0]) / 255
        return bool(found) and all(seen.grid[0] - step <= low and high <= seen.grid[1] + step for low, high in found)
    before = (known[each.name] for each in _before(seen.node) if each.name in known)
    return seen.is_unused and any(each.is_unused for each in before)


def _wider(seen: Seen, known: Iterable[Seen]) -> str:
    """A layer that gave this one's codes their range, as both are operands of one, "" for none."""
    if seen.grid is None or not seen.is_unused:
        return ""
    alike = (one for one in known if one.grid == seen.grid and not one.is_unused and not one.shared)
    return next((place_of(one.node) for one in alike), "")


def _before(node: fx.Node) -> Iterator[fx.Node]:
    """All nodes that a node is computed from."""
    waiting, found = list(node.all_input_nodes), set[fx.Node]()
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += each.all_input_nodes
            yield each


def _worst(seen: Seen) -> tuple[bool, bool, bool, bool, bool, float]:
    """Infinities, faults of the device, layers that lose much by themselves or at the results, all others.

    Of these, what is seen in the results by how much, and then the rest by its own error; what inherits its loss last.
    """
    own = math.inf if seen.own is None else seen.own
    effect = math.inf if seen.effect is None else seen.effect
    hidden = effect >= SEEN
    small = own >= POOR and effect >= POOR
    return not seen.infinite, not seen.is_faulty, small, hidden, seen.inherited, own if hidden else effect


def _layer(seen: Seen, operators: tuple[str, ...]) -> Layer:
    module, kind = module_of(seen.node)
    source, code = source_of(seen.node)
    name = target_name(seen.node.target) if seen.node.op == "call_function" else INPUT
    clipped = round(seen.clipped / seen.count, 4)
    return Layer(
        seen.node.name,
        name,
        module,
        kind,
        source,
        code,
        operators,
        None if seen.effect is None or math.isinf(seen.effect) else seen.effect,
        seen.own,
        seen.apart,
        clipped,
        seen.infinite,
        tuple(cures(seen)),
    )
