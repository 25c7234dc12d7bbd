"""Our `.pte` files on the real ExecuTorch runtime: they load, run, and return what the model returns in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from executorch_programs import Function, randn

pytest.importorskip("executorch", reason="the peer is the extra `executorch`")

import torch
from networks import (
    LARGE_NETWORKS,
    NETWORKS,
    edge_for_xnnpack,
    folded,
    for_xnnpack,
    lowered_modules,
    network,
    samples,
)
from torch import Tensor, nn
from torch.export import Dim, export

from npu_assay.partitioners.exir import (
    EdgeProgramManager,
    ExecutorchBackendConfig,
    MemoryPlanningPass,
    to_edge,
    to_edge_transform_and_lower,
)
from npu_assay.partitioners.exir.run import run_program
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime
from tests.crosscheck.executorch.real import Machine

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
ULPS = 4
"""How many last places a float may be off: kernels sum up in another order than torch."""


def edge(model: nn.Module, *inputs: Any, **export_options: Any) -> EdgeProgramManager:
    with torch.no_grad():
        return to_edge(export(model.eval(), inputs, **export_options))


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def check(found: Sequence[Any] | str, wanted: Sequence[Any], scale: float | None = None) -> None:
    """Equal integers, and floats within ULPS of the largest value."""
    assert not isinstance(found, str), found
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(other, Tensor):
            assert one == other
            continue
        got = torch.from_numpy(one)
        assert got.shape == other.shape and got.dtype == other.dtype
        if other.is_floating_point() and other.numel():
            slack = ULPS * torch.finfo(other.dtype).eps * max(float(other.abs().max()), 1.0) if scale is None else scale
            assert float((got - other).abs().max()) <= slack
        else:
            assert torch.equal(got, other)


def verify(machine: Machine, model: nn.Module, *inputs: Any, config: ExecutorchBackendConfig | None = None) -> None:
    program = edge(model, *inputs).to_executorch(config).buffer
    with torch.no_grad():
        wanted = flat(model(*inputs))
    found = machine.run_calls(program, ("forward", inputs))
    check(found if isinstance(found, str) else found[0], wanted)


class Signed(nn.Module):
    """A linear layer that another method has as well."""

    def __init__(self, linear: nn.Linear, sign: int) -> None:
        super().__init__()
        self.linear, self.sign = linear, sign

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        return torch.relu(y) if self.sign > 0 else -y


@pytest.mark.long
def test_delegates_of_several_methods_share_weights(machine: Machine) -> None:
    """Named data of XNNPACK's delegates, and stack traces, which the runtime skips."""
    linear, x = nn.Linear(16, 24), randn(2, 16)
    with torch.no_grad():
        models = {name: Signed(linear, sign).eval() for name, sign in (("up", 1), ("down", -1))}
        programs = {name: export(model, (x,)) for name, model in models.items()}
        manager = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()])
        file = manager.to_executorch(ExecutorchBackendConfig(emit_stacktrace=True)).buffer
        wanted = [models[name](x) for name in models]
    assert file.count(linear.weight.detach().numpy().tobytes()) == 1
    found = machine.run_calls(file, *((name, (x,)) for name in models))
    assert not isinstance(found, str), found
    for one, other in zip(found, wanted, strict=True):
        check(one, [other])


