"""The home of an operator by its name: the suite's own, or one that an installed package brings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from npu_assay.reference import outside
from npu_assay.reference.operators import HOMES, Operator


@cache
def outside_operators() -> Mapping[str, Operator]:
    """Every operator that an installed package brings, by name.

    Raises OutsideError for an entry that does not load, that is not an Operator, or that has the name of another
    or of one of the suite's own.
    """
    found = dict[str, Operator]()
    for point in outside.points():
        where = f"operator {point.value!r} of {outside.GROUP}"
        try:
            loaded = point.load()
        except Exception as error:  # whatever a stranger's module raises
            raise outside.OutsideError(f"{where}: {type(error).__name__}: {error}") from error
        if not isinstance(loaded, Operator):
            raise outside.OutsideError(f"{where}: found a {type(loaded).__name__}, expected an Operator")
        if loaded.name in found or loaded.name in HOMES:
            raise outside.OutsideError(f"{where}: {loaded.name} is there already")
        found[loaded.name] = loaded
    return found


def is_indices(name: str, index: int) -> bool:
    """Whether a result of an operator is the indices of its first one's numbers, which nobody quantizes."""
    own = home(name)
    return index == 1 and own is not None and own.with_indices


def home(name: str) -> Operator | None:
    """An operator's home, the suite's own or one from outside; None for an operator that has none."""
    return HOMES.get(name) or outside_operators().get(name)
