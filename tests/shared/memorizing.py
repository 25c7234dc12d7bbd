"""A backend that is right on the numbers of the suite's cases alone: it has seen them all, and is off elsewhere.

Its process cannot make cases, so it reads what it has seen from a file, which `learn` writes elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_backend
import torch
from torch import Tensor

PART = "aten.neg.default/operator"
FILE = "MEMORIZED"  # names the file, in the environment
SEEN = set[str](json.loads(Path(os.environ[FILE]).read_text()) if FILE in os.environ else ())


def _key(x: Tensor) -> str:
    return hashlib.sha256(repr((x.shape, x.tolist())).encode()).hexdigest()


class Learns(fake_backend.FakeRuntime):
    """Remembers every input."""

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        SEEN.update(map(_key, inputs))
        return super().execute(handle, inputs)


class Remembers(fake_backend.FakeRuntime):
    """Adds 1 where an input is new."""

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        outputs = super().execute(handle, inputs)
        known = all(_key(x) in SEEN for x in inputs)
        return outputs if known else [torch.where(output < 127, output + 1, output) for output in outputs]


def learn(path: Path) -> None:
    """Write down the inputs that the cases have."""
    from npu_assay.conformance.cases import cases_for
    from npu_assay.conformance.run.one_case import run_case
    from npu_assay.conformance.table import load_table

    table, learning = load_table(fake_backend.TABLE), replace(fake_backend.backend, runtime=Learns())
    for case in cases_for(table):
        if case.id.startswith(PART):
            run_case(case, learning, table)
    path.write_text(json.dumps(sorted(SEEN)))


backend = replace(fake_backend.backend, runtime=Remembers())