FUNCTIONS: dict[str, tuple[Any, tuple[Tensor, ...]]] = {
    "add": (lambda x, y: x + y, (randn(2, 3), randn(2, 3, seed=1))),
    "scalar": (lambda x: x * 2.5 + 1, (randn(2, 3),)),
    "same input twice": (lambda x: x * x, (randn(2, 3),)),
    "two outputs": (lambda x: (x + 1, x - 1), (randn(2, 3),)),
    "same output twice": (lambda x: (lambda y: (y, y))(x + 1), (randn(2, 3),)),
    "input returned": (lambda x: (x, x + 1), (randn(2, 3),)),
    "view": (lambda x: torch.relu(x.reshape(3, 4)).unsqueeze(0) + 1, (randn(2, 6),)),
    "view returned": (lambda x: (x + 1).reshape(-1), (randn(2, 6),)),
    "view of an input": (lambda x: torch.relu(x.reshape(-1)), (randn(2, 6),)),
    "view of a view": (lambda x: torch.relu((x + 1).reshape(3, 4).flatten().unsqueeze(1)) + 1, (randn(2, 6),)),
    "split": (lambda x: x.chunk(3, 1)[2] + x.chunk(3, 1)[0], (randn(2, 6),)),
    "split returned": (lambda x: x.split([1, 2, 3], 1), (randn(2, 6),)),
    "max over a dimension": (lambda x: torch.max(x, 1), (randn(3, 5),)),
    "topk": (lambda x: torch.topk(x, 2), (randn(3, 5),)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (randn(2, 3), randn(2, 4))),
    "stack": (lambda x: torch.stack([x, x + 1]), (randn(2, 3),)),
    "mean": (lambda x: (x.mean(), x.mean(1), x.sum(), x.amax(1)), (randn(2, 3),)),
    "var": (lambda x: x.var(1), (randn(4, 3),)),
    "pool with indices": (lambda x: nn.functional.max_pool2d(x, 2), (randn(1, 2, 4, 4),)),
    "upsample": (lambda x: nn.functional.interpolate(x, scale_factor=2), (randn(1, 2, 4, 4),)),
    "bilinear": (lambda x: nn.functional.interpolate(x, size=(5, 7), mode="bilinear"), (randn(1, 2, 4, 4),)),
    "layer norm": (lambda x: nn.functional.layer_norm(x, (6,)), (randn(2, 6),)),
    "softmax": (lambda x: torch.softmax(x, 1), (randn(2, 6),)),
    "index": (lambda x, i: x[:, i], (randn(2, 6), torch.tensor([3, 0]))),
    "comparison": (lambda x: torch.where(x > 0, x, x * 0.5), (randn(2, 6),)),
    "integers": (lambda x: (x + 3, x // 2, x % 3), (torch.arange(12).reshape(3, 4),)),
    "to integers": (lambda x: (x * 10).to(torch.int32), (randn(2, 3),)),
    "arange": (lambda x: x + torch.arange(6), (randn(2, 6),)),
    "full": (lambda x: x + torch.full((6,), 2.0), (randn(2, 6),)),
    "permute": (lambda x: x.permute(2, 0, 1).contiguous() + 1, (randn(2, 3, 4),)),
    "expand": (lambda x: x.expand(4, 3) + 1, (randn(1, 3),)),
    "pad": (lambda x: nn.functional.pad(x, (1, 2)), (randn(2, 3),)),
    "gelu": (lambda x: nn.functional.gelu(x), (randn(2, 3),)),
    "pow": (lambda x: x**2, (randn(2, 3),)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), (randn(2, 3),)),
    "scalar tensor": (lambda x: x.sum() + 1, (randn(2, 3),)),
    "cumsum": (lambda x: x.cumsum(1), (randn(2, 3),)),
    "repeat": (lambda x: x.repeat(2, 2), (randn(2, 3),)),
    "bmm": (lambda x, y: torch.matmul(x, y), (randn(2, 3, 4), randn(2, 4, 5))),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(machine: Machine, name: str) -> None:
    function, inputs = FUNCTIONS[name]
    verify(machine, Function(function), *inputs)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["add", "view of an input", "view returned", "view of a view", "split returned"])
@pytest.mark.parametrize(("inputs", "outputs"), [(False, True), (True, False), (False, False)])
def test_memory_of_callers(machine: Machine, name: str, inputs: bool, outputs: bool) -> None:
    function, given = FUNCTIONS[name]
    planning = MemoryPlanningPass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    verify(machine, Function(function), *given, config=ExecutorchBackendConfig(memory_planning_pass=planning))


@pytest.mark.parametrize("name", ["view", "view of an input", "view of a view"])
def test_copied_views(machine: Machine, name: str) -> None:
    function, inputs = FUNCTIONS[name]
    verify(machine, Function(function), *inputs, config=ExecutorchBackendConfig(remove_view_copy=False))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, groups=8), nn.Hardswish()
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.classifier(torch.flatten(self.pool(self.features(x)), 1)), 1)


