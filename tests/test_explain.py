"""`assay explain`: planted causes are named first, counts are the lowering's, what backends raise is an answer."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import numpy as np
import torch
from click.testing import CliRunner, Result
from planted import PLANTED, Planted
from planted_numbers import NUMERIC, Numeric
from quantizing import QUANTIZES
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import npu_assay
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cli import main
from npu_assay.conformance.explain.asking import Asking, spelled
from npu_assay.conformance.explain.causes import Causes
from npu_assay.conformance.explain.changes import smallest_change
from npu_assay.conformance.explain.explaining import How, explained
from npu_assay.conformance.explain.lowered import calls, lower, module_called
from npu_assay.conformance.explain.models import model_of, quantize
from npu_assay.conformance.explain.origins import frames_of
from npu_assay.conformance.explain.record import Explained, Explanation
from npu_assay.conformance.explain.single import linear_layer
from npu_assay.conformance.run.outline import NO_WORK
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend, Partitioner, PartitionResult
from npu_assay.partitioners.exir.ops import target_name

pytestmark = QUANTIZES
TESTS = Path(__file__).parent


class Small(nn.Module):
    """A convolution, a gelu, which Neutron does not take, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.act, self.head = nn.Conv2d(3, 8, 3), nn.GELU(), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.act(self.stem(x)).mean((2, 3))
        return self.head(y)  # type: ignore[no-any-return]


def small() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A factory for the command."""
    return Small(), (torch.ones(1, 3, 12, 12),)


def broken() -> object:
    """A factory that fails."""
    raise RuntimeError("no weights here")


def sized() -> object:
    """A factory of the size of example inputs."""
    return Small(), 12


def nothing() -> object:
    """A factory of something else."""
    return 7


def of(module: nn.Module, inputs: tuple[Tensor, ...], backend: str, *, quantized: bool = True) -> Explained:
    """A model on one backend, calibrated with its inputs."""
    program = torch.export.export(module.eval(), inputs)
    return npu_assay.explain(program, [backend], [inputs] if quantized else None).backends[0]


# ------------------------------------------------------------------------------------ causes


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_the_first_cause_is_the_planted_one(planted: Planted) -> None:
    one = of(*planted.model, planted.backend, quantized=planted.quantized)
    assert one.error == "" and one.causes
    first, known = one.causes[0], {operator.name: operator for operator in one.operators}
    assert planted.operator in known[first.roots[0]].operator and first.code == planted.code


@pytest.mark.parametrize("planted", [p for p in PLANTED if p.code != "not_quantized"], ids=str)
def test_without_it_the_backend_takes_all(planted: Planted) -> None:
    """So the sets above have no other cause: the same network with a relu in its place."""
    module, inputs = planted.model
    module.function = nn.AdaptiveAvgPool2d(1) if hasattr(module, "head") else nn.ReLU()
    if hasattr(module, "neck"):
        assert isinstance(module.stem, nn.Conv2d)
        module.neck = nn.Conv2d(module.stem.out_channels, 8, 3, padding=1)
    else:
        module.head = nn.Linear(8, 16)
    one = of(module, inputs, planted.backend, quantized=planted.quantized)
    assert one.causes == () and len(one.taken) == len(one.operators) > 0


def test_what_follows_from_another_operator_is_not_a_cause_of_its_own() -> None:
    class Follows(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(torch.sin(x).reshape(1, 8, 64)).abs()

    one = of(Follows(), (torch.randn(1, 8, 8, 8),), "neutron")
    (cause,) = one.causes
    known = {operator.name: operator for operator in one.operators}
    assert [known[name].operator for name in cause.roots] == ["aten.sin.default"] * 2
    assert [known[name].operator for name in cause.follows] == ["aten.view_copy.default", "aten.abs.default"]


class Gated(nn.Module):
    """Spatial attention with one layer for two means, as users write it: what Neutron leaves out is not alone."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.mlp = nn.Conv2d(8, 16, 3, padding=1), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        weight = (self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3)))).sigmoid()
        scaled: Tensor = x * weight[:, :, None, None]
        return scaled


