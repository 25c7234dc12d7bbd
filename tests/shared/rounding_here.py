"""Characterizes in this process: on a backend, or on what the published definition of a rescale scheme gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from npu_assay.conformance.characterize.asking import Rounds, plain_cases
from npu_assay.conformance.characterize.exact import reals
from npu_assay.conformance.characterize.plan import Answers, Finding
from npu_assay.conformance.characterize.probes import Probe, Probes, quant_of
from npu_assay.conformance.isolation.judge import Look
from npu_assay.conformance.programs.graph import Case, Value
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.answering import FIRST, answer
from npu_assay.conformance.run.drawing import Drawing
from npu_assay.conformance.run.one_case import asked, judged, result_of
from npu_assay.conformance.run.question import Answer
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.exir import Backend
from npu_assay.reference.affine import float32

Scheme = Callable[[Tensor, float], Tensor]
"""int64 sums and a ratio of scales -> int64 steps of the output."""


@dataclass(frozen=True)
class Here:
    """Runs cases on a backend."""

    backend: Backend
    table: Table

    def run_named(
        self, names: Sequence[str], case: Callable[[str], Case], workers: int, level: str, look: Look
    ) -> Iterator[CaseResult]:
        for made in map(case, names):
            drawing = Drawing(made.graph)
            given = answer(asked(made, self.table, level=level), self.backend, drawing)
            look(made, given)
            yield judged(made, self.table, given, drawing, level=level)


@dataclass(frozen=True)
class ByDefinition:
    """Answers cases of products by a scheme: accepts all of them."""

    scheme: Scheme

    def run_named(
        self, names: Sequence[str], case: Callable[[str], Case], workers: int, level: str, look: Look
    ) -> Iterator[CaseResult]:
        for made in map(case, names):
            look(made, Answer(runs={FIRST: [self._output(made)]}))
            yield result_of(made, lambda seen: setattr(seen, "verdict", "accept"), None)

    def _output(self, case: Case) -> Tensor:
        y = quant_of(case.graph)
        assert isinstance(y.scale, float)
        unit = math.prod(_scale(value) for value in case.graph.values if value.quant and value.quant.dtype == "int8")
        sums = (reals(case.graph) / unit).round().to(torch.int64)
        steps = self.scheme(sums, unit / float32(y.scale)).clamp(y.qmin - y.zero_point, y.qmax - y.zero_point)
        return steps.to(torch.float32) * float32(y.scale)


def _scale(value: Value) -> float:
    assert value.quant is not None
    return value.quant.scale if isinstance(value.quant.scale, float) else value.quant.scale[0]


def rounds_of(table: str, expression: str, runs: Here | Scheme) -> Rounds:
    """What answers the probes of the rows that an expression selects."""
    plain = plain_cases(load_table(table), expression)
    return Rounds(runs if isinstance(runs, Here) else ByDefinition(runs), Probes(plain), 1)


def walked(plan: Generator[list[Probe], Answers, Any], rounds: Rounds) -> Any:
    """What a plan comes to."""
    try:
        probes = next(plan)
        while True:
            probes = plan.send(rounds.answers(probes))
    except StopIteration as end:
        return end.value


def found_by(table: str, expression: str, runs: Here | Scheme) -> Finding:
    """The only finding of an expression."""
    (finding,) = rounds_of(table, expression, runs).findings()
    return finding
