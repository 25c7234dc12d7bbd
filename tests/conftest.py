"""Settings for all tests: the plugin with the table's cases, and the cross-checks whose peers are installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest_plugins = ["conformance.plugin"]

# Without its peer there is nothing to check against; its tox environment installs it and fails on zero tests.
_ABSENT = {peer for peer in ("ai_edge_litert", "executorch", "tosa_reference_model") if find_spec(peer) is None}
_FOLDERS = {"executorch": "crosscheck/executorch", "tosa_reference_model": "crosscheck/tosa"}
collect_ignore = [folder for peer, folder in _FOLDERS.items() if peer in _ABSENT]
collect_ignore_glob = ["crosscheck/test_litert_*"] if "ai_edge_litert" in _ABSENT else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """XNNPACK's networks first: something in tests/test_exir_lower.py changes what two of them show; open."""
    items.sort(key=lambda item: "test_networks_xnnpack" not in item.nodeid)
