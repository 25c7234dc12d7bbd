"""Checks of users' arguments: a TypeError that names the argument, for a value of a wrong type."""

from __future__ import annotations

from collections.abc import Iterable

from torch._ops import OpOverload


def require_type(what: str, found: object, types: type | tuple[type, ...]) -> None:
    """Raise TypeError unless it is of one of the types, or None."""
    if found is not None and not isinstance(found, types):
        names = " or ".join(one.__name__ for one in (types if isinstance(types, tuple) else (types,)))
        raise TypeError(f"{what} is {found!r}, expected {names} or None")


def require_list(what: str, found: object, expected: str) -> Iterable[object]:
    """The items of a list or tuple; none for None. Raises TypeError for anything else, also for a string."""
    if found is None:
        return ()
    if not isinstance(found, (list, tuple)):
        raise TypeError(f"{what} is {found!r}, expected a list of {expected}")
    return found


def require_operator(what: str, found: object) -> None:
    """Raise TypeError unless it is one of torch's operators, with its overload."""
    if not isinstance(found, OpOverload):
        raise TypeError(f"{what} is {found!r}, expected an operator with its overload, e.g. torch.ops.aten.abs.default")
