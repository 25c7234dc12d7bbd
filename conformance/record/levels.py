"""How far a run looks: what of a backend is judged, and so what a certificate of it claims."""

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
"""What a reader must know of a verdict: of the lower levels, what it says nothing about."""
NEEDS: Mapping[str, str] = {TAGS: "a partitioner", COMPILES: "a compiler", RUNS: "a runtime", NUMBERS: "a runtime"}
"""What a backend must have for a level, besides what those before it need."""


def reaches(level: str, wanted: str) -> bool:
    """Whether all that `wanted` judges is judged at `level`."""
    return LEVELS.index(level) >= LEVELS.index(wanted)


def named(text: str, level: str) -> str:
    """A verdict with its level, unless that is the highest: "certified (tags)"."""
    return text if level == NUMBERS else f"{text} ({level})"


def unjudged(level: str) -> str:
    """What the level leaves open, as it stands behind a verdict; "" of the highest."""
    return "" if level == NUMBERS else f"; {JUDGED[level]}"
