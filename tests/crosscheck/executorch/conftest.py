"""What several cross-checks with ExecuTorch start once for all of their tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crosscheck.executorch.real import Machine


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    found = Machine()
    yield found
    found.close()
