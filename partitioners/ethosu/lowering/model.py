"""Collects tensors and operators, in execution order, into a TOSA graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npu_assay.partitioners.common.rescale import tosa_multiplier
from npu_assay.partitioners.ethosu.lowering.scaling import rescaled
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES, Array, TModel, TOperator, TShape, TTensor
from npu_assay.partitioners.exir.layout import Layout, arranged

LIMITS: Mapping[str, tuple[int, int]] = {
    "INT8": (-(2**7), 2**7 - 1),
    "INT16": (-(2**15), 2**15 - 1),
    "INT32": (-(2**31), 2**31 - 1),
    "INT48": (-(2**47), 2**47 - 1),
}
"""The smallest and the largest number of a dtype."""


MOST_JOINED = 64
"""Operands of a CONCAT, by TOSA's level."""


class ModelBuilder:
    """Grows a graph; tensors and shapes are referred to by name. What was written before is not written again."""

    def __init__(self) -> None:
        self.tensors: dict[str, TTensor] = {}
        self.shapes: dict[str, TShape] = {}
        self.operators: list[TOperator] = []
        self._names: dict[str, int] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._sizes: dict[tuple[int, ...], str] = {}
        self._written: dict[tuple[Any, ...], str] = {}
        self._reshaped: dict[str, str] = {}

    def tensor(self, name: str, shape: Sequence[int], dtype: str, data: Array | None = None) -> str:
        """Add a tensor and return its name; a name in use gets a number after it."""
        unique = self._unique(name)
        self.tensors[unique] = TTensor(unique, tuple(shape), dtype, data)
        return unique

    def constant(self, name: str, data: Array, dtype: str) -> str:
        """A constant tensor; equal constants are stored once."""
        held = np.ascontiguousarray(data, NUMPY_TYPES[dtype]).reshape(np.shape(data))
        key = (dtype, held.shape, held.tobytes())
        if key not in self._constants:
            self._constants[key] = self.tensor(name, held.shape, dtype, held)
        return self._constants[key]

    def number(self, number: int, dtype: str) -> str:
        """A constant of one element: a zero point, a shift, the value of a padding."""
        return self.constant(f"{dtype.lower()}_{number}", np.asarray([number]), dtype)

    def sizes(self, values: Sequence[int]) -> str:
        """A SHAPE constant."""
        key = tuple(int(value) for value in values)
        if key not in self._sizes:
            self._sizes[key] = self._unique("shape_" + "x".join(map(str, key)))
            self.shapes[self._sizes[key]] = TShape(self._sizes[key], key)
        return self._sizes[key]

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The sizes of a tensor, in the order of its axes on the device."""
        return self.tensors[tensor].shape

    def dtype(self, tensor: str) -> str:
        """The dtype of a tensor."""
        return self.tensors[tensor].dtype

    def emit(
        self,
        code: str,
        inputs: Sequence[str],
        name: str,
        shape: Sequence[int],
        dtype: str,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """Append an operator; returns its result, that of an equal operator when there is one."""
        attributes = {} if attributes is None else attributes
        key = (code, tuple(inputs), dtype, tuple(shape), tuple(sorted(attributes.items())))
        if key not in self._written:
            self._written[key] = self.tensor(name, shape, dtype)
            self.operators.append(TOperator(code, tuple(inputs), (self._written[key],), dict(attributes)))
        return self._written[key]

    # -- operators that several lowerings need

    def reshape(self, tensor: str, shape: Sequence[int], name: str) -> str:
        """The same elements in another shape; one RESHAPE for several in a row, none for the same shape."""
        source, wanted = self._reshaped.get(tensor, tensor), tuple(shape)
        if self.shape(source) == wanted:
            return source
        data = self.tensors[source].data
        if data is not None:
            return self.constant(name, data.reshape(wanted), self.dtype(source))
        made = self.emit("RESHAPE", [source, self.sizes(wanted)], name, wanted, self.dtype(source))
        self._reshaped[made] = source
        return made

    def transpose(self, tensor: str, permutation: Layout, name: str) -> str:
        """Axis i of the result is axis permutation[i] of the tensor. Moving only axes of size 1 is a RESHAPE."""
        shape = self.shape(tensor)
        wanted = arranged(shape, permutation)
        moved = [axis for axis in permutation if shape[axis] != 1]
        if moved == sorted(moved):
            return self.reshape(tensor, wanted, name)
        return self.emit("TRANSPOSE", [tensor], name, wanted, self.dtype(tensor), {"perms": permutation})

    def slice(self, tensor: str, start: Sequence[int], size: Sequence[int], name: str) -> str:
        """A box of a tensor; the tensor itself when that is all of it."""
        if tuple(size) == self.shape(tensor):
            return tensor
        return self.emit("SLICE", [tensor, self.sizes(start), self.sizes(size)], name, size, self.dtype(tensor))

    def concat(self, tensors: Sequence[str], axis: int, name: str) -> str:
        """Tensors one after the other; more than a CONCAT takes by several."""
        if len(tensors) == 1:
            return tensors[0]
        if len(tensors) > MOST_JOINED:
            groups = [tensors[start : start + MOST_JOINED] for start in range(0, len(tensors), MOST_JOINED)]
            tensors = [self.concat(group, axis, f"{name}_{number}") for number, group in enumerate(groups)]
            return self.concat(tensors, axis, name)
        shape = list(self.shape(tensors[0]))
        shape[axis] = sum(self.shape(tensor)[axis] for tensor in tensors)
        return self.emit("CONCAT", tensors, name, shape, self.dtype(tensors[0]), {"axis": axis})

    def pad(self, tensor: str, amounts: Sequence[tuple[int, int]], number: int, name: str) -> str:
        """A tensor with `number` before and after each axis."""
        if not any(before or behind for before, behind in amounts):
            return tensor
        dtype = self.dtype(tensor)
        shape = [size + sum(pair) for size, pair in zip(self.shape(tensor), amounts, strict=True)]
        flat = [amount for pair in amounts for amount in pair]
        return self.emit("PAD", [tensor, self.sizes(flat), self.number(number, dtype)], name, shape, dtype)

    def clamp(self, tensor: str, low: int, high: int, name: str) -> str:
        """Codes limited to low..high, both included; nothing when the dtype has no others."""
        dtype = self.dtype(tensor)
        if (low, high) == LIMITS[dtype]:
            return tensor
        bounds = {"min_val": low, "max_val": high}
        return self.emit("CLAMP", [tensor], name, self.shape(tensor), dtype, bounds)

    def cast(self, tensor: str, dtype: str, name: str) -> str:
        """Integers in another dtype: wider, or with the high bits dropped; booleans as 0 and 1."""
        if self.dtype(tensor) == dtype:
            return tensor
        return self.emit("CAST", [tensor], name, self.shape(tensor), dtype)

    def rescale(
        self, tensor: str, ratios: Sequence[float], dtype: str, name: str, *, zero_in: int = 0, zero_out: int = 0
    ) -> str:
        """(tensor - zero_in) * ratio + zero_out, rounded half up and saturated; a ratio each for the last axis, or one.

        Raises ValueError for a ratio without a multiplier. Constants are rescaled here.
        """
        source = self.dtype(tensor)
        width = 16 if source == "INT48" else 32
        pairs = [tosa_multiplier(ratio, width) for ratio in ratios]
        if len(set(pairs)) == 1:
            pairs = pairs[:1]
        data = self.tensors[tensor].data
        if data is not None and len(pairs) == 1:
            return self.constant(name, rescaled(data, *pairs[0], zero_in, zero_out, LIMITS[dtype]), dtype)
        operands = [
            tensor,
            self.constant(f"{name}_multiplier", np.asarray([m for m, _ in pairs]), f"INT{width}"),
            self.constant(f"{name}_shift", np.asarray([s for _, s in pairs]), "INT8"),
            self.number(zero_in, source),
            self.number(zero_out, dtype),
        ]
        attributes = {"scale32": width == 32, "rounding_mode": "SINGLE_ROUND", "per_channel": len(pairs) > 1}
        return self.emit("RESCALE", operands, name, self.shape(tensor), dtype, attributes)

    def copied(self, tensor: str, name: str) -> str:
        """The same tensor under another name, for a graph that returns what it was given or returns it twice."""
        result = self.tensor(name, self.shape(tensor), self.dtype(tensor))
        self.operators.append(TOperator("IDENTITY", (tensor,), (result,)))
        return result

    def model(self, inputs: Sequence[str], outputs: Sequence[str]) -> TModel:
        """The graph of all that the outputs need."""
        needed, kept = set(outputs), []
        for operator in reversed(self.operators):
            if needed.intersection(operator.outputs):
                needed.update(operator.inputs)
                kept.append(operator)
        needed.update(inputs)
        tensors = tuple(tensor for name, tensor in self.tensors.items() if name in needed)
        shapes = tuple(shape for name, shape in self.shapes.items() if name in needed)
        return TModel(tensors, shapes, tuple(reversed(kept)), tuple(inputs), tuple(outputs))

    def _unique(self, name: str) -> str:
        used = self._names.get(name, 0)
        self._names[name] = used + 1
        if used == 0:
            return name
        return self._unique(f"{name}_{used}")