def test_layouts_that_wait_for_each_other_follow_the_operator_next_to_them() -> None:
    one = of(Gated(), (torch.randn(1, 8, 8, 8),), "neutron")
    known = {operator.name: operator for operator in one.operators}
    followers = {known[name].operator: cause.code for cause in one.causes for name in cause.follows}
    assert followers["aten.view_copy.default"] == "same_shape"
    assert followers["aten.permute_copy.default"] == "static_bias"  # of a weight, which its layer takes
    roots = {known[name].operator for cause in one.causes for name in cause.roots}
    assert not {"aten.view_copy.default", "aten.permute_copy.default"} & roots


@pytest.mark.parametrize(
    ("inputs", "dtype", "code"),
    [((0, 8), torch.float32, "not_empty"), ((1, 8), torch.bfloat16, "quantized")],
    ids=["empty", "bfloat16"],
)
def test_the_parts_of_a_layer_are_told_for_the_layer(inputs: tuple[int, ...], dtype: torch.dtype, code: str) -> None:
    """The NPU has no addmm, but the layer is one only because it was not quantized."""
    one = of(nn.Linear(8, 8).to(dtype), (torch.ones(inputs, dtype=dtype),), "ethos-u55")
    (cause,) = one.causes
    assert cause.code == code and len(cause.operators) == len(one.operators) == 2


def test_nodes_that_only_the_question_has_are_not_named() -> None:
    class Joined(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1).sigmoid()

    one = of(Joined(), (torch.randn(1, 8, 8, 8),), "neutron")
    assert all("quantized_decomposed" not in cause.found for cause in one.causes)


@pytest.mark.parametrize("backend", ["ethos-u55", "xnnpack"])
def test_open_sizes_are_told(backend: str) -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.stem(x).mean((2, 3)))  # type: ignore[no-any-return]

    inputs, batch = (torch.randn(2, 3, 8, 8),), torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(Pooled(), inputs, dynamic_shapes=({0: batch},))
    one = npu_assay.explain(program, [backend], [inputs]).backends[0]
    assert one.error == "" and "dynamic sizes" in " ".join(one.warnings)


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55", "ethos-u85"])
def test_sizes_that_depend_on_data_are_no_error(backend: str) -> None:
    class Chosen(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x[:, 0] > 0].abs()

    one = of(Chosen(), (torch.randn(4, 8),), backend)
    assert one.causes and all(operator.cause is not None for operator in one.operators if operator.delegate is None)


def test_constants_without_a_name_are_called_so() -> None:
    class Written(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x.abs().clone()
            y[:, torch.tensor([0, 2])] = 1.0
            return y

    found = " ".join(cause.found for cause in of(Written(), (torch.randn(1, 8),), "neutron").causes)
    assert "operand a constant" in found and "tensor_" not in found


@pytest.mark.parametrize("backend", ["ethos-u55", "ethos-u85"])
def test_a_wide_reflection_is_compiled(backend: str) -> None:
    class Reflected(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.pad(x, (33, 33), mode="reflect").abs()

    one = of(Reflected(), (torch.randn(1, 2, 40),), backend)
    assert one.error == "" and len(one.taken) == len(one.operators) == 2
    assert str(one.numbers[0]) == "device against quantized: equal"


def test_names_with_dots_are_left_alone() -> None:
    names = {"scalar_tensor": "aten.scalar_tensor.default of act", "x": "the image"}
    assert spelled("aten.scalar_tensor.default", names) == "aten.scalar_tensor.default"
    assert spelled("x of 3, and scalar_tensor", names) == "the image of 3, and aten.scalar_tensor.default of act"


def test_what_if_asks_about_nothing_huge() -> None:
    """A table has 2 ** 31 among its limits; a constant of so many numbers takes minutes."""
    program = torch.export.export(nn.Embedding(50, 16), (torch.zeros(2, 8, dtype=torch.int64),))
    backend = load_backend("xnnpack")
    asking = Asking(backend, load_table(backend.table))
    causes = Causes(lower(program, backend), asking, quantized=True)
    causes.found()
    for graph in causes.graphs.values():
        smallest_change(graph, asking)
    sizes = [math.prod(value.shape) for graph in asking.answers for value in graph.values]
    assert 800 < max(sizes) < 100_000


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("neutron-pool_channels", "channels 12 -> 16"),
        ("neutron-groups", "groups 2 -> 1"),
        ("neutron-mean_of_rows", "keepdim False -> True"),
        ("xnnpack-softmax_over_channels", "dim 1 -> 3"),
        ("ethos-u55-resize_scale", "scale_factors 3 -> 2"),
        ("ethos-u55-kernel_height", "size 2 of the constant operand_1 65 -> 64"),
        ("neutron-gelu", None),
    ],
)
def test_what_if(name: str, change: str | None) -> None:
    planted = next(each for each in PLANTED if str(each) == name)
    found = of(*planted.model, planted.backend, quantized=planted.quantized).causes[0].change
    assert (found and found.text) == change


