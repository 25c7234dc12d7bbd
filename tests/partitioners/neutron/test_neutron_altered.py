"""TFLite files with one thing changed: refused in the words of the rule that they break, or run as they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from altered import told
from syrupy.assertion import SnapshotAssertion
from tflite_models import MODELS, random_inputs

from npu_assay.partitioners.neutron import tflite
from npu_assay.partitioners.neutron import tflite_schema as schema
from npu_assay.partitioners.neutron.runtime import NeutronRuntime
from npu_assay.partitioners.neutron.tflite_model import Model

NAMES = {**schema.ENUMS, "dtype": list(schema.DTYPES), "code": list(schema.OPERATORS)}


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_what_a_changed_file_gets(make: Callable[[int], Model], snapshot: SnapshotAssertion) -> None:
    model = _with_a_spare(tflite.read(tflite.write(make(0))))
    inputs = random_inputs(model, 1)

    def run(changed: Model) -> Sequence[torch.Tensor]:
        runtime, file = NeutronRuntime(), tflite.write(changed)
        return [*runtime.execute(runtime.load(file), inputs), torch.frombuffer(bytearray(file), dtype=torch.uint8)]

    assert told(model, NAMES, run) == snapshot


def _with_a_spare(model: Model) -> Model:
    """The model with a tensor behind all others that nothing computes: what an operator may have as one output more."""
    last = model.tensors[model.operators[-1].outputs[0]]
    return replace(model, tensors=(*model.tensors, replace(last, name="spare")))
