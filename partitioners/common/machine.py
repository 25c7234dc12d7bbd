"""The common part of simulated devices: a program of prepared kernel calls on numbered values, and its run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from npu_assay.partitioners.exir.flatbuffer import FormatError

Kernel = Callable[..., Tensor]
Places = tuple[int, ...]
Values = list[Tensor | None]
"""The values of a running program by number; None for those that do not exist yet, or are not needed any more."""


class DeviceError(FormatError):
    """A well-formed model that the device cannot run."""


class InputError(ValueError):
    """Inputs that do not fit the loaded model."""


class UnpredictableError(InputError):
    """Inputs for which the device's specification defines no result: an overflow, an index outside, ..."""


class Unpredictable(ArithmeticError):
    """A kernel's error for numbers for which its operator defines no result: what, found, expected."""

    def __init__(self, what: str, found: object, expected: str) -> None:
        super().__init__(f"{what} is {found}, expected {expected}")


def at_most(what: str, found: int, limit: int, where: str) -> None:
    """Raise DeviceError for more than the limit."""
    if found > limit:
        raise DeviceError(what, found, f"at most {limit}", where)


def tensor_of(data: np.ndarray[Any, Any]) -> Tensor:
    """A fresh tensor of a constant."""
    return torch.from_numpy(np.array(data))


# ------------------------------------------------------------------------------------ loading


@dataclass(frozen=True)
class Step:
    """A prepared operator: `kernel` takes the values of the inputs at positions `arguments`."""

    kernel: Kernel
    arguments: tuple[int, ...] = (0,)


class Located(Protocol):
    """An operator of a model that is being loaded; `where` names it in errors."""

    @property
    def where(self) -> str: ...


SiteT = TypeVar("SiteT", bound=Located)
StepT = TypeVar("StepT", bound=Step)


def prepare(rules: Mapping[str, Callable[[SiteT], StepT]], code: str, site: SiteT) -> StepT:
    """Check an operator and make its kernel. Raises DeviceError for what the device does not have."""
    rule = rules.get(code)
    if rule is None:
        raise DeviceError("operator", code, "one that the device has", site.where)
    with limits_of_kernels(site.where):
        return rule(site)


@contextmanager
def limits_of_kernels(where: str) -> Iterator[None]:
    """Turn a kernel's own limits, e.g. an accumulator that leaves 32 bits, from ValueErrors into DeviceErrors."""
    try:
        yield
    except DeviceError:
        raise
    except ValueError as error:
        raise DeviceError("kernel parameters", str(error), "a kernel that the device has", where) from error


# ------------------------------------------------------------------------------------ running


class Argument(Protocol):
    """An input or output of the delegate, as the caller sees it."""

    @property
    def value(self) -> int:
        """The number of its value."""

    def accepted(self, tensor: Tensor) -> Tensor:
        """The value of an input. Raises InputError for a tensor that does not fit."""

    def returned(self, value: Tensor) -> Tensor:
        """A fresh tensor of an output."""


@dataclass(frozen=True)
class Port:
    """An argument with a fixed shape, that of the caller's tensor.

    `order` brings the tensor's axes into those of the value; None where they are the same.
    """

    name: str
    value: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    order: tuple[int, ...] | None = None

    def accepted(self, tensor: Tensor) -> Tensor:
        """The value of an input. Raises InputError for another dtype or shape."""
        if tensor.dtype != self.dtype or tuple(tensor.shape) != self.shape:
            found, expected = f"{tensor.dtype} {list(tensor.shape)}", f"{self.dtype} {list(self.shape)}"
            raise InputError(f"device input {self.name!r}: found {found}, expected {expected}")
        # A tensor of its own, whose memory stays where it is.
        return (tensor if self.order is None else tensor.permute(self.order)).contiguous().detach()

    def returned(self, value: Tensor) -> Tensor:
        """A fresh, contiguous tensor of an output."""
        if self.order is not None:
            value = value.permute([self.order.index(axis) for axis in range(len(self.order))])
        return value.clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class Call:
    """One kernel call on values by number; `where` names the operator.

    A kernel with `further` results returns a sequence, `result` first.
    """

    kernel: Callable[..., Any]
    arguments: tuple[int, ...]
    result: int
    where: str
    further: tuple[int, ...] = ()


