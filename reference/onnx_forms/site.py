"""An operator that is said in ONNX: what a form asks of whoever writes it down, or computes it at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from npu_assay.reference.operators.home import loaded
from npu_assay.reference.operators.lookup import home

FORMS = "npu_assay.reference.onnx_forms"
"""Where homes name forms from, as module:function."""
Array = npt.NDArray[Any]
X = TypeVar("X")  # a tensor in ONNX, as the site has it: its name, or its numbers


class FormError(ValueError):
    """A case has no form in the requested format. `code`: a short stable word for the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Site(ABC, Generic[X]):
    """An operator's arguments by their names in the schema (`given`), and ONNX's operators for a form to use.

    An input that is None is left out.
    """

    given: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def x(self, name: str = "self") -> X:
        """An argument's tensor; a number becomes a constant."""
        return self.tensor(self.given[name])

    def op(self, kind: str, *inputs: X | None, **attributes: Any) -> X:
        """An operator with one result."""
        return self.many(kind, 1, *inputs, **attributes)[0]

    def ints(self, numbers: Sequence[int]) -> X:
        """A constant list of sizes, axes or indices."""
        return self.constant(np.asarray(list(numbers), np.int64), "ints")

    @abstractmethod
    def tensor(self, given: Any) -> X:
        """A tensor among the arguments, or a number as a constant."""

    @abstractmethod
    def operand(self, name: str) -> X:
        """An argument's tensor in the type that the operator computes in: torch promotes, ONNX does not."""

    @abstractmethod
    def converted(self, x: X) -> X:
        """A tensor in the type of the result."""

    @abstractmethod
    def shape(self, name: str = "self") -> tuple[int, ...]:
        """The sizes of an argument."""

    @abstractmethod
    def many(self, kind: str, count: int, *inputs: X | None, **attributes: Any) -> tuple[X, ...]:
        """An operator with several results."""

    @abstractmethod
    def constant(self, array: Array, hint: str = "constant") -> X:
        """A constant of these numbers."""

    @abstractmethod
    def number(self, number: float, dtype: torch.dtype | None = None) -> X:
        """A constant scalar, of the result's type or another."""

    @abstractmethod
    def numbers(self, numbers: Sequence[float], hint: str) -> X:
        """A constant list of reals."""

    @abstractmethod
    def refuse(self, code: str, message: str) -> FormError:
        """The error for arguments that ONNX has no form for."""


Form = Callable[[Any], Any]
"""Takes a site; returns what it wrote: one tensor, or a tuple of several."""


def onnx_form(name: str, *, apart: bool = False) -> Form | None:
    """Returns what an operator's home says: the ONNX operator of the same meaning, or a form that says it in ONNX.

    apart: also the forms that are the second golden's alone.
    """
    own = home(name)
    if own is None or not own.onnx or (own.onnx.startswith("apart.") and not apart):
        return None
    return loaded(own.onnx, FORMS) if ":" in own.onnx else plain(own.onnx)


def plain(form: str) -> Form:
    """The form of "Kind(argument, argument)": an operator without attributes; of "Kind", of the first argument."""
    kind, _, listed = form.removesuffix(")").partition("(")
    names = [name.strip() for name in listed.split(",") if name]
    return lambda s: s.op(kind, *(s.operand(name) for name in names or list(s.given)[:1]))


def one_per_axis(numbers: int | Sequence[int], rank: int) -> list[int]:
    """One number per axis, from a number or a list of one or `rank`."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * rank if len(listed) == 1 else listed


def batched(s: Site[X], rank: int, name: str, apply: Callable[[X], tuple[X, ...]]) -> tuple[X, ...]:
    """ONNX requires a batch axis: it is added to an input without one, and removed from the results."""
    if len(s.shape(name)) != rank + 1:
        return apply(s.x(name))
    results = apply(s.op("Unsqueeze", s.x(name), s.ints([0])))
    return tuple(s.op("Squeeze", result, s.ints([0])) for result in results)
