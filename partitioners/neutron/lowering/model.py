"""Collects tensors and operators, in execution order, into a TFLite model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npu_assay.partitioners.exir.layout import Layout, arranged
from npu_assay.partitioners.neutron.lowering.quantization import Quantisation
from npu_assay.partitioners.neutron.tflite import Model, Operator, Tensor

Array = np.ndarray[Any, Any]
UNQUANTISED = Quantisation((), ())


class ModelBuilder:
    """Grows a model; tensors are named by their index in `tensors`."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self._names: dict[str, int] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes, Quantisation], int] = {}

    def tensor(self, name: str, shape: Sequence[int], quantisation: Quantisation, data: Array | None = None) -> int:
        """Add an int8 tensor, or a constant of `data`'s type; a name in use gets a number after it."""
        used = self._names.get(name, 0)
        self._names[name] = used + 1
        self.tensors.append(
            Tensor(
                name if used == 0 else f"{name}_{used}",
                tuple(shape),
                "int8" if data is None else data.dtype.name,
                data,
                quantisation.scales,
                quantisation.zero_points,
                quantisation.axis,
            )
        )
        return len(self.tensors) - 1

    def constant(self, name: str, data: Array, quantisation: Quantisation = UNQUANTISED) -> int:
        """A constant tensor; equal constants are stored once."""
        data = np.ascontiguousarray(data).reshape(data.shape)  # ascontiguousarray makes rank 0 rank 1
        key = (data.dtype.name, data.shape, data.tobytes(), quantisation)
        if key not in self._constants:
            self._constants[key] = self.tensor(name, data.shape, quantisation, data)
        return self._constants[key]

    def integers(self, name: str, values: Sequence[int] | Sequence[Sequence[int]]) -> int:
        """An int32 constant: a permutation, a shape, axes or paddings."""
        return self.constant(name, np.asarray(values, dtype=np.int32))

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The device shape of a tensor."""
        return self.tensors[tensor].shape

    def quantisation(self, tensor: int) -> Quantisation:
        """The quantization of a tensor."""
        found = self.tensors[tensor]
        return Quantisation(found.scales, found.zero_points, found.axis)

    def emit(
        self,
        code: str,
        inputs: Sequence[int],
        name: str,
        shape: Sequence[int],
        quantisation: Quantisation,
        options: Mapping[str, Any] | None = None,
    ) -> int:
        """Append an operator with one output of the given name, device shape and quantization."""
        output = self.tensor(name, shape, quantisation)
        self.operators.append(Operator(code, tuple(inputs), (output,), {} if options is None else options))
        return output

    def reshape(self, tensor: int, shape: Sequence[int], name: str) -> int:
        """The same numbers in another shape. The shape of a scalar, as it is empty, stands in the options only."""
        sizes = tuple(shape)
        inputs = (tensor, self.integers(f"{name}_shape", sizes)) if sizes else (tensor,)
        return self.emit("RESHAPE", inputs, name, sizes, self.quantisation(tensor), {"new_shape": sizes})

    def transpose(self, tensor: int, permutation: Layout, name: str) -> int:
        """Axis i of the result is axis permutation[i] of the tensor.

        Moving only axes of size 1 is a RESHAPE, or nothing when the shape stays as it is.
        """
        shape = self.shape(tensor)
        wanted = arranged(shape, permutation)
        moved = [axis for axis in permutation if shape[axis] != 1]
        if moved == sorted(moved):
            return tensor if wanted == shape else self.reshape(tensor, wanted, name)
        inputs = (tensor, self.integers(f"{name}_permutation", permutation))
        return self.emit("TRANSPOSE", inputs, name, wanted, self.quantisation(tensor))

    def model(
        self, inputs: Sequence[int], outputs: Sequence[int], description: str, metadata: Mapping[str, bytes]
    ) -> Model:
        """Everything collected so far as one model."""
        return Model(
            tuple(self.tensors), tuple(self.operators), tuple(inputs), tuple(outputs), description, dict(metadata)
        )
