"""A limit from both sides: the least with which something is taken, and one less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npu_assay.partitioners.exir.flatbuffer import FormatError


def taken_from(
    least: float,
    module: Any,
    limit: str,
    monkeypatch: pytest.MonkeyPatch,
    load: Callable[[], object],
    what: str,
    error: type[FormatError] = FormatError,
) -> None:
    monkeypatch.setattr(module, limit, least)
    load()
    monkeypatch.setattr(module, limit, least - 1)
    with pytest.raises(error, match=what):
        load()
