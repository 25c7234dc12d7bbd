"""Settings for all tests: the plugin with the table's cases, and the cross-checks whose peers are installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

pytest_plugins = ["npu_assay.conformance.plugin", "sampling"]

# Without its peer there is nothing to check against; its tox environment installs it and fails on zero tests.
_ABSENT = {
    peer
    for peer in ("ai_edge_litert", "executorch", "tosa_reference_model", "selenium", "sphinx")
    if find_spec(peer) is None
}
_FOLDERS = {
    "crosscheck/executorch": "executorch",
    "crosscheck/tosa": "tosa_reference_model",
    "crosscheck/vgf": "tosa_reference_model",
    "browser": "selenium",
    "site": "sphinx",
}
collect_ignore = ["pages"]  # makes environments of gigabytes: `tox -e pages` names it
collect_ignore += [folder for folder, peer in _FOLDERS.items() if peer in _ABSENT]
collect_ignore_glob = ["crosscheck/test_litert_*"] if "ai_edge_litert" in _ABSENT else []

os.environ.pop("GITHUB_ACTIONS", None)  # what commands print there, tests ask for
