"""Neutron's table with other limits."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.table import FOLDER, Table, load_table
from npu_assay.partitioners.exir import Backend

TEXT = (FOLDER / "neutron@1.3.toml").read_text()


def changed(folder: Path, *changes: tuple[str, str]) -> Table:
    """The Neutron table with some of its text replaced."""
    text = TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "other.toml"
    path.write_text(text)
    return load_table(str(path))


@cache
def neutron() -> Backend:
    return load_backend("npu_assay.partitioners.neutron:backend")
