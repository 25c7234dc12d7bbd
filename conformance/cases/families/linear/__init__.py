"""Linear layers, and products of matrices."""

from __future__ import annotations
