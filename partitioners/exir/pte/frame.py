"""The values of a method while it runs: planned tensors are views into arenas, at the places the plan gives them.

So a plan in which two tensors that live at once overlap gives wrong results here, as it does on a device. Arenas
cannot grow: a kernel that would write past the end of one fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.pte.model import (
    ABSENT,
    BoolList,
    Buffer,
    DoubleList,
    IntList,
    OptionalTensorList,
    Plan,
    Tensor,
    TensorList,
    strides_of,
)
from npu_assay.partitioners.exir.values import describe

_INT64 = 2**63


class Frame:
    """A method's arenas and values. `memory_limit` is the most bytes that its arenas and own tensors may take.

    Raises ExirError for a plan that needs more, or that places a tensor where its dtype cannot be read.
    """

    def __init__(self, plan: Plan, named_data: Mapping[str, Buffer], memory_limit: int) -> None:
        self.plan, self.named_data = plan, named_data
        _check_total(plan, memory_limit)
        self.arenas = [self._storage(size, f"memory {index}") for index, size in enumerate(plan.buffer_sizes)]
        self.constants: set[int] = set()
        self.values: list[Any] = [self._initial(index, value) for index, value in enumerate(plan.values)]

    # -------------------------------------------------------------------------------------------- start

    def _storage(self, size: int, what: str) -> torch.Tensor:
        """Zeros in memory that torch cannot resize; the system allocates its pages on the first write."""
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        try:
            return torch.from_numpy(np.zeros(size, np.uint8))
        except MemoryError as failure:
            raise self.error(f"size of {what}", f"{size} bytes", "at most the free memory", "load") from failure

    def _initial(self, index: int, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        where = f"value {index}"
        data = self._external(value, where) if value.location == "external" else value.data
        if value.allocation is not None:
            planned = self._planned(index, value)
            if data is not None and value.nbytes:
                planned.copy_(_constant(value, data))
            return planned
        if data is None:
            return None  # the caller or a kernel brings it
        self.constants.add(index)
        return _constant(value, data)

    def _external(self, value: Tensor, where: str) -> Buffer | None:
        """The named data of a tensor; a program whose data lie in another file cannot run."""
        data = self.named_data.get(str(value.name))
        if data is None or len(data) < value.nbytes:
            found = "no such data" if data is None else f"{len(data)} bytes"
            raise self.error(f"external data {value.name!r}", found, f"{value.nbytes} bytes in the file", where)
        return data[: value.nbytes]

    def _planned(self, index: int, value: Tensor) -> torch.Tensor:
        assert value.allocation is not None
        place, size = value.allocation.offset, value.dtype.itemsize
        if place % size:
            raise self.error("offset", place, f"a multiple of {size} for {value.dtype}", f"value {index}")
        arena = self.arenas[value.allocation.memory_id]
        if not value.nbytes:
            return torch.empty_strided(value.sizes, value.strides, dtype=value.dtype)
        whole = arena[: len(arena) // size * size].view(value.dtype)
        return whole.as_strided(value.sizes, value.strides, place // size)

    def error(self, what: str, found: object, expected: str, where: str) -> ExirError:
        return _error(self.plan, what, found, expected, where)

    # -------------------------------------------------------------------------------------------- reading

    def get(self, index: int, where: str) -> Any:
        """The value as a kernel takes it: lists are lists of numbers or tensors."""
        match self.plan.values[index]:
            case IntList(items=items):
                return [self.number(item, where) for item in items]
            case DoubleList(items=items) | BoolList(items=items):
                return list(items)
            case TensorList(items=items):
                return [self.tensor(item, where) for item in items]
            case OptionalTensorList(items=items):
                given = (None if item == ABSENT else self.values[item] for item in items)
                return [each if isinstance(each, torch.Tensor) else None for each in given]
            case Tensor():
                return self.tensor(index, where)
        return self.values[index]

    def tensor(self, index: int, where: str) -> torch.Tensor:
        value = self.values[index]
        if not isinstance(value, torch.Tensor):
            raise self.error(f"value {index}", "no tensor so far", "one that was written before", where)
        return value

    def number(self, index: int, where: str) -> int:
        value = self.values[index]
        if type(value) is not int:
            raise self.error(f"value {index}", describe(value), "an integer", where)
        return value

    # -------------------------------------------------------------------------------------------- writing

    def spec(self, index: int, where: str) -> Tensor:
        """The record of a value that is to be written as a tensor."""
        spec = self.plan.values[index]
        if not isinstance(spec, Tensor) or index in self.constants:
            found = "a constant" if isinstance(spec, Tensor) else describe(self.values[index])
            raise self.error(f"written value {index}", found, "a tensor in memory that can be written", where)
        return spec

    def target(self, index: int, where: str) -> torch.Tensor:
        """Where a kernel writes the tensor. One of dynamic size comes empty, for the kernel to resize in place."""
        spec = self.spec(index, where)
        if spec.allocation is not None and spec.nbytes:
            planned = self._planned(index, spec)
        elif spec.dynamism == "unbound":
            planned = torch.empty(spec.sizes, dtype=spec.dtype) if not spec.nbytes else torch.empty(0, dtype=spec.dtype)
        else:
            planned = self._own(spec, where)
        return planned if spec.dynamism == "static" else planned.as_strided((0,), (1,), planned.storage_offset())

    def _own(self, spec: Tensor, where: str) -> torch.Tensor:
        """Memory of its own for a tensor that the plan gives none."""
        storage = self._storage(spec.nbytes, "a tensor")
        if not spec.nbytes:
            return torch.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype)
        return storage.view(spec.dtype).as_strided(spec.sizes, spec.strides)

    def written(self, index: int, result: torch.Tensor, where: str) -> None:
        """Take what a kernel wrote, after it checked the shape, in the order of axes that the plan says."""
        spec = self.spec(index, where)
        self.check_fit(spec, result, f"result {index}", where)
        strides = strides_of(result.shape, spec.dim_order)
        if result.numel() and not _same_layout(result, strides):
            moved = result.clone()
            result = result.as_strided(result.shape, strides, result.storage_offset()).copy_(moved)
        self.values[index] = result

    def put(self, index: int, given: torch.Tensor, where: str) -> None:
        """Copy a tensor into a value."""
        spec = self.spec(index, where)
        self.check_fit(spec, given, f"value {index}", where)
        target = self.target(index, where)
        if spec.dynamism != "static" or target.shape != given.shape:
            target = target.resize_(given.shape).as_strided(given.shape, strides_of(given.shape, spec.dim_order))
        self.values[index] = target.copy_(given)

    def alias(self, index: int, source: int, view: torch.Tensor, where: str) -> None:
        """Let a value be a view of another's memory."""
        spec = self.plan.values[index]
        if not isinstance(spec, Tensor):
            raise self.error(f"value {index}", describe(self.values[index]), "a tensor", where)
        self.check_fit(spec, view, f"result {index}", where)
        self.values[index] = view
        if source in self.constants:
            self.constants.add(index)

    def check_fit(self, spec: Tensor, given: torch.Tensor, what: str, where: str) -> None:
        """Raises ExirError unless the tensor has the dtype, and sizes as the record lets them be."""
        sizes = tuple(given.shape)
        fits = {
            "static": sizes == spec.sizes,
            "bound": len(sizes) == len(spec.sizes) and all(a <= b for a, b in zip(sizes, spec.sizes, strict=False)),
            "unbound": len(sizes) == len(spec.sizes),
        }
        # Torch's kernels that resize take negative sizes beside one of 0.
        if given.dtype != spec.dtype or not fits[spec.dynamism] or min(sizes, default=0) < 0:
            prefix = "" if spec.dynamism == "static" else "at most " if spec.dynamism == "bound" else "the rank of "
            expected = f"{prefix}{str(spec.dtype).removeprefix('torch.')}{list(spec.sizes)}"
            raise self.error(what, describe(given), expected, where)

    def store(self, index: int, value: Any, where: str) -> None:
        """Take a number that a kernel returned."""
        if type(value) not in (bool, int, float) or isinstance(self.plan.values[index], Tensor):
            raise self.error(f"result {index}", describe(value), describe(self.values[index]), where)
        if type(value) is int and not -_INT64 <= value < _INT64:
            raise self.error(f"result {index}", value, "an integer of 64 bits", where)
        self.values[index] = value

    def move(self, source: int, target: int, where: str) -> None:
        """Set one value to another. Both are tensors, or neither is."""
        specs = self.plan.values[source], self.plan.values[target]
        if isinstance(specs[0], Tensor) != isinstance(specs[1], Tensor):
            raise self.error(f"moved value {source}", describe(self.values[source]), "a value of the same kind", where)
        self.values[target] = self.values[source]
        if source in self.constants:
            self.constants.add(target)
        else:
            self.constants.discard(target)


