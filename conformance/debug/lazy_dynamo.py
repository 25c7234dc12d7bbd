"""torch's compiler, `torch._dynamo`, which is loaded when something first needs it.

Making a fake tensor asks for two settings of it and the name of a source, and so loads all of it: a quarter of the time
of one case from the shell. Until something needs the rest, nothing is compiled, and what it computes stays the same.

Only where one case runs in this process, or none: elsewhere what a case loads would hide what it changes
(`isolation.state`).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"
ALONE = (
    "aot_compile_types",
    "bytecode_analysis",
    "bytecode_transformation",
    "callback",
    "config",
    "device_interface",
    "exc",
    "graph_utils",
    "metrics_context",
    "source",
    "utils",
)
"""Its modules that load without the others: what fake tensors ask for, and what these import."""


class _Later(ModuleType):
    """Stands for the package until something asks for more than a module of `ALONE`, and becomes it then."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        if name in ALONE:
            return importlib.import_module(f"{NAME}.{name}")
        load()
        return getattr(self, name)


def load() -> None:
    """Load the package into the module that stands for it, if that has not been done."""
    module = sys.modules.get(NAME)
    if isinstance(module, _Later):
        module.__class__ = ModuleType  # type: ignore[assignment]  # the whole point
        del module.disable
        assert module.__spec__ is not None and module.__spec__.loader is not None
        module.__spec__.loader.exec_module(module)


class _Postponed:
    """Makes a module that stands for the package, whose own loader is kept for `load`."""

    def __init__(self, spec: ModuleSpec) -> None:
        assert spec.loader is not None
        self._loader = spec.loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        module.__class__ = _Later
        vars(module)["disable"] = _disable


class _Loaded:
    """Gives a module that loading the package has already loaded."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Finder:
    """Postpones the package, and loads it before those of its modules that expect that, as torch does."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name == NAME:
            spec = PathFinder.find_spec(name, path)
            if spec is not None:
                spec.loader = _Postponed(spec)  # type: ignore[assignment]  # no more than what imports call
            return spec
        if not name.startswith(f"{NAME}.") or name.split(".")[2] in ALONE:
            return None
        if not isinstance(sys.modules.get(NAME), _Later):
            return None
        load()
        module = sys.modules.get(name)
        if module is None:
            return None
        spec = importlib.util.spec_from_loader(name, _Loaded(module))  # type: ignore[arg-type]
        module.__spec__ = spec  # Python takes a loaded module's own one, which would load it again
        return spec


def _disable(function: Callable[..., Any] | None = None, *arguments: Any, **options: Any) -> Any:
    """As `torch._dynamo.disable`: there is nothing to disable until the package is loaded."""
    if function is None or not isinstance(sys.modules.get(NAME), _Later):
        return _package().disable(function, *arguments, **options)
    disabled: list[Callable[..., Any]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(sys.modules.get(NAME), _Later):
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(_package().disable(function, *arguments, **options))
        return disabled[0](*args, **kwargs)

    return call


def _package() -> Any:
    return sys.modules[NAME]


def postpone() -> None:
    """Let the package be loaded when something needs it; nothing happens where it is there. Loads nothing itself."""
    if NAME not in sys.modules and not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
