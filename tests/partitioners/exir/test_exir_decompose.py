"""Decomposition without torch's `run_decompositions`: the same edge programs as with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from edge_programs import assert_same
from executorch_programs import Function
from exir_toy import random, seeded, targets
from torch import Tensor, nn
from torch._decomp import decomposition_table
from torch.export import Dim, ExportedProgram
from torch.export.exported_program import default_decompositions
from torch.export.graph_signature import OutputKind
from torch.nn import functional

from npu_assay.partitioners.exir import EdgeCompileConfig, EdgeError, EdgeProgram, run_program, to_edge
from npu_assay.partitioners.exir.decompose import decomposed
from npu_assay.partitioners.exir.edge import rewrite

aten: Any = torch.ops.aten


def exported(function: Callable[..., Any], *inputs: Tensor, sizes: Any = None) -> ExportedProgram:
    module = function if isinstance(function, nn.Module) else Function(function)
    shapes = (sizes,) if sizes is not None and isinstance(module, Function) else sizes
    with warnings.catch_warnings():
        # torch's own recurrent layers keep a list of their weights.
        warnings.filterwarnings("ignore", message="The tensor attributes .*_flat_weights", category=UserWarning)
        return torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)


def with_torch(program: ExportedProgram, preserve: list[Any]) -> EdgeProgram:
    """The edge program by way of torch's `run_decompositions`."""
    table: Any = default_decompositions()
    norm = aten.linalg_vector_norm.default
    table[norm] = decomposition_table[norm]
    for op in preserve:
        table.pop(op, None)
    with warnings.catch_warnings():
        # torch copies its own tree specs in a way that it deprecated itself.
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        taken_apart = program.run_decompositions(table)
    return rewrite(taken_apart, EdgeCompileConfig(preserve_ops=preserve))


def assert_as_torch(program: ExportedProgram, preserve: list[Any] | None = None) -> EdgeProgram:
    preserve = [] if preserve is None else preserve
    ours = rewrite(decomposed(program, preserve), EdgeCompileConfig(preserve_ops=preserve))
    theirs = with_torch(program, preserve)
    for one in (ours, theirs):
        rename_sizes(one)
    assert_same(ours, theirs)
    assert ours.range_constraints == theirs.range_constraints
    return ours


def rename_sizes(program: EdgeProgram) -> None:
    """Number the nodes of open sizes in order: their names say in which order torch came upon them."""
    sizes = [n for n in program.graph.nodes if isinstance(n.meta.get("val"), torch.SymInt)]
    for number, node in enumerate(sizes):
        node.name = f"size_{number}"


X = random(2, 3, 4)
IMAGE = random(1, 4, 8, 8)
ROWS = torch.tensor([0, 1])


def joined(functions: list[Callable[..., Any]]) -> Function:
    """One module of many functions of the same input: torch's way has a fixed cost far above that of one of them."""
    return Function(lambda x: [y for f in functions for y in (f(x) if isinstance(f(x), (tuple, list)) else [f(x)])])


def named(place: Any, names: str) -> list[Callable[..., Any]]:
    """Functions of one input."""
    return [getattr(place, name) for name in names.split()]


