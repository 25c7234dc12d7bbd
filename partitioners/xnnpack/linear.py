"""Matrix products and convolutions: their operands, and in which precision they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import argument, operand, shape
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType
from npu_assay.partitioners.xnnpack.patterns import (
    PERMUTE,
    DynamicInput,
    QuantisedWeight,
    dynamic_input,
    is_chosen_at_run_time,
    is_dequantize,
    is_named,
    only_user,
    quantised_weight,
)

_INT32 = torch.iinfo(torch.int32)
CONVOLUTION = "aten.convolution.default"
LINEAR = "aten.linear.default"
PAD = "aten.constant_pad_nd.default"


@dataclass(frozen=True)
class Places:
    """Positions of a product's arguments; `bias` is None for an operator that has none."""

    activation: int
    weight: int
    bias: int | None


PLACES = {
    CONVOLUTION: Places(0, 1, 2),
    LINEAR: Places(0, 1, 2),
    "aten.addmm.default": Places(1, 2, 0),
    "aten.mm.default": Places(0, 1, None),
}


@dataclass(frozen=True)
class Product:
    """One product. `precision` is what it is computed in.

    pad: a padding with zeros between the dequantize and a convolution, which is done on the codes.
    permute: the transposition between the stored weight and an operator that wants [input, output].
    quantised: the stored weight of a product on codes. dynamic: its activation, when quantized at run time.
    """

    precision: ConfigPrecisionType
    activation: fx.Node | None
    weight: fx.Node | None
    bias: fx.Node | None
    pad: fx.Node | None = None
    permute: fx.Node | None = None
    quantised: QuantisedWeight | None = None
    dynamic: DynamicInput | None = None

    @property
    def stored(self) -> fx.Node | None:
        """What must be a constant: the codes, or the real weight."""
        return self.weight if self.quantised is None else self.quantised.codes


def product(node: fx.Node, places: Places, enabled: Sequence[ConfigPrecisionType]) -> Product:
    """The operands of a product.

    It is computed on codes when its weight is dequantized. When only FP32 is enabled, it is computed on the
    dequantized numbers instead, and the conversions stay outside.
    """
    activation, weight = operand(node, places.activation), operand(node, places.weight)
    bias = None if places.bias is None else operand(node, places.bias)
    permute = _transposition(node, weight)
    if permute is not None:
        weight = operand(permute)
    if not is_dequantize(weight) or tuple(enabled) == (ConfigPrecisionType.FP32,):
        return Product(ConfigPrecisionType.FP32, activation, weight, bias, permute=permute)
    pad = _absorbed_pad(node, activation)
    source = activation if pad is None else operand(pad)
    is_dynamic = is_chosen_at_run_time(source)
    return Product(
        ConfigPrecisionType.DYNAMIC_QUANT if is_dynamic else ConfigPrecisionType.STATIC_QUANT,
        source,
        weight,
        bias,
        pad,
        permute,
        quantised_weight(weight),
        dynamic_input(source) if is_dynamic else None,
    )


def _transposition(node: fx.Node, weight: fx.Node | None) -> fx.Node | None:
    """The permute that transposes a matrix product's weight and does nothing else; None for other operators."""
    if weight is None or target_name(node.target) in (CONVOLUTION, LINEAR):
        return None
    if not is_named(weight, frozenset({PERMUTE})) or only_user(weight) is not node:
        return None
    dims = argument(weight, 1, "dims")
    return weight if len(dims) == 2 and [d % 2 for d in dims] == [1, 0] else None


def _absorbed_pad(node: fx.Node, activation: fx.Node | None) -> fx.Node | None:
    """A padding with zeros of the spatial axes only, between a dequantize and a convolution that alone uses it."""
    if target_name(node.target) != CONVOLUTION or argument(node, 6, "transposed"):
        return None
    if activation is None or not is_named(activation, frozenset({PAD})) or only_user(activation) is not node:
        return None
    pads: Sequence[object] = argument(activation, 1, "pad")
    spatial = 2 * (len(shape(node)) - 2)
    numbers = [p for p in pads if isinstance(p, int)]
    fits = len(numbers) == len(pads) and min(numbers, default=0) >= 0 and not any(numbers[spatial:])
    zero = argument(activation, 2, "value", 0.0) == 0
    return activation if fits and zero and is_dequantize(operand(activation)) else None


def is_transposed(node: fx.Node) -> bool:
    """Whether it is a transposed convolution."""
    return target_name(node.target) == CONVOLUTION and bool(argument(node, 6, "transposed"))


def groups(node: fx.Node) -> int:
    """The number of groups of a convolution; 1 for a matrix product."""
    return int(argument(node, 8, "groups")) if target_name(node.target) == CONVOLUTION else 1


def output_axis(node: fx.Node, found: Product) -> int:
    """The axis of the stored weight that runs over the outputs."""
    if target_name(node.target) in (CONVOLUTION, LINEAR):
        return 1 if is_transposed(node) else 0
    return 1 if found.permute is None else 0


def output_count(node: fx.Node) -> int:
    """How many outputs, and so bias elements, a product has."""
    sizes = shape(node)
    return sizes[1 if target_name(node.target) == CONVOLUTION else -1]


def takes_codes(node: fx.Node, enabled: Sequence[ConfigPrecisionType]) -> bool:
    """Whether the node is computed on its operands' codes: a product of stored codes, or the padding before one."""
    user = only_user(node) if is_named(node, frozenset({PAD})) else node
    places = None if user is None else PLACES.get(target_name(user.target))
    if user is None or places is None:
        return False
    found = product(user, places, enabled)
    return found.quantised is not None and (user is node or found.pad is node)


def bias_codes(bias: torch.Tensor, scales: torch.Tensor | float) -> torch.Tensor:
    """A bias as int32 codes of these scales, those of the activation times the weights'.

    Rounded half to even, in float32 from a reciprocal: the numbers that quantize_per_tensor and
    quantize_per_channel give.
    """
    codes = (bias.reshape(-1).to(torch.float32) * (1.0 / scales)).round().clamp(_INT32.min, _INT32.max)
    return codes.to(torch.float64).clamp(_INT32.min, _INT32.max).to(torch.int32)
