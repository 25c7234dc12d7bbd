"""Whole networks: what ExecuTorch's own quantizer, partitioner and runtime do, we do, to the last bit.

The real runtime executes ExecuTorch's own program of a network, and our blob of it; both give what the simulated
device gives. 0 outputs differ in every precision, float32 included: the numbers are those of x86 with AVX-512. Only
four-bit weights differ on a processor without VNNI, as `narrow` states.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")
pytest.importorskip("executorch", reason="the peer is the extra `executorch`")

import torch
from networks import (
    LARGE_NETWORKS,
    NETWORKS,
    XNNPACK_PRECISIONS,
    edge_for_xnnpack,
    for_xnnpack,
    four_bit_mlp,
    lowered_modules,
    network,
    samples,
)
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.run import run_delegate
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime
from tests.crosscheck.executorch import narrow
from tests.crosscheck.executorch.real import Argument, Array, Job, Machine

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see peer
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner as RealPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import get_symmetric_quantization_config as real_config
    from executorch.exir import to_edge_transform_and_lower

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
RUNS = [(name, precision) for name in (*NETWORKS, *LARGE_NETWORKS) for precision in XNNPACK_PRECISIONS]
INPUTS = 2


def real_program(program: ExportedProgram) -> tuple[int, bytes]:
    """How many delegates ExecuTorch makes, and its program."""
    lowered = to_edge_transform_and_lower(program, partitioner=[RealPartitioner()])
    targets = [str(node.target) for node in lowered.exported_program().graph.nodes if node.op == "call_function"]
    assert {target for target in targets if "getitem" not in target} == {"executorch_call_delegate"}
    return targets.count("executorch_call_delegate"), lowered.to_executorch().buffer


def assert_equal(answer: list[Array] | str, expected: torch.Tensor, part: float = 0) -> None:
    """Equal, or no farther apart than a part of the largest number."""
    assert not isinstance(answer, str), answer
    if part:
        np.testing.assert_allclose(
            answer[0], expected.numpy(), rtol=0, atol=part * float(expected.abs().max()), strict=True
        )
    else:
        np.testing.assert_array_equal(answer[0], expected.numpy(), strict=True)


def compare(program: ExportedProgram, inputs: list[torch.Tensor], machine: Machine, part: float = 0) -> None:
    """The simulated device, our blob on the real runtime, and ExecuTorch's own program there: the same outputs."""
    (module,) = lowered_modules(edge_for_xnnpack(program).to_backend(XnnpackPartitioner()))
    count, theirs = real_program(program)
    assert count == 1
    for x in inputs:
        (expected,) = run_delegate(module, [x], {"XnnpackBackend": XnnpackRuntime()})
        places = Argument("float32", tuple(x.shape)), Argument("float32", tuple(expected.shape))
        assert_equal(machine.run(Job(module.processed_bytes, (x.numpy(),), places[:1], places[1:])), expected, part)
        assert_equal(machine.run_program(theirs, x), expected, part)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "precision"), RUNS)
def test_no_output_differs(name: str, precision: str, machine: Machine) -> None:
    model, shape = network(name)
    inputs = samples(shape, INPUTS)
    compare(for_xnnpack(model, precision, inputs), inputs, machine)


@pytest.mark.long
@pytest.mark.parametrize("group", [32, 64])
def test_no_output_of_four_bit_weights_differs(group: int, machine: Machine) -> None:
    program, inputs = four_bit_mlp(group)
    compare(program, inputs, machine, narrow.OF_LARGEST)


def test_a_changed_output_would_be_seen(machine: Machine) -> None:
    program, inputs = four_bit_mlp(32)
    _, theirs = real_program(program)
    answer = machine.run_program(theirs, inputs[0])
    assert not isinstance(answer, str), answer
    changed = torch.from_numpy(answer[0]).clone()
    changed[0, 0] = changed[0, 0].nextafter(torch.tensor(torch.inf))
    with pytest.raises(AssertionError, match="Mismatched elements: 1 "):
        assert_equal(answer, changed)


# ------------------------------------------------------------------------------------ the quantizer


class Mixed(torch.nn.Module):
    """Every operator that the quantizers know, in each other's way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 8, 1)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, groups=8)
        self.up, self.grouped = torch.nn.ConvTranspose2d(8, 6, 3, 2), torch.nn.ConvTranspose2d(6, 6, 2, groups=2)
        self.last = torch.nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x).clamp(0, 6)
        a, b = torch.relu(self.depthwise(x)), self.second(torch.nn.functional.relu6(x))[:, :, 1:-1, 1:-1]
        joined = torch.cat([a, b * 2.0, torch.relu(a * b)], 1)
        up = self.up(torch.nn.functional.max_pool2d(a + b + 1, 2))
        y = torch.relu(up + self.grouped(up)[:, :, : up.shape[2], : up.shape[3]])
        pooled = [torch.nn.functional.adaptive_avg_pool2d(part, 1).flatten(1) for part in (y, torch.sigmoid(y))]
        return self.last(torch.cat(pooled, 1)).sigmoid() * 1e16, joined.mean((2, 3))


def described(program: ExportedProgram) -> list[tuple[str, list[str]]]:
    """Every operator with its arguments: other parameters are another program."""
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    return [(str(node.target), [str(argument) for argument in node.args]) for node in calls]


@pytest.mark.long
@pytest.mark.sampled(5)
@pytest.mark.parametrize("precision", XNNPACK_PRECISIONS[1:])
@pytest.mark.parametrize("name", [*NETWORKS, "mixed"])
def test_quantizers_make_the_same_program(name: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from networks import quantise

    # The patterns with a batch norm are for training; to look for them takes most of the time.
    patterns = [pattern for pattern in XNNPACKQuantizer.SUPPORTED_PATTERNS if "_bn" not in pattern.name]
    monkeypatch.setattr(XNNPACKQuantizer, "SUPPORTED_PATTERNS", patterns)
    torch.manual_seed(0)
    model, shape = (Mixed().eval(), (1, 3, 16, 16)) if name == "mixed" else network(name)
    inputs = samples(shape, INPUTS)
    dynamic = precision == "dynamic_int8"
    config: Any = real_config(is_per_channel=dynamic or precision.endswith("per_channel"), is_dynamic=dynamic)
    theirs = quantise(model, inputs, XNNPACKQuantizer().set_global(config))
    assert described(for_xnnpack(model, precision, inputs)) == described(theirs)
