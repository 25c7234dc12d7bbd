"""Delays the `__init__` of ExecuTorch's passes until a pass first needs an attribute that it sets.

Arm's compiler makes about 140 passes for a program; each sets up a tracer and an interpreter, and most find nothing to
do. The results stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from npu_assay.conformance.adapters.executorch.silence import quiet

with quiet():
    from executorch.exir.pass_base import ExportPass, _ExportPassBase

_LATER = "_set_up_later"
_set_up: Any = _ExportPassBase.__init__
_MADE = frozenset(vars(ExportPass()))


def _postpone(self: Any) -> None:
    """In place of `__init__`: keep the arguments for later."""
    vars(self)[_LATER] = True


def _first_use(self: Any, name: str) -> Any:
    """`__getattr__`: run `__init__` when an attribute is missing, and keep attributes that were set since."""
    given = vars(self)
    if name in _MADE and given.pop(_LATER, False):
        before = dict(given)
        _set_up(self)
        given.update(before)
        return given[name]
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@contextmanager
def idle() -> Iterator[None]:
    """Passes made in the body are initialized when they first need it, also after the body."""
    _ExportPassBase.__getattr__ = _first_use
    _ExportPassBase.__init__ = _postpone
    try:
        yield
    finally:
        _ExportPassBase.__init__ = _set_up
