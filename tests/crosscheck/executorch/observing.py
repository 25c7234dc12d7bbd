"""Calibration that takes ranges as they occur.

Searching for the range that clips best takes nine tenths of the time of these tests, and has no say in tags.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchao uses parts of Python that are deprecated
    from torchao.quantization.pt2e.observer import HistogramObserver


def whole_ranges() -> Iterator[None]:
    """For a fixture: no observer searches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HistogramObserver, "_non_linear_param_search", lambda self: (self.min_val, self.max_val))
        yield
