"""The configuration of a backend's compiler: a list of key-value pairs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class CompileSpec:
    """One key-value pair that configures a backend's compiler."""

    key: str
    value: bytes
