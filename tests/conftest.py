"""Settings for all tests: the plugin with the table's cases, and the cross-checks whose peers are installed."""

from __future__ import annotations

from importlib.util import find_spec

pytest_plugins = ["conformance.plugin"]

# Without its peer there is nothing to check against; its tox environment installs it and fails on zero tests.
_ABSENT = {peer for peer in ("ai_edge_litert", "executorch") if find_spec(peer) is None}
collect_ignore = ["crosscheck/executorch"] if "executorch" in _ABSENT else []
collect_ignore_glob = ["crosscheck/test_litert_*"] if "ai_edge_litert" in _ABSENT else []
