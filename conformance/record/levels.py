"""The levels of a run: what of a backend is judged, and so what a certificate claims.

Commands read them before anything that judges may be loaded, so this imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping

TAGS, COMPILES, RUNS, NUMBERS = LEVELS = ("tags", "compiles", "runs", "numbers")
"""From the lowest to the highest; each judges all that those before it judge."""
JUDGED: Mapping[str, str] = {
    TAGS: "nothing was compiled or run, numbers were not judged",
    COMPILES: "nothing was run, numbers were not judged",
    RUNS: "numbers were not judged",
    NUMBERS: "tags, blobs, runs and numbers were judged",
}
"""What a verdict at each level does not cover; at the highest, what it covers."""


def reaches(level: str, wanted: str) -> bool:
    """Whether `level` judges all that `wanted` judges."""
    return LEVELS.index(level) >= LEVELS.index(wanted)


def named(text: str, level: str) -> str:
    """A verdict with its level, unless that is the highest: "certified (tags)"."""
    return text if level == NUMBERS else f"{text} ({level})"


def unjudged(level: str) -> str:
    """What the level leaves unjudged, as a suffix to a verdict; "" at the highest."""
    return "" if level == NUMBERS else f"; {JUDGED[level]}"
