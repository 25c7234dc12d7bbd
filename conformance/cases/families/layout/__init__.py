"""Operators that move numbers and compute nothing."""

from __future__ import annotations
