"""Backends whose programs run at a place of their user's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from npu_assay.conformance.backend.loading import BackendSpecError, load_backend
from npu_assay.conformance.devices.command import Command
from npu_assay.conformance.devices.machine import Machine, MachineError
from npu_assay.conformance.devices.place import Place
from npu_assay.partitioners.exir.backend import Backend


def load_placed(spec: str, place: Place) -> Backend:
    """Load a backend whose programs run at a place. Raises BackendSpecError where they cannot."""
    backend = load_backend(spec)
    runtime = backend.runtime
    if place.python:
        if not isinstance(runtime, Machine):
            raise BackendSpecError(
                f"backend {spec!r}: found --python, expected a backend whose runtime is a Machine (docs/devices.md)"
            )
        runtime.python = str(Path(place.python).absolute())
    elif isinstance(runtime, Machine) and runtime.needs and not place.device and find_spec(runtime.needs) is None:
        raise BackendSpecError(
            f"backend {spec!r}: found no module {runtime.needs!r}, expected --python with the interpreter of an "
            "environment that has it (docs/interchange.md)"
        )
    if place.device:
        command = Command(place.device, place.call, place.case, place.folder)
        if not isinstance(runtime, Machine):
            return replace(backend, runtime=command)
        runtime.instead = command
    return backend


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