def test_places_are_the_users() -> None:
    one = of(*small(), "neutron")
    gelu = next(each for each in one.operators if each.operator == "aten.gelu.default")
    assert (gelu.module, gelu.kind) == ("act", "GELU")
    assert gelu.code == "y: Tensor = self.act(self.stem(x)).mean((2, 3))"
    assert re.fullmatch(r"test_explain\.py:\d+", gelu.source)
    assert (TESTS / "test_explain.py").read_text().splitlines()[int(gelu.source.split(":")[1]) - 1].strip() == gelu.code


def test_frames() -> None:
    trace = '  File "/a/b.py", line 3, in f\n    return g(x)\n  File "/c.py", line 4, in <lambda>\n'
    assert frames_of(trace) == [("/a/b.py", 3, "return g(x)"), ("/c.py", 4, "")]
    assert frames_of("") == frames_of("no trace") == []


# ------------------------------------------------------------------------------------ numbers


def with_numbers(numeric: Numeric) -> Explained:
    """The planted model, explained with its samples."""
    samples = numeric.samples()
    program = torch.export.export(numeric.make().eval(), samples[0])
    return npu_assay.explain(program, [numeric.backend], samples, inputs=numeric.inputs()).backends[0]


@pytest.mark.parametrize("numeric", NUMERIC, ids=str)
def test_the_first_layer_is_the_planted_one(numeric: Numeric) -> None:
    one = with_numbers(numeric)
    assert one.error == ""
    first = one.layers[0]
    assert numeric.where in (first.module, first.name)
    assert numeric.cure == "" or any(numeric.cure in cure for cure in first.cures), first.cures


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55", "ethos-u85"])
def test_a_plain_model_has_nothing_to_cure(backend: str) -> None:
    torch.manual_seed(3)
    samples = [(torch.randn(1, 16, generator=torch.Generator().manual_seed(seed)),) for seed in range(4)]
    program = torch.export.export(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval(), samples[0])
    one = npu_assay.explain(program, [backend], samples).backends[0]
    assert one.layers and all(layer.cures == () for layer in one.layers)
    assert {(each.given, each.wanted) for each in one.numbers} == {
        ("device", "quantized"),
        ("device", "float"),
        ("quantized", "float"),
    }
    assert all(each.argmax == 1.0 and (each.sqnr is None or each.sqnr > 25) for each in one.numbers)


