"""Walks a delegated program; lowering functions read operands from it and define results in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from npu_assay.partitioners.common.lowering import Values, lowering_of, static_shape
from npu_assay.partitioners.exir.compiling import axis_of, require
from npu_assay.partitioners.exir.layout import Layout, arranged, identity, to_channels_last
from npu_assay.partitioners.exir.ops import (
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE_PER_TENSOR,
    target_name,
)
from npu_assay.partitioners.neutron.formats import channels_first_nodes
from npu_assay.partitioners.neutron.lowering.model import Array, ModelBuilder
from npu_assay.partitioners.neutron.lowering.quantization import (
    Quantisation,
    activation,
    output_quantisation,
    per_tensor,
    stored_scale,
)
from npu_assay.partitioners.neutron.lowering.values import Value
from npu_assay.partitioners.neutron.traits import Operators

Lower = Callable[["Context", fx.Node], None]


class Context(Values[Value]):
    """One compilation: the model so far, and the value of every node walked so far.

    `constants` maps placeholders of weights to their data; every other placeholder is an input.
    """

    def __init__(self, graph: fx.Graph, operators: Operators, constants: Mapping[fx.Node, torch.Tensor]) -> None:
        super().__init__()
        self.model = ModelBuilder()
        self._channels_first = channels_first_nodes(graph, operators)
        self._constants = constants

    # -- reading

    def constant(self, operand: Any, node: fx.Node, what: str) -> Value:
        """The value of a constant operand. Raises CompileError when it is computed at run time."""
        value = self.value(operand, node)
        require(value.data is not None, node, what, f"{value.name}, computed at run time", "a constant")
        return value

    def layout(self, node: fx.Node) -> Layout:
        """The layout that the node's result has on the device: channels last for channels-first nodes."""
        rank = len(static_shape(node))
        return to_channels_last(rank) if node in self._channels_first else identity(rank)

    def tensor(self, value: Value, layout: Layout | None = None) -> int:
        """The value's device tensor in a layout (None: where it costs nothing)."""
        return value.tensor(self.model, layout)

    def output_quantisation(self, node: fx.Node) -> Quantisation:
        """The parameters of a float result."""
        return output_quantisation(node)

    def requantised(self, value: Value, wanted: Quantisation) -> Value:
        """The value with other parameters: itself when they are equal, else after a QUANTIZE."""
        if value.quantisation == wanted:
            return value
        layout = value.home
        name = f"{value.name}_requantised"
        shape = arranged(value.shape, layout)
        tensor = self.model.emit("QUANTIZE", (self.tensor(value, layout),), name, shape, wanted)
        return Value(name, value.shape, wanted, tensors={layout: tensor})

    # -- writing

    def emit(
        self,
        node: fx.Node,
        code: str,
        inputs: Sequence[int],
        options: Mapping[str, Any] | None = None,
        *,
        layout: Layout | None = None,
    ) -> None:
        """Append the operator that computes the node's result, in `layout` (None: torch's order)."""
        shape = static_shape(node)
        layout = identity(len(shape)) if layout is None else layout
        quantisation = self.output_quantisation(node)
        tensor = self.model.emit(code, inputs, node.name, arranged(shape, layout), quantisation, options)
        self.values[node] = Value(node.name, shape, quantisation, tensors={layout: tensor})

    def define(self, node: fx.Node, tensor: int, layout: Layout) -> None:
        """Let an existing device tensor, held in `layout`, be the node's result."""
        self.values[node] = Value(
            node.name, static_shape(node), self.model.quantisation(tensor), tensors={layout: tensor}
        )

    def permuted(self, node: fx.Node, source: Value, permutation: Layout) -> None:
        """Let axis i of the node's result be axis permutation[i] of `source`."""
        if source.data is not None:
            self.values[node] = folded(node.name, source, source.data.transpose(permutation), permutation)
        else:
            shape = arranged(source.shape, permutation)
            self.values[node] = Value(node.name, shape, source.quantisation, source=source, permutation=permutation)

    # -- walking

    def walk(self, node: fx.Node, lowerings: Mapping[str, Lower]) -> None:
        """Define the value of one call_function node, writing what it needs."""
        name, args = target_name(node.target), node.args
        if name in (DEQUANTIZE_PER_TENSOR, DEQUANTIZE_PER_CHANNEL):
            self._dequantize(node, name, args)
        elif name == QUANTIZE_PER_TENSOR:
            self.values[node] = self.requantised(self.value(args[0], node), activation(node))
        elif name == GETITEM:
            require(bool(args[1] == 0), node, "output of a pooling", args[1], "0, the maxima")
            self.values[node] = self.value(args[0], node)
        else:
            lowering_of(lowerings, node)(self, node)

    def _dequantize(self, node: fx.Node, name: str, args: tuple[Any, ...]) -> None:
        source = args[0]
        if source in self._constants:
            codes = array_of(self._constants[source])
            quantisation = self._per_channel(node, args) if name == DEQUANTIZE_PER_CHANNEL else per_tensor(node)
            self.values[node] = Value(source.name, codes.shape, quantisation, data=codes)
            return
        require(name == DEQUANTIZE_PER_TENSOR, node, "quantization of a computed value", name, DEQUANTIZE_PER_TENSOR)
        value, found = self.value(source, node), per_tensor(node)
        require(value.quantisation == found, node, "scale and zero point", found, value.quantisation)
        self.values[node] = value

    def _per_channel(self, node: fx.Node, args: tuple[Any, ...]) -> Quantisation:
        """Scales and zero points of a per-channel dequantize node, which must be constants."""
        for argument in args[1:3]:
            require(argument in self._constants, node, "per-channel parameters", argument, "constants")
        scales, zero_points = (array_of(self._constants[a]).reshape(-1).tolist() for a in args[1:3])
        axis = axis_of(node, args[3], len(static_shape(node)))
        return Quantisation(tuple(stored_scale(node, n) for n in scales), tuple(int(z) for z in zero_points), axis)


def array_of(tensor: torch.Tensor) -> Array:
    """A constant's data."""
    array: Array = tensor.detach().cpu().numpy()
    return array


def folded(name: str, source: Value, codes: Array, permutation: Layout) -> Value:
    """A constant whose axes were permuted at compile time."""
    quantisation = source.quantisation
    if quantisation.per_channel:
        quantisation = quantisation.moved(permutation.index(quantisation.axis))
    return Value(name, codes.shape, quantisation, data=codes)


def reshaped(node: fx.Node, source: Value, shape: tuple[int, ...]) -> Value:
    """`source` in another shape; raises CompileError for a constant with a scale per channel."""
    if source.data is None:
        return Value(node.name, shape, source.quantisation, source=source)
    require(not source.quantisation.per_channel, node, "reshaped constant", "a scale per channel", "one scale")
    return Value(node.name, shape, source.quantisation, data=source.data.reshape(shape))