CallT = TypeVar("CallT", bound=Call)
PortT = TypeVar("PortT", bound=Argument)
DataT = TypeVar("DataT")


@dataclass(frozen=True)
class Program(Generic[CallT, PortT]):
    """A loaded model: the handle that `execute` takes.

    `constants` has a tensor for each value that is one and that a run needs; `last_use`, per call, the values that
    nobody needs after it.
    """

    constants: tuple[Tensor | None, ...]
    calls: tuple[CallT, ...]
    last_use: tuple[tuple[int, ...], ...]
    inputs: tuple[PortT, ...]
    outputs: tuple[PortT, ...]

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the calls in order, on tensors that stay as they are; the outputs are fresh.

        Raises InputError for another number of inputs and for inputs that a port does not accept, and its subclass
        UnpredictableError for numbers that an operator defines no result for.
        """
        if len(inputs) != len(self.inputs):
            raise InputError(f"device inputs: found {len(inputs)}, expected {len(self.inputs)}")
        values: Values = list(self.constants)
        value_of, where = values.__getitem__, ""
        with torch.inference_mode():  # spares every call the bookkeeping for gradients
            for port, tensor in zip(self.inputs, inputs, strict=True):
                values[port.value] = port.accepted(tensor)
            self.check(values)
            try:
                for kernel, arguments, result, further, dead, where in self._steps:  # noqa: B007  (told in an error)
                    found = kernel(*map(value_of, arguments))
                    if further:
                        for index, value in zip((result, *further), found, strict=True):
                            values[index] = value
                    else:
                        values[result] = found
                    for index in dead:
                        values[index] = None
            except Unpredictable as error:
                raise UnpredictableError(f"{where}: {error}") from error
        return [port.returned(existing(values, port.value)) for port in self.outputs]

    @cached_property
    def _steps(self) -> tuple[tuple[Callable[..., Any], Places, int, Places, Places, str], ...]:
        """What a run needs of each call, gathered once."""
        both = zip(self.calls, self.last_use, strict=True)
        return tuple((c.kernel, c.arguments, c.result, c.further, dead, c.where) for c, dead in both)

    def check(self, values: Values) -> None:
        """Raise InputError for inputs that do not fit each other; ports with fixed shapes see to that."""


def existing(values: Values, index: int) -> Tensor:
    """A value that inputs or calls have made."""
    value = values[index]
    if value is None:
        raise InputError(f"device value {index}: found none, expected one from a kernel")
    return value


Parts = tuple[
    tuple[Tensor | None, ...], tuple[CallT, ...], tuple[tuple[int, ...], ...], tuple[PortT, ...], tuple[PortT, ...]
]


def parts(
    data: Sequence[DataT | None],
    tensor_of: Callable[[DataT], Tensor],
    calls: tuple[CallT, ...],
    inputs: tuple[PortT, ...],
    outputs: tuple[PortT, ...],
) -> Parts[CallT, PortT]:
    """What a program is made of; `data` has an entry for each value, None for those that are not constants."""
    return _needed(data, tensor_of, calls, outputs), calls, _last_use(calls, outputs), inputs, outputs


def _needed(
    data: Sequence[DataT | None],
    tensor_of: Callable[[DataT], Tensor],
    calls: Sequence[Call],
    outputs: Sequence[Argument],
) -> tuple[Tensor | None, ...]:
    """Tensors of the constants that calls take or that are outputs; parameters are in the kernels already."""
    used = {index for call in calls for index in call.arguments} | {port.value for port in outputs}
    return tuple(tensor_of(each) if each is not None and index in used else None for index, each in enumerate(data))


def _last_use(calls: Sequence[Call], outputs: Sequence[Argument]) -> tuple[tuple[int, ...], ...]:
    """For each call the values that neither a later one nor the caller needs."""
    last = {
        index: position
        for position, call in enumerate(calls)
        for index in (*call.arguments, call.result, *call.further)
    }
    dead: list[list[int]] = [[] for _ in calls]
    for index in last.keys() - {port.value for port in outputs}:
        dead[last[index]].append(index)
    return tuple(map(tuple, dead))
