"""Finds attributes of Python, torch, numpy and this suite that a case replaced and did not restore.

A patched function stays for later cases in the same process, and for their goldens. This finds patches that were
forgotten, not those that hide: a changed code object of a function, or what native code does, is not seen.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

SUITE = ("npu_assay.conformance", "npu_assay.reference", "npu_assay.partitioners.exir")
NO_JUDGES = ("adapters", "cases", "commands", "interchange", "mutation", "report", "repro")
APART = tuple(f"npu_assay.conformance.{name}" for name in NO_JUDGES)
SHOWN = 4  # names in a report

_set, _delete, _zip, _len, _isinstance = setattr, delattr, zip, len, isinstance  # a case may have replaced these, too


@dataclass
class Place:
    """A module or class, its name, its namespace, and the values in it as they were before."""

    owner: Any
    name: str
    names: Mapping[str, Any]
    before: dict[str, Any]

    def changes(self) -> list[str]:
        """The names whose value was replaced or deleted; the old values are put back.

        New names do not count, as imports add some, unless they hide an inherited attribute. Neither do a submodule
        that an import put in place of something, and attributes that torch sets with a setting of `State`.
        """
        found = []
        for name in self._hiding():
            _delete(self.owner, name)
            found.append(f"{self.name}.{name}")
        for name, value in self.before.items():
            if f"{self.name}.{name}" in _SET_BY_TORCH:
                continue
            after = self.names.get(name, _GONE)
            if after is not value and after is not sys.modules.get(f"{self.name}.{name}", value):
                _set(self.owner, name, value)
                found.append(f"{self.name}.{name}")
        self.before = {**self.names}
        return found

    def _hiding(self) -> list[str]:
        """New attributes of a class that hide those of its bases."""
        bases = self.owner.__mro__[1:-1] if _isinstance(self.owner, type) else ()
        return [
            name for name in self.names if name not in self.before and [base for base in bases if name in base.__dict__]
        ]


_GONE = object()
_SET_BY_TORCH = ("torch.Storage",)  # by torch.set_default_dtype, and put back by it


@dataclass
class Bindings:
    """All places with the values in each; comparing unchanged lists takes 0.15 ms."""

    places: list[Place]
    values: list[list[Any]]

    @classmethod
    def now(cls) -> Bindings:
        """The bindings as they are now."""
        owners = [*_LIBRARIES, *_suite()]
        names = [vars(owner) for _, owner in owners]
        places = [Place(owner, name, each, {**each}) for (name, owner), each in zip(owners, names, strict=True)]
        return cls(places, [[*each.values()] for each in names])

    def changes(self) -> list[str]:
        """The changed names, in words; the old values are put back."""
        now = [[*place.names.values()] for place in self.places]
        if _equal(now, self.values):
            return []
        found = []
        for place, before, after in _zip(self.places, self.values, now):
            if not _equal(before, after):
                found += place.changes()
        self.values = [[*place.names.values()] for place in self.places]
        return [f"{name} changed" for name in found[:SHOWN]] + (
            [f"{_len(found) - SHOWN} more names changed"] if _len(found) > SHOWN else []
        )


def _equal(some: list[Any], others: list[Any]) -> bool:
    try:
        return some == others
    except Exception:  # noqa: BLE001  (of tensors or arrays, which are not the same objects then)
        return False


_LIBRARIES: tuple[tuple[str, Any], ...] = (
    ("builtins", builtins),
    ("math", math),
    ("torch", torch),
    ("torch.Tensor", torch.Tensor),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.ops.aten", torch.ops.aten),
    ("numpy", np),
)


def _suite() -> list[tuple[str, Any]]:
    """The modules of the suite that run or judge cases, and the classes that judge."""
    modules = [
        (name, module)
        for name, module in sys.modules.items()
        if name.startswith(SUITE) and not name.startswith(APART) and isinstance(module, ModuleType)
    ]
    return modules + [
        (f"{name}.{key}", value)
        for name, module in modules
        if name.startswith(SUITE[0])
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == name
    ]
