"""Rewrites float models into operators that Ethos-U has, before they are quantised."""

from __future__ import annotations

from npu_assay.partitioners.ethosu.rewriting.rewriting import rewrite

__all__ = ["rewrite"]
