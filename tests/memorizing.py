"""A backend that is right on the numbers of the suite's cases alone: it has seen them all, and is off elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import fake_backend
import torch
from torch import Tensor

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table

PART = "aten.neg.default/operator"
SEEN = set[bytes]()


def _key(x: Tensor) -> bytes:
    return repr((x.shape, x.tolist())).encode()


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


_TABLE = load_table(fake_backend.TABLE)
_LEARNING = replace(fake_backend.backend, runtime=Learns())
for _case in cases_for(_TABLE):
    if _case.id.startswith(PART):
        run_case(_case, _LEARNING, _TABLE)
backend = replace(fake_backend.backend, runtime=Remembers())
