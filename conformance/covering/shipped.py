"""The coverage of the shipped tables' limits, as `assay table coverage` counts it: reports show it and start no torch.

`shipped.toml` has the numbers by the digest of a table's file, so that a changed table has none; a test counts again.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from npu_assay.conformance.covering.counts import Counts

FILE = Path(__file__).with_name("shipped.toml")


@cache
def shipped() -> dict[str, Counts]:
    """The numbers of each shipped table, by the SHA-256 of its file."""
    listed = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {sha256: Counts(**numbers) for sha256, numbers in listed.items()}
