"""Marks of the tests that quantize with PT2E: what torch and torchao warn of there, and nothing here can change."""

from __future__ import annotations

import pytest

QUANTIZES = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
    pytest.mark.filterwarnings("ignore:must run observer before calling calculate_qparams:UserWarning"),
]
