"""The simulated Ethos-U equals Arm's TOSA reference model, number for number, on random programs of each operator."""

from __future__ import annotations

import zlib

import pytest
import torch
from draw import Draw
from tosa_programs import PROGRAMS

from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.ethosu.device import operators
from npu_assay.partitioners.ethosu.device.operators import RULES
from npu_assay.partitioners.ethosu.device.site import Site, Step
from tests.crosscheck.tosa.model import differing

COUNT = 200


@pytest.mark.long
@pytest.mark.sampled(20)
@pytest.mark.parametrize("operator", sorted(PROGRAMS))
def test_equals_the_reference_model(operator: str) -> None:
    """Also in what is unpredictable; at least half of the programs have defined results."""
    first = zlib.crc32(operator.encode())
    found = {seed: differing(PROGRAMS[operator](Draw(seed))) for seed in range(first, first + COUNT)}
    wrong = {seed: count for seed, (count, _) in found.items() if count}
    assert not wrong, f"{operator}: {len(wrong)} of {COUNT} programs differ (seed: numbers) {wrong}"
    assert sum(defined for _, defined in found.values()) >= COUNT // 2


def test_every_operator_of_the_device_has_programs() -> None:
    assert {name.split()[0] for name in PROGRAMS} == set(RULES)


def _faulty(kernel: Kernel) -> Kernel:
    """One number less in the first place."""

    def apply(*values: torch.Tensor) -> torch.Tensor:
        result = kernel(*values).clone()
        first = result.view(-1)[:1]
        first.copy_(~first if result.dtype == torch.bool else first - 1)
        return result

    return apply


@pytest.mark.parametrize("operator", ["CONV2D", "RESCALE", "TABLE", "EQUAL", "AVG_POOL2D", "TRANSPOSE"])
def test_one_wrong_number_is_noticed(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RULES[operator]

    def wrong(site: Site) -> Step:
        step = rule(site)
        return Step(_faulty(step.kernel), step.arguments, step.product)

    monkeypatch.setattr(operators, "RULES", {**RULES, operator: wrong})
    name = next(each for each in PROGRAMS if each.split()[0] == operator)
    assert any(differing(PROGRAMS[name](Draw(seed)))[0] for seed in range(10))
