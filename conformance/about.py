"""What a run must know of a backend, told by the process that has loaded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npu_assay.conformance.backends import installed_tools, load_backend, needed_path, source_files, target
from npu_assay.conformance.environment import digest_files


@dataclass(frozen=True)
class About:
    """Plain data. table: the backend's own. tools: versions by distribution. path: the PYTHONPATH that finds it."""

    name: str
    table: str
    tools: dict[str, str]
    sources: dict[str, str]
    path: str


def about(spec: str, tools: Sequence[str]) -> About:
    """Load a backend and say what it is. Raises UsageError for one that does not load, or lacks a tool."""
    backend = load_backend(spec)
    versions = installed_tools(backend, tools)
    return About(backend.name, backend.table, versions, backend_sources(spec), needed_path(spec))


def backend_sources(spec: str) -> dict[str, str]:
    """sha256 of the backend's source files, by their path from its package's parent."""
    files = source_files(spec)
    folder = min((file.parent for file in files), key=lambda parent: len(parent.parts))
    module = target(spec).partition(":")[0]
    prefix = module.replace(".", "/") if len(files) > 1 else ""
    return {name.lstrip("/"): digest for name, digest in digest_files(files, folder, prefix).items()}
