"""What a run must know of a backend, told by the process that has loaded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npu_assay.conformance.backend.environment import file_digest
from npu_assay.conformance.backend.loading import (
    BackendSpecError,
    highest_level,
    installed_tools,
    needed_path,
    target,
)
from npu_assay.conformance.backend.sources import backend_files
from npu_assay.conformance.devices.place import DEVICE, HERE, Place


@dataclass(frozen=True)
class About:
    """Plain data. table: the backend's own. tools: versions by distribution. path: the PYTHONPATH that finds it.

    level: how far it can be judged.
    """

    name: str
    table: str
    tools: dict[str, str]
    sources: dict[str, str]
    path: str
    level: str


def about(spec: str, tools: Sequence[str], place: Place = HERE) -> About:
    """Load a backend and say what it is. Raises UsageError for one that does not load, or lacks a tool."""
    from npu_assay.conformance.devices.placing import command_of, load_placed, versions_there  # loads torch

    backend = load_placed(spec, place)
    command = command_of(backend.runtime)  # of --device, or of the backend's record
    device = {} if command is None else {DEVICE: command.command}
    versions = installed_tools(backend, tools) | versions_there(backend, backend.distributions) | device
    return About(
        backend.name, backend.table, versions, backend_sources(spec), needed_path(spec), highest_level(backend)
    )


def backend_sources(spec: str) -> dict[str, str]:
    """sha256 of each file that a loaded backend is made of, by its path from a folder of Python's path.

    Raises BackendSpecError for a file that cannot be read.
    """
    digests = dict[str, str]()
    for name, file in sorted(backend_files(target(spec).partition(":")[0]).items()):
        try:
            digests[name] = file_digest(file)
        except OSError as error:
            raise BackendSpecError(
                f"backend {spec!r}: cannot read {file}, one of its files: {error.strerror}"
            ) from None
    return digests
