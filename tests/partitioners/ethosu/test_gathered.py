"""Convolutions that the suite draws, beside what Ethos-U's simulated device gathers for them: one bound for both."""

from __future__ import annotations

import pytest
from delegated import delegated
from ethosu_runs import WHOLE, blob_of

from npu_assay.conformance.cases.families.convolution.integers import Convolution
from npu_assay.conformance.cases.make import SUBJECT, model
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph, Ref, Step
from npu_assay.partitioners.common.machine import DeviceError
from npu_assay.partitioners.ethosu.runtime import EthosURuntime

WINDOWS = Convolution((1, 1, 191, 191), (64, 64), 1, bias=False, scale=0.01)
PADDED = Convolution((1, 1, 2, 2), (64, 64), 4, stride=(64, 64), padding=(2047, 2047), bias=False, scale=0.01)
TRANSPOSED = Convolution((1, 1, 128, 128), (64, 64), 1, transposed=True, bias=False, scale=0.01)
BOUNDS = {
    "windows": (WINDOWS, (1, 1, 191, 192)),
    "padding": (PADDED, (1, 1, 2, 66)),
    "transposed": (TRANSPOSED, (1, 1, 128, 129)),
}


def graph(convolution: Convolution, shape: tuple[int, ...]) -> Graph:
    call = convolution.call()
    return model(call.with_x(shape=shape))


@pytest.mark.parametrize("name", BOUNDS)
def test_a_program_is_drawn_up_to_what_the_device_gathers(name: str) -> None:
    convolution, past = BOUNDS[name]
    largest, larger = graph(convolution, convolution.shape), graph(convolution, past)
    assert application(largest, SUBJECT).results[0].rank == 4
    with pytest.raises(NoProgram, match="found windows or a padded input of more than"):
        application(larger, SUBJECT)
    EthosURuntime().load(compiled_blob(largest))
    with pytest.raises(DeviceError, match="elements to gather"):
        EthosURuntime().load(compiled_blob(larger))


@pytest.mark.parametrize(
    ("op", "args"),
    [("full.default", ((1, 2**40), 1.5)), ("linspace.default", (0.0, 1.0, 2**40)), ("arange.default", (2**40,))],
)
def test_numbers_that_are_made_of_none_are_counted_before(op: str, args: tuple[object, ...]) -> None:
    """Torch would fill 4 TiB."""
    made = Graph((), (Step(SUBJECT, f"aten.{op}", args),), (Ref(SUBJECT),))
    with pytest.raises(NoProgram, match=f"^aten.{op}$"):
        application(made, SUBJECT)


def compiled_blob(found: Graph) -> bytes:
    return blob_of(delegated(build(found, WHOLE)), "u85")
