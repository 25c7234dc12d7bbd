"""How variations are called, and how much of them is asked. Nothing here needs torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping

SIDE = "variation"
LIMITS = "at_limit", "outside"
"""The sides of cases about a limit."""
OPENED, FLOW = "open", "flow"
"""The kinds that run otherwise than all others: more than once, and without the backend's passes."""
NONE, CHOSEN, ALL = HOW = ("none", "chosen", "all")
"""How much of all variations is asked."""


def has_passes(name: str) -> bool:
    """Whether the backend's passes run before the program of an id is tagged."""
    return f"/{SIDE}/{FLOW}." not in name


def parts(name: str, known: Container[str]) -> tuple[str, str, str]:
    """The kind, the label and the varied program's id, one `known`, of a variation's id. Raises KeyError for others."""
    place, _, variant = name.rpartition(f"/{SIDE}/")
    kind, *labels = variant.split(".")
    for count in range(1, len(labels)):
        for side in ("accept", *LIMITS):
            if (varied := f"{place}/{side}/{'.'.join(labels[count:])}") in known:
                return kind, ".".join(labels[:count]), varied
    raise KeyError(name)


def asked(names: Iterable[str]) -> Mapping[str, tuple[int, int]]:
    """By kind, how many variations these ids have, and of how many plain programs."""
    found = defaultdict[str, list[tuple[str, str]]](list)
    for name in filter(is_variation, names):
        row, _, variant = name.rpartition(f"/{SIDE}/")
        found[variant.partition(".")[0]].append((row, variant.rpartition(".")[2]))
    return {kind: (len(plain), len({*plain})) for kind, plain in sorted(found.items())}


def is_variation(name: str) -> bool:
    """Whether an id is that of a variation."""
    return f"/{SIDE}/" in name
