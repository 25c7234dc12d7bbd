"""What a user may ask of the partitioner."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import Enum


class ConfigPrecisionType(Enum):
    """How an operator's numbers are represented."""

    FP32 = 1
    STATIC_QUANT = 2
    DYNAMIC_QUANT = 3


@dataclass(frozen=True)
class Options:
    """Choices that change what is delegated; their meaning is that of `XnnpackPartitioner`'s arguments."""

    config_precisions: tuple[ConfigPrecisionType, ...] = ()
    per_op_mode: bool = False
    verbose: bool = False
    force_non_static_weights_for_f32_linear: bool = False
    enable_bf16: bool = False

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:
            found = getattr(self, field.name)
            if not isinstance(found, bool):
                raise TypeError(f"{field.name} is {found!r}, expected True or False")

    def enabled(self, supported: Sequence[ConfigPrecisionType]) -> tuple[ConfigPrecisionType, ...]:
        """The requested precisions of an operator; all, if none is requested."""
        return tuple(p for p in self.config_precisions if p in supported) if self.config_precisions else (*supported,)


def precisions(asked: ConfigPrecisionType | Iterable[ConfigPrecisionType] | None) -> tuple[ConfigPrecisionType, ...]:
    """One precision, several or none as a tuple. Raises TypeError for anything else."""
    if asked is None:
        return ()
    if isinstance(asked, ConfigPrecisionType):
        return (asked,)
    found = tuple(asked) if isinstance(asked, Iterable) and not isinstance(asked, str) else (asked,)
    for precision in found:
        if not isinstance(precision, ConfigPrecisionType):
            names = ", ".join(str(known) for known in ConfigPrecisionType)
            raise TypeError(f"config_precisions has {precision!r}, expected one or more of {names}")
    return found


def refuse_unknown(given: Iterable[str], known: Sequence[str], owner: str) -> None:
    """Raise TypeError for the first name that `owner` has no option for, with the nearest one that it has."""
    for name in given:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise TypeError(f"{owner} has no option {name!r}: {hint}expected one of {', '.join(known)}")