@pytest.mark.parametrize(("model", "shape"), [(Mlp(), (2, 8)), (ConvNet(), (1, 3, 12, 12))], ids=["mlp", "conv net"])
def test_network(machine: Machine, model: nn.Module, shape: tuple[int, ...]) -> None:
    verify(machine, model, randn(*shape))


def test_channels_last(machine: Machine) -> None:
    convolution = nn.Conv2d(3, 8, 3)

    def function(x: Tensor) -> Tensor:
        return torch.relu(convolution(x.to(memory_format=torch.channels_last))).contiguous()

    model = Function(function)
    model.convolution = convolution
    verify(machine, model, randn(1, 3, 6, 6))


class Counter(nn.Module):
    count: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((3,), 5.0))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        before = self.last.clone()
        self.count.add_(1)
        self.last.copy_(x)
        return before + self.count


def test_mutable_buffers_start_from_their_data_and_last(machine: Machine) -> None:
    calls = [(randn(3, seed=seed),) for seed in range(3)]
    program = edge(Counter(), *calls[0]).to_executorch().buffer
    model = Counter()
    found = machine.run_calls(program, *(("forward", one) for one in calls))
    assert not isinstance(found, str), found
    for one, got in zip(calls, found, strict=True):
        check(got, [model(*one)])


