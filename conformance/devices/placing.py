"""Backends whose programs run at a place of their user's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from npu_assay.conformance.backend.loading import BackendSpecError, load_backend
from npu_assay.conformance.devices.command import Command
from npu_assay.conformance.devices.machine import Machine, MachineError
from npu_assay.conformance.devices.place import Place
from npu_assay.partitioners.exir.backend import Backend, Runtime


def load_placed(spec: str, place: Place) -> Backend:
    """Load a backend whose programs run at a place. Raises BackendSpecError where they cannot."""
    backend = load_backend(spec, elsewhere=bool(place.python or place.device))
    runtime = backend.runtime
    if place.python:
        if not isinstance(runtime, Machine):
            raise BackendSpecError(
                f"backend {spec!r}: found --python, expected a backend whose runtime is a Machine (docs/devices.md)"
            )
        runtime.python = str(Path(place.python).absolute())
    if place.device:
        command = Command(place.device, place.call, place.case)
        if isinstance(runtime, Machine):
            runtime.instead = command
        else:
            backend = replace(backend, runtime=command)
    if (own := command_of(backend.runtime)) is not None:
        own.folder = own.folder or place.folder
    return backend


def command_of(runtime: Runtime) -> Command | None:
    """The command that a runtime calls, if there is one."""
    inner = runtime.instead if isinstance(runtime, Machine) else runtime
    return inner if isinstance(inner, Command) else None


def versions_there(backend: Backend, distributions: Sequence[str]) -> dict[str, str]:
    """What another interpreter says of itself and of these distributions; {} where there is none.

    Raises BackendSpecError for one that does not load the backend's program.
    """
    runtime = backend.runtime
    if not isinstance(runtime, Machine) or not runtime.python or runtime.instead is not None:
        return {}
    try:
        runtime.start(distributions)
    except MachineError as error:
        raise BackendSpecError(f"backend {backend.name!r}: {shlex.quote(runtime.python)}: {error}") from None
    found = dict(runtime.versions)
    runtime.close()  # what is forked from here needs processes of its own
    return found
