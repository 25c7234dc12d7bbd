"""The files of a call: what a device is asked, and what it answers (docs/devices.md).

manifest.txt               assay-device 1, then a line for each job: its name and the number of its inputs
in/NAME/model.bin
in/NAME/input_0.npy ...
out/NAME/output_0.npy ...  the device's, and then
out/NAME/done              which has the name in it; error.txt, in place of outputs, says why there are none
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from npu_assay.conformance.common.npy import NpyError, npy_array
from npu_assay.conformance.devices import worker
from npu_assay.files import read_regular

PROTOCOL = 1
MANIFEST, IN, OUT, MODEL, DONE, ERROR = "manifest.txt", "in", "out", "model.bin", "done", "error.txt"
MOST, LARGEST, SAID = 256, 2**30, 2**12
"""How many outputs a job may have, and bytes of one, and of a device's words."""


class AnswerError(ValueError):
    """An answer that is none; the message says what was found in place of it."""


@dataclass(frozen=True)
class Job:
    """A model and its inputs. name: what nobody can know who was not asked this time."""

    model: bytes
    inputs: tuple[torch.Tensor, ...]
    name: str = field(default_factory=lambda: secrets.token_hex(8))


def write(folder: Path, jobs: Sequence[Job]) -> None:
    """Write the files of a call into an empty folder. Raises OSError."""
    (folder / OUT).mkdir()
    lines = [f"assay-device {PROTOCOL}"]
    for job in jobs:
        own = folder / IN / job.name
        own.mkdir(parents=True)
        (folder / OUT / job.name).mkdir()
        (own / MODEL).write_bytes(job.model)
        for number, tensor in enumerate(job.inputs):
            np.save(own / f"input_{number}.npy", tensor.detach().contiguous().numpy(), allow_pickle=False)
        lines.append(f"{job.name} {len(job.inputs)}")
    (folder / MANIFEST).write_text("\n".join(lines) + "\n")


def read(folder: Path, job: Job, ended: bool = False) -> list[torch.Tensor] | None:
    """A job's outputs; None if it was not answered. ended: that its call ended well is answer enough.

    Raises AnswerError for an answer that is none.
    """
    own = folder / OUT / job.name
    names = _names(own)
    if ERROR in names:
        raise AnswerError(_text(own / ERROR, folder) or "the device refuses, and does not say why")
    if DONE in names:
        found = _text(own / DONE, folder)
        if found != job.name:
            raise AnswerError(f"done: found {found[:32]!r}, expected {job.name!r}: an answer to something else")
    elif not ended:
        return None
    return [_tensor(own / name, folder) for name in _expected(name for name in names if name != DONE)]


def asked_only(folder: Path, jobs: Sequence[Job]) -> str:
    """What was answered and not asked, in words; "" if nothing was."""
    other = sorted({*_names(folder / OUT)} - {job.name for job in jobs})
    return f"; it answered {other[0][:32]!r}, which was not asked" if other else ""


def _names(folder: Path) -> list[str]:
    """The names in a folder, of which a device may make any. Raises AnswerError for too many."""
    try:
        with_more = [each.name for each, _ in zip(folder.iterdir(), range(MOST + 3), strict=False)]
    except OSError:
        return []
    if len(with_more) > MOST + 2:
        raise AnswerError(f"found more than {MOST} files")
    return with_more


def _expected(found: Iterable[str]) -> list[str]:
    """The names of outputs in order. Raises AnswerError unless these are they."""
    names = {*found}
    expected = [f"output_{number}.npy" for number in range(len(names))]
    if wrong := sorted(names - {*expected}):
        raise AnswerError(f"found the file {wrong[0][:32]!r}, expected output_0.npy and so on, none left out")
    return expected


def _tensor(path: Path, folder: Path) -> torch.Tensor:
    try:
        found = npy_array(read_regular(path, LARGEST, folder))
    except NpyError as error:
        raise AnswerError(f"{path.name}: {error}") from None
    except OSError as error:
        raise AnswerError(f"{path.name}: {error.strerror or error}") from None
    if found.dtype.name not in worker.TYPES:
        raise AnswerError(f"{path.name}: found {found.dtype.name}, expected one of {', '.join(worker.TYPES)}")
    return torch.from_numpy(np.array(found, found.dtype.newbyteorder("="), order="C", copy=True))


def _text(path: Path, folder: Path) -> str:
    try:
        return " ".join(read_regular(path, SAID, folder).decode("utf-8", "replace").split())
    except OSError as error:
        raise AnswerError(f"{path.name}: {error.strerror or error}") from None