ELEMENTWISE: list[Callable[..., Any]] = [
    *named(torch, "abs acosh cos erf exp2 expm1 frac isfinite log10 logit sgn sign square nan_to_num zeros_like"),
    *named(functional, "celu elu gelu glu hardsigmoid hardswish hardshrink logsigmoid mish relu6 selu silu softplus"),
    *named(functional, "softshrink softsign tanhshrink"),
    lambda x: x + 1,
    lambda x: x / 3.0,
    lambda x: x // 2,
    lambda x: x % 3,
    lambda x: 1 / x,
    lambda x: x**2,
    lambda x: torch.xlogy(x, x),
    lambda x: torch.where(x > 0, x, 0.0),
    lambda x: torch.addcmul(x, x, x, value=2),
    lambda x: torch.lerp(x, x + 1, 0.3),
    lambda x: x.masked_fill(x > 0, 0.0),
    lambda x: x.detach() * 2,
    lambda x: x.long() + x,
]
REDUCTIONS: list[Callable[..., Any]] = [
    *named(torch, "sum mean amax argmax prod any std var_mean median aminmax"),
    *(partial(f, dim=-1) for f in named(torch, "softmax log_softmax cumsum logsumexp max sort")),
    lambda x: functional.normalize(x),
    lambda x: functional.layer_norm(x, [4], x[0, 0], x[0, 1]),
    lambda x: functional.rms_norm(x, [4]),
    lambda x: functional.mse_loss(x, x + 1),
    lambda x: functional.cosine_similarity(x, x + 1),
    lambda x: x.topk(2),
]
SHAPES: list[Callable[..., Any]] = [
    lambda x: x.transpose(1, 2).reshape(-1),
    lambda x: x.transpose(0, 1).contiguous(),
    lambda x: x.unflatten(2, (2, 2)),
    lambda x: x.chunk(2, -1),
    lambda x: x.unbind(0),
    lambda x: x.repeat(2, 1, 1),
    lambda x: x.repeat_interleave(2, 1),
    lambda x: x.roll(1, 0),
    lambda x: x.flip(1),
    lambda x: x.triu(1),
    lambda x: torch.diag_embed(x),
    lambda x: torch.stack([x, x]),
    lambda x: x.index_select(1, ROWS),
    lambda x: x.gather(1, torch.zeros(2, 1, 4, dtype=torch.int64)),
    lambda x: torch.einsum("abc,adc->abd", x, x),
    lambda x: x @ x.mT,
    lambda x: torch.baddbmm(x @ x.mT, x, x.mT, beta=0.5, alpha=2),
    lambda x: functional.scaled_dot_product_attention(x, x, x),
    lambda x: functional.pad(x, (1, 1), mode="reflect"),
    lambda x: functional.interpolate(x, scale_factor=2, mode="linear"),
    lambda x: x + torch.arange(4) * torch.ones(4),
    lambda x: functional.embedding(ROWS, x[0]),
    lambda x: x,
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("functions", [ELEMENTWISE, REDUCTIONS, SHAPES], ids=["elementwise", "reductions", "shapes"])
def test_functions(functions: list[Callable[..., Any]]) -> None:
    assert_as_torch(exported(joined(functions), X))


class Layers(nn.Module):
    """Layers with weights, on an image and on its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.ModuleList(
            [
                nn.Conv2d(4, 8, 3, groups=4, stride=2),
                nn.Conv2d(4, 3, 3, padding="same", bias=False),
                nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1),
                nn.BatchNorm2d(4),
                nn.InstanceNorm2d(4),
                nn.GroupNorm(2, 4),
                nn.MaxPool2d(2),
                nn.AvgPool2d(3, 2, 1),
                nn.AdaptiveAvgPool2d(3),
                nn.PixelShuffle(2),
                nn.Upsample(scale_factor=2, mode="bilinear"),
                nn.PReLU(4),
                nn.Linear(8, 3),
                nn.RMSNorm(8),
            ]
        )
        self.rows = nn.ModuleList([nn.LSTM(8, 3, batch_first=True), nn.GRU(8, 3), nn.TransformerEncoderLayer(8, 2, 8)])

    def forward(self, x: Tensor) -> list[Any]:
        """What each layer makes of the image, or of its rows."""
        return [layer(x) for layer in self.image] + [layer(x.squeeze(0)) for layer in self.rows]


@pytest.mark.long
def test_layers() -> None:
    module = seeded(Layers())
    program = assert_as_torch(exported(module, IMAGE))
    flat = [t for y in module(IMAGE) for t in (y if isinstance(y, tuple) else [y])]
    flat = [t for y in flat for t in (y if isinstance(y, tuple) else [y])]
    for found, expected in zip(run_program(program, [IMAGE]), flat, strict=True):
        assert torch.allclose(found, expected, atol=1e-6)


class Stateful(nn.Module):
    """Writes its buffers, its input, and views of what it made."""

    count: Tensor
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()), persistent=False)
        self.register_buffer("seen", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        """Write, and return what depends on it."""
        y = (x * 2).relu_()
        y[0].mul_(3.0)
        y[:, 1] = 0.0
        self.count += 1
        self.seen.copy_(y[0])
        x.add_(1)
        return y.transpose_(0, 1) + self.seen[:, None] * self.count


def test_what_is_written_leaves_as_an_output() -> None:
    program = assert_as_torch(exported(Stateful(), X.clone()))
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    assert kinds == [OutputKind.BUFFER_MUTATION] * 2 + [OutputKind.USER_INPUT_MUTATION, OutputKind.USER_OUTPUT]
    assert all("_." not in name for name in targets(program))


@pytest.mark.parametrize(
    ("function", "x", "sizes"),
    [
        (lambda x: (x.view(x.shape[0] * 3, -1) + 1.5).relu(), X, ({0: Dim("n", min=2, max=9)},)),
        (lambda x: functional.scaled_dot_product_attention(x, x, x)[:, :2], X, ({1: Dim("n", min=3, max=9)},)),
        (lambda x: x + torch.arange(x.shape[-1]), X, ({2: Dim("n", max=9)},)),
        (nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(2)), IMAGE, ({2: Dim.AUTO},)),
    ],
)
def test_open_sizes(function: Callable[..., Any], x: Tensor, sizes: Any) -> None:
    assert_as_torch(exported(function, x, sizes=sizes))


def test_control_flow() -> None:
    def choose(x: Tensor) -> Tensor:
        y: Tensor = torch.cond(x.sum() > 0, lambda t: functional.hardswish(t).view(-1), lambda t: -t.flatten(), (x,))
        return y

    assert_as_torch(exported(choose, X))


def test_whole_operators() -> None:
    module = Function(lambda x: (functional.hardswish(functional.linear(x, x[0])), functional.softmax(x, -1)))
    preserve = [aten.linear.default, aten.hardswish.default, aten.softmax.int]
    program = assert_as_torch(exported(module, X), preserve)
    assert {"aten.linear.default", "aten.hardswish.default", "aten.softmax.int"} <= set(targets(program))
    lstm = assert_as_torch(exported(seeded(nn.LSTM(4, 3)), X), preserve)
    assert "aten.linear.default" in targets(lstm)
    assert "aten.linear.default" not in targets(rewrite(decomposed(exported(nn.Linear(4, 3), X)), EdgeCompileConfig()))


def test_nodes_stay_whole_one_by_one() -> None:
    for sizes in (None, ({0: Dim("n", min=2, max=9)},)):
        program = decomposed(
            exported(lambda x: functional.hardswish(functional.hardswish(x)) + 1.5, X, sizes=sizes),
            [aten.hardswish.default],
        )
        first, second = (n for n in program.graph.nodes if n.target is aten.hardswish.default)
        for kept in ([first], [second], [first, second]):
            found = rewrite(decomposed(program, (), kept), EdgeCompileConfig())
            assert targets(found).count("aten.hardswish.default") == len(kept)
            assert targets(found).count("aten.div.Tensor") == 2 - len(kept)


def test_a_constant_cannot_be_written() -> None:
    state = torch.ones(3)

    def write(x: Tensor) -> Tensor:
        return x + state.add_(1)

    program = exported(write, random(3))
    if any(spec.kind.name == "CONSTANT_TENSOR" for spec in program.graph_signature.input_specs):
        with pytest.raises(EdgeError, match="the program writes a constant: found CONSTANT_TENSOR"):
            to_edge(program)


def test_the_program_given_stays_as_it_is() -> None:
    program = exported(Stateful(), X.clone())
    before = str(program), list(program.state_dict)
    to_edge(program)
    assert (str(program), list(program.state_dict)) == before
