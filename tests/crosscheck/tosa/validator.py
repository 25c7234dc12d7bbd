"""TOSA's own validation of flatbuffers, by the tool `tosa-opt` of tosa-tools: does it load them, do they keep TOSA 1.0?

Its loader is that of Arm's serializer. The validation is of types, shapes and attributes, operator by operator,
for the integer profile with 16-bit activations and the ranges of level 8K, as strict as the tool can be.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

TARGET = "profiles=pro_int extensions=int16 level=8k specification_version=1.0"
BATCH = 64  # one process for so many flatbuffers: a long one costs more to repeat when something is refused


def refusals(blobs: Sequence[bytes], folder: Path) -> list[str]:
    """Why each blob is refused, "" where it is not. Writes the blobs into the folder."""
    batches = [blobs[start : start + BATCH] for start in range(0, len(blobs), BATCH)]
    return [refusal for batch in batches for refusal in _refusals(batch, folder)]


def _refusals(blobs: Sequence[bytes], folder: Path) -> list[str]:
    if not _refusal(blobs, folder):
        return [""] * len(blobs)
    return [_refusal([blob], folder) for blob in blobs]


def _refusal(blobs: Sequence[bytes], folder: Path) -> str:
    """Why some blob is refused; "" when none is."""
    files = [folder / f"{number}.tosa" for number in range(len(blobs))]
    for file, blob in zip(files, blobs, strict=True):
        file.write_bytes(blob)
    passes = ",".join(map(_passes, files))
    command = [str(_tool()), f"--pass-pipeline=builtin.module({passes})", "-o", str(folder / "none.mlir"), "-"]
    done = subprocess.run(command, input="module {}", capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if line and not line.startswith("WARNING")]
    return "; ".join(said[:2]).replace(str(folder), "") or f"the tool ended with {done.returncode}"


def _passes(file: Path) -> str:
    """Loading a flatbuffer in the place of whatever was there, and its validation."""
    validation = "tosa-validate{strict-op-spec-alignment=true}"
    return f"tosa-deserialize{{tosa-flatbuffer-filename={file}}},tosa-attach-target{{{TARGET}}},{validation}"


def _tool() -> Path:
    return Path(str(distribution("tosa-tools").locate_file("bin/tosa-opt")))
