"""What Arm's compiler for the real device, Vela, says to a TOSA flatbuffer. Needs ethos-u-vela."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from npu_assay.partitioners.exir.backend import BlobCheck, CompileSpec

FLAGS = "compile_flags"
"""The compile spec that holds Vela's flags."""


def refusal(blob: bytes, compile_specs: Sequence[CompileSpec]) -> str:
    """Why Vela does not compile the blob for the target of the compile specs; "" when it does."""
    from ethosu.vela import vela  # optional

    flags = [flag for spec in compile_specs if spec.key == FLAGS for flag in spec.value.decode().split()]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        source = Path(folder, "graph.tosa")
        source.write_bytes(blob)
        try:
            with _heard(said):
                vela.main([*flags, f"--output-dir={folder}", str(source)])
        except (Exception, SystemExit) as error:  # noqa: BLE001  (Vela raises anything for what it cannot do)
            return f"{type(error).__name__}: {_gist(said) or error}"
        made = Path(folder, "graph_vela.npz").is_file()
        return "" if made else _gist(said) or "it ended without an error, and without a result"


@contextlib.contextmanager
def _heard(said: IO[bytes]) -> Iterator[None]:
    """What native code and Python write to the standard streams goes to the file."""
    sys.stdout.flush()
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(said.fileno(), number)
        yield
    finally:
        sys.stdout.flush()
        for number, stream in zip((1, 2), kept, strict=True):
            os.dup2(stream, number)
            os.close(stream)


def _gist(said: IO[bytes]) -> str:
    """The lines that tell of errors, without the folder's random name."""
    said.seek(0)
    lines = said.read().decode(errors="replace").splitlines()
    found = [line.strip() for line in lines if "error" in line.lower() or line.lstrip().startswith("-")]
    return "; ".join(" ".join(line.split()) for line in found[:4])


VELA = BlobCheck("ethos-u-vela", refusal)