class Swap(nn.Module):
    a: Tensor
    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.tensor([1.0, 2.0]))
        self.register_buffer("b", torch.tensor([3.0, 4.0]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(a)
        return self.a + x, self.b - x


def test_buffers_may_swap(machine: Machine) -> None:
    x = randn(2)
    program = edge(Swap(), x).to_executorch().buffer
    model = Swap()
    found = machine.run_calls(program, *[("forward", (x,))] * 3)
    assert not isinstance(found, str), found
    for got in found:
        check(got, flat(model(x)))


def test_dynamic_batch(machine: Machine) -> None:
    def function(x: Tensor) -> Any:
        y = torch.relu(x.reshape(x.shape[0] * 2, -1)) + 1
        return y, y.reshape(x.shape[0], -1) * 2, x.shape[0] * 3

    program = edge(Function(function), randn(4, 6), dynamic_shapes=(({0: Dim("batch", min=2, max=8)},),))
    file = program.to_executorch().buffer
    for batch in (2, 5, 8):
        x = randn(batch, 6, seed=batch)
        found = machine.run_calls(file, ("forward", (x,)))
        check(found if isinstance(found, str) else found[0], flat(function(x)))
    assert isinstance(machine.run_calls(file, ("forward", (randn(9, 6),))), str)


def test_methods_and_constants(machine: Machine) -> None:
    x, model = randn(2, 8), Mlp().eval()
    with torch.no_grad():
        programs = {"forward": export(model, (x,)), "twice": export(Function(lambda x: x * 2), (x,))}
        wanted = [model(x), x * 2]
    constants = {"version": 3, "scale": 0.5, "name": "mlp", "flags": [True, False], "table": torch.arange(4)}
    program = to_edge(programs, constant_methods=constants).to_executorch()
    calls = [("forward", (x,)), ("twice", (x,)), *((name, ()) for name in constants)]
    found = machine.run_calls(program.buffer, *calls)
    assert not isinstance(found, str), found
    for got, value in zip(found, [*wanted, *constants.values()], strict=True):
        check(got, flat(value))


def test_branches(machine: Machine) -> None:
    def function(x: Tensor) -> Any:
        def positive(x: Tensor) -> Tensor:
            return (x * 2).reshape(-1)

        def negative(x: Tensor) -> Tensor:
            return torch.relu(x + 1).reshape(-1)

        y: Tensor = torch.cond(x.sum() > 0, positive, negative, (x,))
        return y + 1, y * y

    program = edge(Function(function), randn(2, 3)).to_executorch().buffer
    for x in (torch.ones(2, 3), -torch.ones(2, 3) * 0.5):
        found = machine.run_calls(program, ("forward", (x,)))
        check(found if isinstance(found, str) else found[0], flat(function(x)))


def test_delegate(machine: Machine) -> None:
    x, model = randn(1, 3, 12, 12), ConvNet().eval()
    program = edge(model, x).to_backend(XnnpackPartitioner())
    with torch.no_grad():
        wanted = flat(model(x))
    for segments in (True, False):
        file = program.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=segments)).buffer
        found = machine.run_calls(file, ("forward", (x,)))
        check(found if isinstance(found, str) else found[0], wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("delegated", [False, True], ids=["kernels", "delegate"])
@pytest.mark.parametrize("precision", ["static_int8", "static_int8_per_channel", "dynamic_int8"])
@pytest.mark.parametrize(("model", "shape"), [(Mlp, (2, 8)), (ConvNet, (1, 3, 12, 12))], ids=["mlp", "conv net"])
def test_quantised(
    machine: Machine, model: Callable[[], nn.Module], shape: tuple[int, ...], precision: str, delegated: bool
) -> None:
    """On the runtime's kernels, and as a delegate: what our Python execution returns."""
    pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")
    x = randn(*shape)
    exported = for_xnnpack(model().eval(), precision, [x, randn(*shape, seed=1)])
    # The runtime has no kernels of some operators that XNNPACK takes whole.
    program = edge_for_xnnpack(exported) if delegated else to_edge(exported)
    wanted = run_program(program.exported_program(), [x])
    if delegated:
        program = program.to_backend(XnnpackPartitioner())
        assert any(node.op == "get_attr" for node in program.exported_program().graph.nodes)
        wanted = run_program(program.exported_program(), [x], {"XnnpackBackend": XnnpackRuntime()})
    found = machine.run_calls(program.to_executorch().buffer, ("forward", (x,)))
    check(found if isinstance(found, str) else found[0], wanted)


@pytest.mark.parametrize("segments", [False, True])
def test_lowered_module(machine: Machine, segments: bool) -> None:
    x, model = randn(2, 8), Mlp().eval()
    (lowered,) = lowered_modules(edge(model, x).to_backend(XnnpackPartitioner()))
    found = machine.run_calls(lowered.buffer(extract_delegate_segments=segments), ("forward", (x,)))
    with torch.no_grad():
        check(found if isinstance(found, str) else found[0], [model(x)])


def test_delegate_with_an_open_size(machine: Machine) -> None:
    model = Mlp().eval()
    program = edge(model, randn(2, 8), dynamic_shapes=({0: Dim("batch", min=1, max=6)},))
    file = program.to_backend(XnnpackPartitioner()).to_executorch().buffer
    for batch in (1, 4, 6):
        x = randn(batch, 8, seed=batch)
        found = machine.run_calls(file, ("forward", (x,)))
        with torch.no_grad():
            check(found if isinstance(found, str) else found[0], [model(x)])


def test_number_in_a_tensor(machine: Machine) -> None:
    def function(x: Tensor, n: Tensor) -> Any:
        size = n.item()
        torch._check(size >= 2)  # type: ignore[no-untyped-call]  # torch leaves it so
        torch._check(size <= 6)  # type: ignore[no-untyped-call]  # torch leaves it so
        return x[:size] * 2.0

    program = edge(Function(function), randn(8, 3), torch.tensor(5))
    file = program.to_executorch().buffer
    for n in (2, 6):
        inputs = (randn(8, 3), torch.tensor(n))
        found = machine.run_calls(file, ("forward", inputs))
        check(found if isinstance(found, str) else found[0], flat(function(*inputs)))


def test_written_input(machine: Machine) -> None:
    def function(x: Tensor) -> Tensor:
        x.add_(1.0)
        return x * 2.0

    program = edge(Function(function), randn(2, 3)).to_executorch().buffer
    found = machine.run_calls(program, ("forward", (randn(2, 3),)))
    check(found if isinstance(found, str) else found[0], [function(randn(2, 3))])


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*NETWORKS, *LARGE_NETWORKS])
def test_no_more_memory_than_executorch(name: str) -> None:
    """The arena of the float32 network, all on kernels, beside ExecuTorch's own greedy plan."""
    from executorch.exir import to_edge as real_to_edge

    model, shape = network(name)
    program = for_xnnpack(folded(model), "fp32", samples(shape, 1))
    ours = to_edge(program).to_executorch().memory_plan().arena_bytes
    (theirs,) = real_to_edge(program).to_executorch().executorch_program.execution_plan
    assert 0 < ours <= sum(theirs.non_const_buffer_sizes)
