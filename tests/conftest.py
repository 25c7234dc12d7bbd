"""Settings for all tests: the plugin with the table's cases, and the cross-check where LiteRT is installed."""

from __future__ import annotations

from importlib.util import find_spec

pytest_plugins = ["conformance.plugin"]

# Without LiteRT there is nothing to check against; tox -e litert installs it and fails on zero tests.
collect_ignore = [] if find_spec("ai_edge_litert") else ["crosscheck"]