class Positions(nn.Module):
    """Embeddings of tokens and of their places, which are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place, self.head = nn.Embedding(20, 8), nn.Embedding(20, 8), nn.Linear(8, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(4) * 2 + 1
        return self.head(self.token(tokens) + self.place(places))  # type: ignore[no-any-return]


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55", "ethos-u85"])
def test_whole_numbers_stay_whole(backend: str) -> None:
    one = of(Positions(), (torch.tensor([[3, 1, 4, 1]]),), backend)
    assert one.error == "" and one.macs[0] == one.macs[1] > 0


@pytest.mark.parametrize("backend", ["neutron", "ethos-u55", "ethos-u85"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_of_a_model_that_is_not_quantised_is_that_and_nothing_else(backend: str, bias: bool) -> None:
    """`to_edge` makes a transposed constant and a product of it, which no quantized model has in that form."""
    one = of(nn.Sequential(nn.Linear(8, 16, bias), nn.ReLU()), (torch.ones(2, 8),), backend, quantized=False)
    assert [cause.code for cause in one.causes] == ["not_quantized"]
    known, (cause,) = {operator.name: operator.operator for operator in one.operators}, one.causes
    assert [known[name] for name in cause.follows] == ["aten.permute_copy.default"]  # of the weight: not one more cause
    assert {one.operators[index].operator for index in (0, 1)} == {
        "aten.permute_copy.default",
        f"aten.{'addmm' if bias else 'mm'}.default",
    }


class Scaled(nn.Module):
    """Whole numbers, which XNNPACK leaves out, and a buffer of another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = nn.Buffer(torch.ones(3, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.factors).unsqueeze(0)


def test_what_was_found_has_the_users_names() -> None:
    """Of buffers, and of operators for the nodes that only the lowered program has."""
    one = of(Scaled(), (torch.ones(2, 3, dtype=torch.int64),), "neutron", quantized=False)
    found = " ".join(cause.found for cause in one.causes)
    assert "operand factors is" in found and "aten.mul.Tensor of (model)" in found
    assert "b_factors" not in found and "aten_mul" not in found


def test_a_product_by_an_input_is_no_linear_layer() -> None:
    class Inputs(nn.Module):
        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return x @ weight.t()

    exported = torch.export.export(Inputs(), (torch.ones(2, 8), torch.ones(16, 8)))
    program = lower(exported, load_backend("neutron")).program
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    assert len(nodes) == 2 and not any(linear_layer(program, node) for node in nodes)


# ------------------------------------------------------------------------------------ counts


class Products(nn.Module):
    """What multiplies, in every form."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.deep = nn.Conv2d(4, 8, 3, stride=2), nn.Conv2d(8, 8, 3, groups=8, padding=1)
        self.up, self.line = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Linear(20, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.deep(self.plain(x)).relu())
        z: Tensor = self.line(y[..., :20].flatten(0, 2))
        return z @ z.transpose(0, 1)


class Likenesses(nn.Module):
    """Operators whose arguments are dtypes and memory formats."""

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros_like(x, dtype=torch.bool)
        filled = torch.full_like(x, 2.0, memory_format=torch.contiguous_format)
        return torch.where(mask | (x > 0), x, filled).to(torch.float16, memory_format=torch.preserve_format)


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u85"])
def test_types_and_memory_formats_are_asked_alone(backend: str) -> None:
    """Once, what torch says about the name of a format was told as the cause."""
    found = npu_assay.explain(torch.export.export(Likenesses(), (torch.ones(2, 3),)), [backend]).backends[0]
    assert {"error", "no_program"}.isdisjoint(cause.code for cause in found.causes)
    assert len(found.taken) < len(found.operators) and found.causes


def test_multiply_accumulates_are_half_of_what_torch_counts_as_operations() -> None:
    module, x = Products().eval(), torch.randn(2, 4, 43, 43)
    with FlopCounterMode(display=False) as counted:
        module(x)
    for backend in ("neutron", "xnnpack", "ethos-u85"):
        one = of(module, (x,), backend, quantized=False)
        assert 2 * one.macs[1] == counted.get_total_flops() > 0
        assert one.parameters[1] == sum(each.numel() for each in module.parameters())


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55", "ethos-u85"])
def test_counts_are_those_of_the_lowering(backend: str) -> None:
    module, inputs = small()
    own = load_backend(backend)
    model = model_of(torch.export.export(module.eval(), inputs), [inputs])
    quantized = quantize(model, own.quantizer() if own.quantizer else None, [inputs])
    program = lower(quantized.program, own).manager.exported_program()
    one = explained(model, own, [inputs], How())[0]
    inside = [module_called(call).original_module.graph for call in calls(program)]
    assert len(one.delegates) == len(inside)
    assert len(one.taken) == sum(map(computing, inside))
    assert len(one.operators) - len(one.taken) == computing(program.graph) - len(inside)
    assert {each.delegate for each in one.taken} == set(range(len(inside)))


def computing(graph: torch.fx.Graph) -> int:
    """Operators of a graph that do more than to convert."""
    return sum(node.op == "call_function" and target_name(node.target) not in NO_WORK for node in graph.nodes)


def test_the_record_is_read_as_it_was_written() -> None:
    module, inputs = small()
    found = npu_assay.explain(torch.export.export(module.eval(), inputs), ["neutron", "xnnpack"], [inputs])
    data = json.loads(json.dumps(found.as_json()))
    assert Explanation.from_json(data) == found
    damages: tuple[Any, ...] = ({"schema": 2}, {"more": 1}, {"backends": 3}, {"model": None})
    for damaged in (*(data | damage for damage in damages), []):
        with pytest.raises(ValueError, match="expected"):
            Explanation.from_json(damaged)


# ------------------------------------------------------------------------------------ backends that fail


class Raises(Partitioner):
    """A partitioner that raises."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """Nothing."""
        raise RuntimeError("not today")


class Dies(Partitioner):
    """A partitioner that ends the process."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """Nothing."""
        os._exit(3)


class Silent(Partitioner):
    """A partitioner that takes nothing and says nothing."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """No tags."""
        return PartitionResult(exported_program, {})


def _neutron(partitioner: type[Partitioner]) -> Backend:
    return replace(load_backend("neutron"), partitioner=partitioner)


raises, dies, silent = _neutron(Raises), _neutron(Dies), _neutron(Silent)


def test_what_a_backend_raises_is_its_answer() -> None:
    module, inputs = small()
    program = torch.export.export(module.eval(), inputs)
    found = npu_assay.explain(program, [raises, "xnnpack"])
    assert found.backends[0].error == "RuntimeError: not today" and found.backends[1].error == ""


def test_a_partitioner_without_reasons() -> None:
    module, inputs = small()
    (one,) = npu_assay.explain(torch.export.export(module.eval(), inputs), [silent], [inputs]).backends
    assert one.taken == () and {cause.code for cause in one.causes} == {"no_reason"}
    assert sum(len(cause.operators) for cause in one.causes) == len(one.operators)


# ------------------------------------------------------------------------------------ the command


@pytest.fixture(autouse=True)
def found_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TESTS))
    sys.modules.setdefault("test_explain", sys.modules[__name__])


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["explain", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_a_line_number_is_not_an_emoji(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ["import torch", "class Net(torch.nn.Module):", "    def forward(self, x):", *["        #"] * 96]
    source += ["        return x.sin()", "def make():", "    return Net(), (torch.ones(1, 8),)"]
    (tmp_path / "hundred_lines.py").write_text("\n".join(source))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    shown = run("hundred_lines:make", "--backend", "neutron").output
    assert "hundred_lines.py:100: return x.sin()" in shown


SMALL = "test_explain:small"


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(SMALL, "--backend", "neutron", "--calibrate", "random", "--out", out, "--pte", "-n", "1")
    assert "1. unsupported: the operator is not in the support table" in result.output
    assert "act (GELU)  aten.gelu.default" in result.output
    assert max(map(len, result.output.splitlines())) <= 100
    record = Explanation.from_json(json.loads((out / "explain.json").read_text()))
    assert record.backends[0].program == len((out / "neutron.pte").read_bytes())
    ran = CliRunner().invoke(main, ["run", str(out / "neutron.pte"), "--random", "0"])
    assert ran.exit_code == 0, ran.output
    assert {path.name for path in out.iterdir()} == {"explain.html", "explain.json", "neutron.pte"}


def test_a_file_and_arrays(tmp_path: Path) -> None:
    path, samples = tmp_path / "model.pt2", tmp_path / "samples.npz"
    module, inputs = small()
    torch.export.save(torch.export.export(module.eval(), inputs), path)
    np.savez(samples, x=np.random.default_rng(0).normal(size=(3, 1, 3, 12, 12)).astype("float32"))
    result = run(path, "--backend", "xnnpack", "--calibrate", samples, "--json", "-n", "1")
    (one,) = Explanation.from_json(json.loads(result.output)).backends
    assert one.quantized and len(one.operators) == 4


@pytest.mark.parametrize(("share", "code"), [("0.5", 0), ("1", 1)])
def test_fail_under(share: str, code: int) -> None:
    run(f"{SMALL}_share", "--backend", "neutron", "--calibrate", "random", "--fail-under", share, "-n", "1", code=code)


def small_share() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Two convolutions, of which Neutron takes one: the other has two groups."""
    return nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2)), (torch.ones(1, 8, 12, 12),)


