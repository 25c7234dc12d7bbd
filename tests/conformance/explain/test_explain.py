"""`assay explain`: planted causes are named first, counts are the lowering's, what backends raise is an answer."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from places import SHARED

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")
import torch
from explain_models import of, small
from planted import PLANTED, Planted
from quantizing import QUANTIZES
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import npu_assay
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.explain.asking import Asking, spelled
from npu_assay.conformance.explain.causes import Causes
from npu_assay.conformance.explain.changes import smallest_change
from npu_assay.conformance.explain.explaining import How, explained
from npu_assay.conformance.explain.lowered import calls, lower, module_called
from npu_assay.conformance.explain.models import model_of, quantize
from npu_assay.conformance.explain.origins import frames_of
from npu_assay.conformance.explain.record import Explanation
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value
from npu_assay.conformance.reach.flow import OwnFlow, setting
from npu_assay.conformance.run.outline import NO_WORK
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir.ops import target_name

pytestmark = QUANTIZES


# ------------------------------------------------------------------------------------ causes


@pytest.mark.sampled(12)
@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_the_first_cause_is_the_planted_one(planted: Planted) -> None:
    one = of(*planted.model, planted.backend, quantized=planted.quantized)
    assert one.error == "" and one.causes
    first, known = one.causes[0], {operator.name: operator for operator in one.operators}
    assert planted.operator in known[first.roots[0]].operator and first.code == planted.code


@pytest.mark.sampled(12)
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
    [((0, 8), torch.float32, "not_empty"), ((1, 8), torch.bfloat16, "dtype")],
    ids=["empty", "bfloat16"],
)
def test_the_parts_of_a_layer_are_told_for_the_layer(inputs: tuple[int, ...], dtype: torch.dtype, code: str) -> None:
    """The NPU has no addmm, but the layer is one only because it was not quantized, as nothing but float32 is."""
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
        smallest_change(graph, asking, lambda knob, _: knob.name)
    sizes = [math.prod(value.shape) for graph in asking.answers for value in graph.values]
    assert 800 < max(sizes) < 100_000


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("neutron-pool_channels", "channels 12 -> 16, which follows from out_channels of stem (Conv2d)"),
        ("neutron-groups", "groups 2 -> 1"),
        ("neutron-mean_of_rows", "keepdim False -> True"),
        ("xnnpack-softmax_over_channels", "dim 1 -> 3"),
        ("ethos-u55-resize_scale", "scale_factors 3 -> 2"),
        ("ethos-u55-kernel_height", "kernel_size[0] of function (Conv2d) 65 -> 64"),
        ("neutron-gelu", None),
    ],
)
def test_what_if(name: str, change: str | None) -> None:
    planted = next(each for each in PLANTED if str(each) == name)
    found = of(*planted.model, planted.backend, quantized=planted.quantized).causes[0].change
    assert (found and found.text) == change


@pytest.mark.parametrize("before", [(), (Step("before", "aten.abs.default", (Ref("x"),), (), None),)])
def test_what_if_is_not_to_do_nothing(before: tuple[Step, ...]) -> None:
    """A backend that takes every order of these dimensions; the first leaves them where they are."""

    class Takes(Asking):
        def takes(self, graph: Graph) -> bool:
            """Where nothing else is changed."""
            return graph.values == values

    values, quant, backend = (Value("x", (2, 3, 4), Quant(0.05)),), Quant(0.05), load_backend("neutron")
    operand = Ref(before[0].name if before else "x")
    turn = Step(SUBJECT, "aten.permute_copy.default", (operand, (0, 2, 1)), (), quant)
    asking = Takes(backend, load_table(backend.table))
    found = smallest_change(
        Graph(values, (*before, turn), (Ref(SUBJECT),)), asking, lambda knob, to: f"{knob.at} -> {to}"
    )
    assert found == "(0, 2, 1) -> (1, 0, 2)"


def test_what_if_cannot_be_what_is_not_told() -> None:
    """The channels of a pool follow from those of a layer: what is told to be impossible is not said, the next is."""
    planted = next(each for each in PLANTED if str(each) == "neutron-pool_channels")
    backend, (module, inputs) = load_backend("neutron"), planted.model
    model = model_of(torch.export.export(module.eval(), inputs), [inputs])
    lowered = lower(quantize(model, backend.quantizer and backend.quantizer(), [inputs]).program, backend)
    asking = Asking(backend, load_table(backend.table))
    causes = Causes(lowered, asking, quantized=True)
    causes.found()
    (graph,) = causes.graphs.values()
    assert smallest_change(graph, asking, lambda _, to: f"{to}") == "16"
    assert smallest_change(graph, asking, lambda _, to: None if to == 16 else f"{to}") == "8"


def test_places_are_the_users() -> None:
    one = of(*small(), "neutron")
    gelu = next(each for each in one.operators if each.operator == "aten.gelu.default")
    assert (gelu.module, gelu.kind) == ("act", "GELU")
    assert gelu.code == "y: Tensor = self.act(self.stem(x)).mean((2, 3))"
    assert re.fullmatch(r"explain_models\.py:\d+", gelu.source)
    assert (SHARED / "explain_models.py").read_text().splitlines()[
        int(gelu.source.split(":")[1]) - 1
    ].strip() == gelu.code


class Steps(OwnFlow):
    """A vendor's steps, with a quantizer of int8 per tensor alone."""

    def quantizer(self, kind: str) -> Any:
        """What it was asked for."""
        return setting(kind, {"int8": "per tensor"}, "no setting")


def test_the_quantizer_of_a_vendors_steps() -> None:
    """As of ExecuTorch's backends, which have none of their own."""
    vendors = replace(load_backend("neutron"), quantizer=None, flow=f"{__name__}:Steps")
    assert How().quantizer(vendors) == "per tensor"
    for backend, how in ((vendors, How(dynamic=True)), (replace(vendors, flow=None), How())):
        with pytest.raises(LookupError, match=r"the backend has no .*expected a model that is quantized already"):
            how.quantizer(backend)


def test_frames() -> None:
    trace = '  File "/a/b.py", line 3, in f\n    return g(x)\n  File "/c.py", line 4, in <lambda>\n'
    assert frames_of(trace) == [("/a/b.py", 3, "return g(x)"), ("/c.py", 4, "")]
    assert frames_of("") == frames_of("no trace") == []


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
    damages: tuple[Any, ...] = ({"schema": 1}, {"more": 1}, {"backends": 3}, {"model": None})
    for damaged in (*(data | damage for damage in damages), []):
        with pytest.raises(ValueError, match="expected"):
            Explanation.from_json(damaged)


# ------------------------------------------------------------------------------------ the command
