"""Faults as competent people make them, each after a public issue or change of a real backend.

`assay certify benchmarks.people.xnnpack:slice_start_clipped` certifies one, from the repository's folder.
`python -m benchmarks.people` certifies all. `witnesses` has a program for each that shows it; no fault needs that.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from torch import fx

from npu_assay.faults import compiling_with, partitioning_with, with_device
from npu_assay.faults import together as together
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.exir.rules import Rule

MODULES = ("xnnpack", "neutron", "neutron_1_4", "ethosu")


@dataclass(frozen=True)
class Mistake:
    """A fault, and where its kind was seen: `source` is a repository with the number of an issue or pull request.

    stage: rule, compiler or device. rows: what it concerns, as `assay certify -k` selects it.
    """

    name: str
    backend: Backend
    stage: str
    wrong: str
    source: str
    rows: str
    spec: str


Made = Callable[[], AbstractContextManager[Any] | Backend]
_FOUND: list[Mistake] = []


def mistakes() -> tuple[Mistake, ...]:
    """All of them."""
    for name in MODULES:
        importlib.import_module(f"{__name__}.{name}")
    return tuple(_FOUND)


def fault(right: Backend, stage: str, rows: str, source: str) -> Callable[[Made], Backend]:
    """Make a backend of a function that returns a patch, or a backend with the broken device."""

    def made(how: Made) -> Backend:
        spec, wrong = f"{how.__module__}:{how.__name__}", str(how.__doc__)
        _FOUND.append(Mistake(how.__name__, right, stage, wrong, source, rows, spec))
        return _broken(right, stage, how)

    return made


def _broken(right: Backend, stage: str, how: Any) -> Backend:
    if stage == "rule":
        return partitioning_with(right, how)
    if stage == "compiler":
        return compiling_with(right, how)
    found = how()
    return replace(right, runtime=found.runtime) if isinstance(found, Backend) else with_device(right, how)


Holds = Callable[[fx.Node, Any], bool]


def checking(rules: Iterable[Rule[Any]], code: str, holds: Holds) -> tuple[Rule[Any], ...]:
    """Rules of which those of a code ask another question."""

    def check(node: fx.Node, context: Any) -> str | None:
        return None if holds(node, context) else "something else"

    return tuple(replace(rule, check=check) if rule.code == code else rule for rule in rules)


def calling(module: Any, name: str, function: Callable[..., Any]) -> AbstractContextManager[Any]:
    """A module in which a name, perhaps a builtin, means another function."""
    return patch.object(module, name, function, create=True)


def wrapped(total: Any, bits: int = 16) -> Any:
    """Integers as a type of so many bits holds them."""
    half = 1 << (bits - 1)
    return (total + half) % (2 * half) - half


def count(sizes: Iterable[int]) -> int:
    """The elements of a shape."""
    return math.prod(sizes)
