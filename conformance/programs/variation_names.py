"""How variations are called, and how much of them is asked. Nothing here needs torch."""

from __future__ import annotations

SIDE = "variation"
NONE, CHOSEN, ALL = HOW = ("none", "chosen", "all")
"""How much of all variations is asked."""


def is_variation(name: str) -> bool:
    """Whether an id is that of a variation."""
    return f"/{SIDE}/" in name
