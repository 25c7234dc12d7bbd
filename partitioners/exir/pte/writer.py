"""Programs to `.pte` files."""

from __future__ import annotations

from partitioners.exir.pte.model import Program


def write(
    program: Program,
    *,
    delegate_segments: bool = True,
    segment_alignment: int = 128,
    constant_alignment: int = 16,
    delegate_alignment: int = 16,
) -> bytes:
    """The program as a `.pte` file. Raises FormatError for one that `check` refuses."""
    raise AssertionError("under construction")
