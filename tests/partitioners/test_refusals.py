"""Every refusal of a vendor's compiler is one error that names node, operator, found and expected.

The refusals are read from the sources, so that a new one without a program fails.
"""

from __future__ import annotations

import traceback
from functools import cache
from pathlib import Path

import ethosu_refused
import neutron_refused
import pytest
import xnnpack_refused
from refusing import Line, refusals

from npu_assay.partitioners.exir.compiling import CompileError

REFUSED = {"ethosu": ethosu_refused, "neutron": neutron_refused, "xnnpack": xnnpack_refused}
PROGRAMS = [(vendor, name) for vendor, module in REFUSED.items() for name in module.PROGRAMS]


@cache
def refused(vendor: str, name: str) -> CompileError:
    """What the compiler says of a program."""
    with pytest.raises(CompileError) as caught:
        REFUSED[vendor].blob(name)
    return caught.value


@pytest.mark.parametrize(("vendor", "name"), PROGRAMS)
def test_refused(vendor: str, name: str) -> None:
    error = refused(vendor, name)
    assert str(error) == f"{error.node} ({error.operator}): {REFUSED[vendor].SAYS[name]}"
    assert error.found != error.expected


def test_every_refusal_has_a_program() -> None:
    found: set[Line] = set()
    for vendor, name in PROGRAMS:
        frames = traceback.extract_tb(refused(vendor, name).__traceback__)
        found |= {(str(Path(frame.filename).resolve()), frame.lineno or 0) for frame in frames}
    every = list(refusals("common", *(f"{vendor}/lowering" for vendor in REFUSED)))
    assert len(every) > 120
    assert [lines[0] for lines in every if found.isdisjoint(lines)] == []
