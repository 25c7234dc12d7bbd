"""What `assay verify` was asked for besides the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npu_assay.conformance.common.errors import UsageError

if TYPE_CHECKING:
    from npu_assay.conformance.devices.place import Place

ALL = 0  # cases to run again: every one


@dataclass(frozen=True)
class Asked:
    """The options of a run of the cases again, and of checking a signature; None where one was left out."""

    key: Path | None
    attestation: Path | None
    cases: int | None
    seed: int | None
    draw: int | None
    backend: str | None
    workers: int | None
    timeout: float | None
    memory: int | None
    out: Path | None
    place: Place | None = None

    def check(self) -> None:
        """Raise a usage error for an option that nothing is done with."""
        given = {
            "--seed": self.seed,
            "--draw": self.draw,
            "-n": self.workers,
            "--timeout": self.timeout,
            "--memory": self.memory,
            "--out": self.out,
            "--device or --python": self.place,
        }
        found = [name for name, value in given.items() if value is not None]
        if self.cases is None and found:
            raise UsageError(f"{found[0]} says how to run cases again, expected --rerun with it")
        if self.cases is None and self.key is None and self.backend is not None:
            raise UsageError("--backend says which backend is here, expected --rerun or --key with it")
        if self.key is None and self.attestation is not None:
            raise UsageError("--attestation is a signature to check, expected --key with it")
