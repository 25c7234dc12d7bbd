"""Results of probes, from the processes that judge to the run: memory that no process of a backend shares."""

from __future__ import annotations

from mmap import mmap

import torch
from torch import Tensor

from npu_assay.conformance.characterize.exact import in_steps, steps_of
from npu_assay.conformance.characterize.probes import Probe, quant_of
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.answering import FIRST
from npu_assay.conformance.run.question import Answer

ELEMENTS = 4096  # results of one program that are looked at
PARTS = 2  # exact results, and those of the backend


class Sheets:
    """As many places for a program's results as there are programs in one round."""

    def __init__(self, slots: int) -> None:
        self._memory = mmap(-1, slots * (1 + PARTS * ELEMENTS) * 8)
        self._numbers = torch.frombuffer(self._memory, dtype=torch.float64).reshape(slots, 1 + PARTS * ELEMENTS)

    def clear(self) -> None:
        """Forget all results."""
        self._numbers[:, 0] = 0

    def look(self, case: Case, answer: Answer) -> None:
        """Write down what a probe's first run gave, beside the exact results; called where cases are judged."""
        outputs = answer.runs.get(FIRST)
        if not outputs:
            return
        quant = quant_of(case.graph)
        assert isinstance(quant.scale, float)
        exact, found = in_steps(case.graph, quant.scale), steps_of(outputs[0], quant.scale)
        count = min(ELEMENTS, exact.numel())
        if found.numel() != exact.numel():
            return
        place = self._numbers[Probe.named(case.id).slot]
        place[1 : 1 + count] = exact[:count]
        place[1 + ELEMENTS : 1 + ELEMENTS + count] = found[:count]
        place[0] = count

    def read(self, slot: int) -> tuple[Tensor, Tensor] | None:
        """Exact results and the backend's, in steps without the zero point; None where there are none."""
        place = self._numbers[slot]
        count = int(place[0])
        return (place[1 : 1 + count].clone(), place[1 + ELEMENTS :][:count].clone()) if count else None
