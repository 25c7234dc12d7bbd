"""Running programs: own operators with torch, delegates on a runtime, errors for what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from exir_toy import TagNodes, ToyRuntime, diamond, random
from torch import Tensor

from npu_assay.partitioners.exir import BackendError, InputError, register_runtime, run_program, to_backend
from npu_assay.partitioners.exir.lowered import LoweredBackendModule, delegates
from npu_assay.partitioners.exir.program import EdgeProgram
from npu_assay.partitioners.exir.run import _RUNTIMES

TAGS = {"t": ["aten_add_tensor", "aten_mul_tensor", "aten_neg_default"]}


@pytest.fixture
def registered() -> Iterator[ToyRuntime]:
    runtime = ToyRuntime()
    register_runtime("ToyBackend", runtime)
    yield runtime
    del _RUNTIMES["ToyBackend"]


@pytest.fixture
def lowered() -> EdgeProgram:
    program = to_backend(diamond(), TagNodes(TAGS, constants=True))
    assert isinstance(program, EdgeProgram)
    return program


def same(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_original_modules_run_when_asked_for(lowered: EdgeProgram, registered: ToyRuntime) -> None:
    x = random(2, 3)
    assert same(run_program(lowered, [x], original_modules=True), run_program(diamond(), [x]))
    assert same(lowered.module()(x), run_program(diamond(), [x]))
    (module,) = delegates(lowered).values()
    module(*([x] * len(module.original_module.graph_signature.user_inputs)))
    assert (registered.loads, registered.runs) == (0, 0)


def test_without_runtime_nothing_stands_in_for_the_blob(lowered: EdgeProgram) -> None:
    expected = (
        r"no runtime for its backend: found 'ToyBackend', expected one of \['Other'.*\], or original_modules=True"
    )
    with pytest.raises(BackendError, match=f"executorch_call_delegate: {expected}"):
        run_program(lowered, [random(2, 3)], {"Other": ToyRuntime()})
    with pytest.raises(InputError, match="original_modules: runtimes that nothing runs on: found ToyBackend"):
        run_program(lowered, [random(2, 3)], {"ToyBackend": ToyRuntime()}, original_modules=True)


def test_given_runtime_runs_the_blob_and_loads_it_once(lowered: EdgeProgram, registered: ToyRuntime) -> None:
    x, runtime = random(2, 3), ToyRuntime()
    for _ in range(3):
        assert same(run_program(lowered, [x], {"ToyBackend": runtime}), run_program(diamond(), [x]))
    assert (runtime.loads, runtime.runs) == (1, 3)
    assert registered.runs == 0
    run_program(lowered, [x])
    assert (registered.loads, registered.runs) == (1, 1)


def test_it_is_the_blob_that_runs(lowered: EdgeProgram) -> None:
    (module,) = delegates(lowered).values()
    broken = module.processed_bytes.replace(b"aten.neg.default", b"aten.relu.default")
    faulty = LoweredBackendModule(module.original_module, "ToyBackend", broken, [])
    x = random(2, 3)
    good = module.original_module
    inputs = [x, x] if len(good.graph_signature.user_inputs) == 2 else [x]
    assert not same(
        run_program(faulty.calling_program(), inputs, {"ToyBackend": ToyRuntime()}), run_program(good, inputs)
    )


def test_state_is_not_written(lowered: EdgeProgram) -> None:
    program = diamond()
    before = program.state_dict["w"].clone()
    x = random(2, 3)
    kept = x.clone()
    run_program(program, [x])
    assert torch.equal(program.state_dict["w"], before)
    assert torch.equal(x, kept)


class WrongRuntime(ToyRuntime):
    """Spoils the outputs."""

    def __init__(self, outputs: list[Tensor]) -> None:
        super().__init__()
        self.outputs = outputs

    def execute(self, handle: object, inputs: Sequence[Tensor]) -> list[Tensor]:
        return self.outputs


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([torch.zeros(2, 3)], "runtime of ToyBackend returned the wrong number of outputs: found 1, expected 2"),
        ([torch.zeros(2, 3), torch.zeros(3)], r"output 1 \(.*\): found float32\[3\], expected float32\[2, 3\]"),
        ([torch.zeros(2, 3), torch.zeros(2, 3).int()], r"found int32\[2, 3\], expected float32\[2, 3\]"),
        ([torch.zeros(2, 3), None], "found NoneType, expected float32"),
    ],
)
def test_wrong_outputs_of_a_runtime(lowered: EdgeProgram, outputs: list[Tensor], message: str) -> None:
    with pytest.raises(BackendError, match=f"executorch_call_delegate: .*{message}"):
        run_program(lowered, [random(2, 3)], {"ToyBackend": WrongRuntime(outputs)})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], r"inputs: wrong number of inputs: found 0, expected 1 \(x\)"),
        ([torch.zeros(2, 3)] * 2, "found 2, expected 1"),
        ([torch.zeros(3, 2)], r"x: wrong input: found float32\[3, 2\], expected float32\[2, 3\]"),
        ([torch.zeros(2, 3, 1)], r"found float32\[2, 3, 1\]"),
        ([torch.zeros(2, 3).double()], r"found float64\[2, 3\]"),
        ([1.0], r"found float, expected float32\[2, 3\]"),
    ],
)
def test_wrong_inputs(inputs: list[Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_program(diamond(), inputs)
