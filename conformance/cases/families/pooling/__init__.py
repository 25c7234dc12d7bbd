"""Pools: windows over an image, or a line, of which each makes one number."""

from __future__ import annotations
