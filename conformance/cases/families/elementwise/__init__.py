"""Operators that compute each element of their result from the elements at its place."""

from __future__ import annotations
