"""ExecuTorch's passes, which are set up when they first need what that makes.

Arm's compiler makes about 140 passes for a program; each sets up a tracer and an interpreter, and most find nothing to
do. What they compute stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from npu_assay.conformance.adapters.executorch.quiet import quiet

with quiet():
    from executorch.exir.pass_base import ExportPass, _ExportPassBase

_LATER = "_set_up_later"
_set_up: Any = _ExportPassBase.__init__
_MADE = frozenset(vars(ExportPass()))


def _postpone(self: Any) -> None:
    """In the place of `__init__`."""
    vars(self)[_LATER] = True


def _first_use(self: Any, name: str) -> Any:
    """`__getattr__`: set the pass up when what that makes is missing, and keep what it was given since."""
    given = vars(self)
    if name in _MADE and given.pop(_LATER, False):
        before = dict(given)
        _set_up(self)
        given.update(before)
        return given[name]
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@contextmanager
def idle() -> Iterator[None]:
    """Passes made in here are set up when they need it, also afterwards."""
    _ExportPassBase.__getattr__ = _first_use
    _ExportPassBase.__init__ = _postpone
    try:
        yield
    finally:
        _ExportPassBase.__init__ = _set_up