def test_a_backend_that_ends_its_process_is_told(tmp_path: Path) -> None:
    result = run(SMALL, "--backend", "test_explain:dies", "--backend", "xnnpack", "--calibrate", "random", "-n", "1")
    assert "exit code 3" in result.output and "xnnpack (quantized here)" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.pt2", "--backend", "neutron"], "nothing.pt2: found no such file"),
        (["test_explain:broken", "--backend", "neutron"], "RuntimeError: no weights here"),
        (["test_explain:nothing", "--backend", "neutron"], "found int, expected a pair"),
        (
            ["test_explain:sized", "--backend", "neutron"],
            "example inputs: found int, expected a tensor, a tuple, a dict",
        ),
        (["test_explain:absent", "--backend", "neutron"], "has no 'absent'"),
        ([SMALL, "--backend", "neutrons"], "no backend 'neutrons', did you mean 'neutron'?"),
        ([SMALL, "--backend", "neutron", "--calibrate", "no.npz"], "no.npz: cannot be read"),
        ([SMALL, "--backend", "neutron", "--dynamic"], "--dynamic: expected --calibrate beside it"),
        ([SMALL, "--backend", "neutron", "--pte"], "--pte: expected --out DIR beside it"),
    ],
)
def test_what_cannot_be_asked(arguments: list[str], message: str) -> None:
    result = run(*arguments, "-n", "1", code=2)
    assert message in result.output and "Traceback" not in result.output
    assert result.output.startswith("assay: ") and result.output.count("\n") == 1


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_module_that_exits(processes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks gets one line, in one process or several."""
    (tmp_path / "model_that_exits.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    backends = ("--backend", "neutron", "--backend", "xnnpack")
    result = run("model_that_exits:make", *backends, "-n", processes, code=2)
    assert "model_that_exits" in result.output and result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            {"x": np.zeros((2, 1, 3, 12, 11))},
            "found sizes [2, 1, 3, 12, 11], expected [samples, 1, 3, 12, 12]",
        ),
        (
            {"x": np.zeros((8, 3, 12, 12))},
            "found sizes [8, 3, 12, 12], expected [samples, 1, 3, 12, 12]: array[:, None] has an axis for them",
        ),
        ({"x": np.zeros((0, 1, 3, 12, 12))}, "array 0: found sizes [0, 1, 3, 12, 12]"),
        ({"x": np.zeros((1, 1, 3, 12, 12)), "y": np.zeros(1)}, "found 2 arrays, expected 1"),
        ({"x": np.zeros((1,), dtype=object)}, "Python objects"),
    ],
)
def test_samples_that_do_not_fit(array: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", **array)
    result = run(SMALL, "--backend", "neutron", "--calibrate", tmp_path / "samples.npz", "-n", "1", code=2)
    assert message in result.output


# ------------------------------------------------------------------------------------ files of strangers


def _edited(path: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> None:
    """Every record of an archive changed, and more of them."""
    with zipfile.ZipFile(path) as given:
        records = {name: given.read(name) for name in given.namelist()}
    with zipfile.ZipFile(path, "w") as made:
        for name, data in records.items():
            made.writestr(name, change(name, data))
        for name, data in (more or {}).items():
            made.writestr(name, data)


MARKER = "a_pickle_was_read"
PICKLE = b"cos\nsystem\n(S'touch " + MARKER.encode() + b"'\ntR."


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (lambda name, data: data.replace(b'"use_pickle": false', b'"use_pickle": true'), None, "a pickled tensor"),
        (lambda name, data: data, {"model/data/aotinductor/x.so": b""}, "expected the records of one exported program"),
        (lambda name, data: data[:-40] if name.endswith("model.json") else data, None, "not a program"),
    ],
)
def test_archives_that_are_refused(
    change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(small()[0].eval(), small()[1]), path)
    _edited(path, change, more)
    assert message in run(path, "--backend", "neutron", "-n", "1", code=2).output


def test_pickled_samples_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(small()[0].eval(), small()[1]), path)
    _edited(path, lambda name, data: PICKLE if "sample_inputs" in name else data)
    run(path, "--backend", "neutron", "-n", "1")
    assert not (tmp_path / MARKER).exists()


def test_sizes_are_never_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open size is an expression in the file, which torch evaluates."""
    monkeypatch.chdir(tmp_path)
    path, batch = tmp_path / "model.pt2", torch.export.Dim("batch", max=8)
    program = torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    evil = f"__import__('os').system('touch {MARKER}')"
    found = list[bytes]()

    def change(name: str, data: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return data
        found.append(re.sub(rb'"expr_str": ?"[^"]*"', f'"expr_str": "{evil}"'.encode(), data))
        assert found[-1] != data
        return found[-1]

    _edited(path, change)
    assert "expected arithmetic on symbols" in run(path, "--backend", "neutron", "-n", "1", code=2).output
    assert not (tmp_path / MARKER).exists()
