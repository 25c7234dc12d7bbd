"""Graph modules that write their Python only when somebody calls them or asks for it.

Each of ExecuTorch's passes makes new graph modules, and torch.fx writes and compiles Python for each. Nobody runs it:
passes, verifiers and the emitter walk the graph. What is computed stays the same, only later or never.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx

WRITTEN = ("_code", "_lineno_map", "_prologue_start", "_in_spec", "_out_spec")
"""What GraphModule.recompile leaves on a module, besides the methods of its class."""

_recompile = fx.GraphModule.recompile


def _first_call(self: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    _recompile(self)
    return self(*args, **kwargs)


def _first_look(self: fx.GraphModule, name: str) -> Any:
    """`__getattr__` of a class whose module is unwritten: torch asks for what is not there."""
    if name in WRITTEN:
        _recompile(self)
        if name in vars(self):
            return vars(self)[name]
    return super(fx.GraphModule, self).__getattr__(name)


def _postpone(self: fx.GraphModule) -> None:
    """In the place of `recompile`: forget what was written."""
    own: Any = type(self)
    for name in WRITTEN:
        vars(self).pop(name, None)
    own.forward = _first_call
    own.__getattr__ = _first_look


@contextmanager
def unwritten() -> Iterator[None]:
    """Graph modules made or changed in here write their code when it is needed, also afterwards."""
    before = fx.GraphModule.recompile
    fx.GraphModule.recompile = _postpone  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        fx.GraphModule.recompile = before  # type: ignore[method-assign]
