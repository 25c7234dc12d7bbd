"""How variations are called, and how much of them is asked. Nothing here needs torch."""

from __future__ import annotations

SIDE = "variation"
OPENED, FLOW = "open", "flow"
"""The kinds that run otherwise than all others: more than once, and without the backend's passes."""
NONE, CHOSEN, ALL = HOW = ("none", "chosen", "all")
"""How much of all variations is asked."""


def has_passes(name: str) -> bool:
    """Whether the backend's passes run before the program of an id is tagged."""
    return f"/{SIDE}/{FLOW}." not in name


def is_variation(name: str) -> bool:
    """Whether an id is that of a variation."""
    return f"/{SIDE}/" in name