def _error(plan: Plan, what: str, found: object, expected: str, where: str) -> ExirError:
    return ExirError(what, str(found), expected, f"method {plan.name!r}, {where}")


def _check_total(plan: Plan, limit: int) -> None:
    """Raises ExirError when the arenas, and the tensors that the plan gives no place in them, need more bytes."""
    own = [each.nbytes for each in plan.values if isinstance(each, Tensor) and _is_own(each)]
    total = sum(plan.buffer_sizes) + sum(own)
    if total > limit:
        raise _error(plan, "memory in all", f"{total} bytes", f"at most {limit}", "load")


def _is_own(value: Tensor) -> bool:
    """Whether the tensor has neither a place nor data. A dynamic one gets its memory from its kernel."""
    placed = value.allocation is not None or value.data is not None or value.location == "external"
    return not placed and value.dynamism != "unbound"


def _constant(value: Tensor, data: Buffer) -> torch.Tensor:
    """A view of the data. Nothing writes it: `Frame.spec` refuses to."""
    if not value.nbytes:
        return torch.empty_strided(value.sizes, value.strides, dtype=value.dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        flat = torch.frombuffer(data, dtype=value.dtype)
    return flat.as_strided(value.sizes, value.strides)


def _same_layout(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    """Whether the elements lie as the strides say; those of axes of size 1 do not matter."""
    return all(a == b or size == 1 for a, b, size in zip(tensor.stride(), strides, tensor.shape, strict=True))
