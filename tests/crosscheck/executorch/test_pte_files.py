"""Hand-made `.pte` files on the real runtime, and the files that ExecuTorch writes in our reader and our runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("executorch", reason="the peer is the extra `executorch`")

import torch
from pte_programs import added, choosing, counting, external, listing, looping, with_constants
from torch import Tensor, nn
from torch.export import Dim, export

from npu_assay.partitioners.exir.pte import Program, read, write
from npu_assay.partitioners.exir.pte.run import load
from npu_assay.partitioners.xnnpack import XnnpackRuntime
from tests.crosscheck.executorch.real import Machine

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
TOLERANCE = 2e-6
"""Of float32 values around 1: kernels sum up in another order than torch."""

X = torch.arange(6.0).reshape(2, 3)
RUNTIMES = {"XnnpackBackend": XnnpackRuntime()}


def check(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Equal values; floats within TOLERANCE."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(one, Tensor):
            assert one == other
            continue
        peer = torch.from_numpy(other)
        assert one.shape == peer.shape and one.dtype == peer.dtype
        if one.is_floating_point():
            assert torch.allclose(one, peer, rtol=TOLERANCE, atol=TOLERANCE)
        else:
            assert torch.equal(one, peer)


def compare(machine: Machine, program: bytes, method: str, *calls: Sequence[Any]) -> None:
    """The calls, one after the other on one state, give the same here and there."""
    returned = machine.run_calls(program, *((method, inputs) for inputs in calls))
    assert not isinstance(returned, str), returned
    loaded = load(program, RUNTIMES)
    for inputs, wanted in zip(calls, returned, strict=True):
        check(loaded.execute(method, inputs), wanted)


MADE: dict[str, tuple[Callable[[], Program], str, tuple[Sequence[Any], ...]]] = {
    "added": (added, "forward", ((X, X + 1),)),
    "constants": (with_constants, "forward", ((X,), (X + 1,))),
    "constant method": (with_constants, "answers", ((),)),
    "buffer": (counting, "forward", ((X,), (X,), (X,))),
    "branches": (choosing, "forward", ((X.flatten(), torch.tensor(True)), (X[0], torch.tensor(False)))),
}


@pytest.mark.long
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("options", [{}, {"segment_alignment": 4096, "constant_alignment": 64}], ids=["", "aligned"])
def test_hand_made_programs_run_alike(machine: Machine, name: str, options: dict[str, Any]) -> None:
    make, method, calls = MADE[name]
    compare(machine, write(make(), **options), method, *calls)


@pytest.mark.parametrize("make", [listing, looping, external])
def test_files_of_every_kind_of_value_are_consistent(machine: Machine, make: Callable[[], Program]) -> None:
    """The real runtime verifies the whole flatbuffer; it may lack a kernel, or data that lie elsewhere."""
    returned = machine.run_calls(write(make()), ("forward", (X,)))
    assert returned != "died" and "0x23" not in str(returned), returned


# ------------------------------------------------------------------------------------------------ ExecuTorch's files


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Any:
        return self.linear(torch.relu(self.norm(self.conv(x))).mean((2, 3))), x.shape[0]


class Open(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.softmax(x.reshape(x.shape[0], -1) + 1, -1)[:, :2], torch.cat([x, x]), x.shape[0] * 2


class Counter(nn.Module):
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


IMAGE = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(1))
Options = dict[str, Any]
THEIRS: dict[str, tuple[type[nn.Module], tuple[Sequence[Tensor], ...], Options]] = {
    "network": (Network, ((IMAGE,), (-IMAGE,)), {}),
    "delegated network": (Network, ((IMAGE,),), {"delegated": True}),
    "blobs inside": (Network, ((IMAGE,),), {"delegated": True, "extract_delegate_segments": False}),
    "open sizes": (Open, ((ROWS,), (ROWS[:1],)), {"dynamic": ({0: Dim("rows", min=1, max=8)},)}),
    "buffer": (Counter, ((ROWS.flatten()[:3],), (torch.ones(3),)), {}),
    "branches": (Branches, ((torch.ones(3),), (-torch.ones(3),)), {}),
}


def theirs(
    model: nn.Module, inputs: Sequence[Tensor], dynamic: Any = None, delegated: bool = False, **config: Any
) -> bytes:
    """The model as ExecuTorch writes it."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower

    exported = export(model, tuple(inputs), dynamic_shapes=dynamic)
    partitioner = [XnnpackPartitioner()] if delegated else None
    edge = to_edge_transform_and_lower(exported, partitioner=partitioner, constant_methods={"answers": [3, 2.5, "x"]})
    return bytes(edge.to_executorch(ExecutorchBackendConfig(**config)).buffer)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", THEIRS)
def test_their_files_run_here_and_written_again_there(machine: Machine, name: str) -> None:
    model, calls, options = THEIRS[name]
    program = theirs(model().eval(), calls[0], **options)
    assert "delegated" not in options or read(program).plans[0].delegates
    compare(machine, program, "forward", *calls)
    compare(machine, program, "answers", ())
    again = write(read(program))
    assert read(again) == read(program)
    compare(machine, again, "forward", *calls)


QUANTISED: dict[str, Callable[[], nn.Module]] = {
    "conv2d": lambda: nn.Conv2d(3, 8, 3, padding=1),
    "strided conv2d": lambda: nn.Conv2d(3, 8, 3, stride=2, padding=1),
    "conv_transpose2d": lambda: nn.ConvTranspose2d(3, 4, 2, stride=2),
    "conv2d, relu, conv2d": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)),
    "linear": lambda: nn.Linear(8, 4),
}


@pytest.mark.long
@pytest.mark.parametrize("dynamic", [True, False], ids=["at run time", "ahead of time"])
@pytest.mark.parametrize("name", QUANTISED)
def test_their_quantised_files_run_here(machine: Machine, name: str, dynamic: bool) -> None:
    """Their compiler states shapes that their runtime infers: of codes made at run time, in torch's order of axes."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as quantizers
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    config = quantizers.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    with torch.no_grad():
        module = export(QUANTISED[name]().eval(), (IMAGE,)).module()
        prepared = prepare_pt2e(module, quantizers.XNNPACKQuantizer().set_global(config))
        prepared(IMAGE)
        program = theirs(convert_pt2e(prepared), (IMAGE,), delegated=True)
    assert read(program).plans[0].delegates
    compare(machine, program, "forward", (IMAGE,), (-2 * IMAGE,))
