"""The specification of TOSA's arithmetic equals Arm's reference model, number for number, on random programs.

Each program is one operator of a table's row, with its own sizes, scales and zero points, compiled for the Ethos-U and
run by the reference model in the device's place; the exact golden of the program is what the specification says. A
whole run has more than 10,000 programs, a third of them at extreme scales; a sample those of a few rows.
Entries of a TABLE come from torch's float32 functions on both sides: what they should be is the float golden's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.judge.integer_golden import TOSA, affine, exact_values
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.run.outline import on_integers, outline
from npu_assay.conformance.run.partitioning import Recorder
from npu_assay.conformance.run.tagging import prepare
from npu_assay.conformance.table import Table, load_table
from npu_assay.partitioners.common.machine import UnpredictableError
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.exir import Backend, CompileSpec, run_program, to_backend
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.reference.arithmetic.tosa import rescale
from npu_assay.reference.golden.bounded import GoldenError
from npu_assay.reference.integer import IntegerError, codes_of
from tests.crosscheck.tosa.drawn_cases import drawn, quantisations
from tests.crosscheck.tosa.model import run_reference

COUNT = 20
"""Programs of a row and precision at ordinary scales; at extreme ones half as many."""
ORDINARY, EXTREME = 1.0, 12.0
"""By how many powers of two scales are drawn away from those of a case."""


@dataclass(frozen=True)
class Group:
    """The accepted cases of a row in one precision, of which programs are drawn."""

    backend: Backend
    table: Table
    name: str
    cases: tuple[Case, ...]


def groups(backend: Backend) -> list[Group]:
    """Of every row whose operator the specification has."""
    table, found = load_table(backend.table), dict[str, list[Case]]()
    for case in cases_for(table):
        steps = {step.name: step for step in case.graph.steps}
        of_codes = any(quantisations(case.graph).values())
        if case.expect == "accept" and of_codes and codes_of(steps[case.subject].op, TOSA) and not case.options:
            found.setdefault(f"{backend.name}-{case.row}-{case.precision}", []).append(case)
    return [Group(backend, table, name, tuple(cases)) for name, cases in found.items()]


GROUPS = [group for backend in (ethos_u55, ethos_u85) for group in groups(backend)]


class ReferenceModel:
    """Arm's model in the place of the device."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> bytes:
        return processed_bytes

    def execute(self, handle: bytes, inputs: Sequence[Tensor]) -> list[Tensor]:
        outputs = run_reference(handle, [np.array(each.numpy(), order="C") for each in inputs])
        if outputs is None:
            raise UnpredictableError("the reference model calls the result unpredictable")
        return [torch.from_numpy(np.array(output)) for output in outputs]


def outcome(case: Case, group: Group) -> str:
    """Equal, or why there is nothing to compare; fails where a number differs."""
    try:
        exact = exact_values(case.graph, TOSA)
    except (IntegerError, GoldenError):
        return "refused by the specification"
    program, recorder = prepare(case, group.backend, group.table), Recorder(group.backend.partitioner())
    try:
        lowered = to_backend(program, recorder, details={group.table.backend_id: group.backend.details})
    except CompileError:
        return "refused by the compiler"
    if not on_integers(outline(program.graph), recorder.tags):
        return "not delegated whole"
    try:
        outputs = run_program(lowered, model_inputs(case.graph), {group.table.backend_id: ReferenceModel()})
    except UnpredictableError:
        return "unpredictable"
    known = [exact.codes[ref].codes if ref in exact.codes else exact.reals.get(ref) for ref in case.graph.outputs]
    if any(each is None for each in known):
        return "not exact"
    for expected, found in zip(known, codes(case.graph, outputs), strict=True):
        assert expected is not None
        differing = int((expected.double() != found).sum())
        assert not differing, f"{case.id}: {differing} of {found.numel()} numbers differ"
    return "equal"


def codes(graph: Graph, outputs: Sequence[Tensor]) -> list[Tensor]:
    """Outputs as float64: codes of those that are quantized."""
    quants = quantisations(graph)
    found = []
    for ref, output in zip(graph.outputs, outputs, strict=True):
        quant, real = quants[ref.name], output.double()
        found.append(real if quant is None else (real / affine(quant).scale32).round() + quant.zero_point)
    return found


def outcomes(group: Group, exponents: float, count: int) -> Counter[str]:
    """How many programs of a group end how."""
    chosen = (group.cases[seed % len(group.cases)] for seed in range(count))
    return Counter(outcome(drawn(case, seed, exponents), group) for seed, case in enumerate(chosen))


@pytest.mark.long
@pytest.mark.sampled(12)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_no_number_differs(group: Group) -> None:
    found = outcomes(group, ORDINARY, COUNT) + outcomes(group, EXTREME, COUNT // 2)
    assert found["equal"], dict(found)


def test_another_multiplier_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: a factor that is off by less than one code in most products."""
    right = rescale.multiplier
    monkeypatch.setattr(rescale, "multiplier", lambda ratio, bits=31: right(ratio * (1 + 2.0**-9), bits))
    group = next(group for group in GROUPS if group.name == "ethos-u55-aten.linear.default-int8")
    with pytest.raises(AssertionError, match="numbers differ"):
        outcomes(group, ORDINARY, COUNT)
