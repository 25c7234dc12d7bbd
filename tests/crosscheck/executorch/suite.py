"""The models of ExecuTorch's own operator suite, with their inputs: its tests, run with a runner that only listens."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import unittest
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see peer
    from executorch.backends.test.suite import operators


@dataclass(frozen=True)
class Sample:
    """One model, its inputs, and the sizes that the test leaves open."""

    name: str
    model: torch.nn.Module
    inputs: tuple[Any, ...]
    dynamic_shapes: Any = None


@dataclass
class Listener:
    """Stands for the suite's runner: takes down what it is given."""

    found: list[tuple[torch.nn.Module, tuple[Any, ...], Any]] = field(default_factory=list)
    _flow: Any = field(default_factory=lambda: SimpleNamespace(quantize=False))  # what some tests look at

    def lower_and_run_model(self, model: torch.nn.Module, inputs: tuple[Any, ...], **options: Any) -> None:
        """Called by each of the suite's tests."""
        self.found.append((model, inputs, options.get("dynamic_shapes")))


def samples() -> list[Sample]:
    """Every model of the suite in every parametrisation. The suite draws inputs from torch's global generator."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return list(_samples())


def _samples() -> Iterator[Sample]:
    for info in pkgutil.iter_modules(operators.__path__, operators.__name__ + "."):
        module = importlib.import_module(info.name)
        for name, test in vars(module).items():
            if not name.startswith("test_") or not callable(test):
                continue
            for given in _parametrisations(test):
                listener = Listener()
                with suppress(unittest.SkipTest):
                    test(listener, **given)
                for index, (model, inputs, sizes) in enumerate(listener.found):
                    label = "-".join([name, *map(str, given.values()), *([str(index)] if index else [])])
                    yield Sample(label.replace("torch.", ""), model.eval(), inputs, sizes)


def _parametrisations(test: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """The keyword arguments that pytest would call a test with."""
    choices: list[list[dict[str, Any]]] = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
            rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
            choices.append([dict(zip(names, row, strict=True)) for row in rows])
    wanted = set(inspect.signature(test).parameters)
    for combination in product(*choices):
        given = {key: value for part in combination for key, value in part.items()}
        yield {key: value for key, value in given.items() if key in wanted}
