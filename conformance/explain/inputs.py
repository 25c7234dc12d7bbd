"""Inputs of a model as its program takes them: positional ones and those by name, nested as its user nests them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from npu_assay.conformance.common.describing import own_place
from npu_assay.conformance.common.errors import UsageError
from npu_assay.partitioners.exir import InputError
from npu_assay.partitioners.exir.run import check_inputs

LONGEST = 300  # characters of an error
Given = Any
"""What a user gives: a tuple of positional inputs, a dict of those by name, or a pair of both."""


class SampleError(UsageError):
    """A sample that the model does not run on. calibrates: whether it is one of those that calibrate it."""

    def __init__(self, number: int, error: Exception, calibrates: bool) -> None:
        why = " ".join(str(error).split())[:LONGEST]
        super().__init__(f"sample {number}, counted from 0: {type(error).__name__}: {why}{own_place(error)}")
        self.calibrates = calibrates


@contextmanager
def sample(number: int, calibrates: bool) -> Iterator[None]:
    """What a model raises on a sample is told with its number. Raises SampleError."""
    try:
        yield
    except Exception as error:
        raise SampleError(number, error, calibrates) from error


def not_a_number(x: Tensor) -> str:
    """The first number of a tensor that no scale fits, "" where all are finite."""
    wrong = ~torch.isfinite(x) if x.dtype.is_floating_point else torch.zeros(0, dtype=torch.bool)
    return f"{float(x[wrong][0])}" if bool(wrong.any()) else ""


@dataclass(frozen=True)
class Inputs:
    """One call of a model."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Any]:
        """The tensors and numbers in the order of the program's inputs, whatever they are nested in."""
        return pytree.tree_leaves((self.args, dict(self.kwargs)))

    def replaced(self, function: Callable[[Any], Any]) -> Inputs:
        """The same with each leaf as the function makes it, in their order."""
        args, kwargs = pytree.tree_map(function, (self.args, dict(self.kwargs)))
        return Inputs(args, kwargs)


def split(given: Given) -> Inputs:
    """What a user gives, apart: a list is a tuple, anything that is no collection is the one input."""
    if isinstance(given, Inputs):
        return given
    if isinstance(given, Mapping):
        return Inputs((), dict(given))
    if not isinstance(given, (tuple, list)):
        return Inputs((given,))
    if len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], Mapping):
        return Inputs(given[0], dict(given[1]))
    return Inputs(tuple(given))


def inputs_of(program: ExportedProgram, given: Given) -> Inputs:
    """What a user gives, as the program takes it.

    Inputs by name stand in the program's order. A flat tuple, or a dict with the names of all inputs, does for a
    program that takes its inputs in another way. Raises UsageError where they do not fit.
    """
    found, names = split(given), _keywords(program)
    if set(found.kwargs) == set(names):
        return Inputs(found.args, {name: found.kwargs[name] for name in names})
    if not isinstance(given, Inputs) and isinstance(given, (tuple, list)) and len(found.leaves) == len(named(program)):
        return nested(program, found.leaves)
    if not found.args and set(found.kwargs) == set(named(program)):
        return nested(program, [found.kwargs[name] for name in named(program)])
    what = f"{len(found.args)} positional and {_listed(found.kwargs)}"
    raise UsageError(f"found {what}, expected {_listed(names) or 'none'} by name")


def fitting(program: ExportedProgram, name: str, given: Sequence[Given]) -> list[Inputs]:
    """The inputs of several runs, given as the argument `name`. Raises UsageError for some that do not fit."""
    found = list[Inputs]()
    for number, each in enumerate(given):
        try:
            found.append(inputs_of(program, each))
            check_inputs(program, found[-1].leaves)
            wrong = next(filter(None, (not_a_number(x) for x in found[-1].leaves if isinstance(x, Tensor))), "")
            if wrong:
                raise UsageError(f"found {wrong} among its numbers, expected finite ones")
        except (UsageError, InputError) as error:
            raise UsageError(f"{name}[{number}]: {error}") from error
    return found


def _listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(map(str, names)) or "none by name"


def nested(program: ExportedProgram, leaves: Sequence[Any]) -> Inputs:
    """Inputs in the program's order, nested as it takes them."""
    args, kwargs = pytree.tree_unflatten(list(leaves), program.call_spec.in_spec)
    return Inputs(tuple(args), kwargs)


def named(program: ExportedProgram) -> tuple[str, ...]:
    """The names of the program's inputs, in its order."""
    specs = program.graph_signature.input_specs
    return tuple(spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT)


def _keywords(program: ExportedProgram) -> tuple[str, ...]:
    """The names that the program takes inputs by."""
    return tuple(nested(program, range(len(named(program)))).kwargs)


def random_inputs(program: ExportedProgram, seed: int) -> Inputs:
    """Inputs of the program's types and sizes: normal numbers, truths, small whole ones; numbers are as they were."""
    return nested(program, list(_random_leaves(program, seed)))


def _random_leaves(program: ExportedProgram, seed: int) -> Iterator[Any]:
    generator = torch.Generator().manual_seed(seed)
    known = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            value = spec.arg.value if isinstance(spec.arg, ConstantArgument) else known[spec.arg.name]
            yield _random(value, generator) if isinstance(value, Tensor) else value


def _random(like: Tensor, generator: torch.Generator) -> Tensor:
    shape = [size if isinstance(size, int) else int(size.node.hint or 1) for size in like.shape]
    if like.dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(like.dtype)
    return torch.randint(0, 2, shape, generator=generator).to(like.dtype)


def others(example: Inputs, seed: int) -> Inputs:
    """Other random inputs, each with numbers of its own; whole numbers are indices as often as not, and stay."""
    generator = torch.Generator().manual_seed(seed)

    def like(x: Any) -> Any:
        is_real = isinstance(x, Tensor) and x.dtype.is_floating_point
        return torch.randn(x.shape, generator=generator).to(x.dtype) if is_real else x

    return example.replaced(like)
