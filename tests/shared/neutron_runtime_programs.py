"""Programs for the tests of the Neutron device, and how they are run."""

from __future__ import annotations

from npu_assay.partitioners.neutron.runtime import NeutronRuntime, Program
from npu_assay.partitioners.neutron.tflite import Model, write

RUNTIME = NeutronRuntime()


def loaded(model: Model) -> Program:
    return RUNTIME.load(write(model), [])
