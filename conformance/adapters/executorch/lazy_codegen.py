"""Delays the code generation of graph modules until they are called or their code is read.

Each of ExecuTorch's passes makes new graph modules, and torch.fx generates and compiles Python for each, which is never
run: passes, verifiers and the emitter walk the graph. The results stay the same.
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
    """`__getattr__` of a class without generated code: generate it when one of its attributes is read."""
    if name in WRITTEN:
        _recompile(self)
        if name in vars(self):
            return vars(self)[name]
    return super(fx.GraphModule, self).__getattr__(name)


def _postpone(self: fx.GraphModule) -> None:
    """In place of `recompile`: discard the generated code."""
    own: Any = type(self)
    for name in WRITTEN:
        vars(self).pop(name, None)
    own.forward = _first_call
    own.__getattr__ = _first_look


@contextmanager
def unwritten() -> Iterator[None]:
    """Graph modules made or changed in the body generate code when it is needed, also after the body."""
    before = fx.GraphModule.recompile
    fx.GraphModule.recompile = _postpone  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        fx.GraphModule.recompile = before  # type: ignore[method-assign]
