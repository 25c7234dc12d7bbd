"""TOSA graphs with one thing changed: refused in the words of the rule that they break, or run as they say."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest
import torch
from altered import told
from draw import Draw
from syrupy.assertion import SnapshotAssertion
from tosa_programs import PROGRAMS

from npu_assay.partitioners.ethosu import tosa_schema as schema
from npu_assay.partitioners.ethosu.runtime import EthosURuntime
from npu_assay.partitioners.ethosu.tosa_format import read, write
from npu_assay.partitioners.ethosu.tosa_model import TModel

ENUMERATORS = {
    name: list(attribute.names)
    for operator in schema.OPERATORS.values()
    for name, attribute in operator.attributes.items()
    if attribute.names
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_what_a_changed_graph_gets(name: str, snapshot: SnapshotAssertion) -> None:
    program = PROGRAMS[name](Draw(zlib.crc32(name.encode())))
    model = read(write(program.model))
    inputs = [torch.from_numpy(each) for each in program.inputs]
    operands = [each.name for each in model.tensors] + [each.name for each in model.shapes]
    codes = {"dtype": list(schema.DTYPES), "code": list(schema.OPERATORS)}

    def run(changed: TModel) -> Sequence[torch.Tensor]:
        runtime = EthosURuntime()
        return runtime.execute(runtime.load(write(changed)), inputs)

    assert told(model, {**ENUMERATORS, **codes, "inputs": operands, "outputs": operands}, run) == snapshot
