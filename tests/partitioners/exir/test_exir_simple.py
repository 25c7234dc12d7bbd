"""Clusters of one operator between dequantize and quantize nodes, and the container of their compiled form."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, fx

from npu_assay.conformance.backend import scaffold
from npu_assay.conformance.cases.families.convolution.integers import Convolution
from npu_assay.conformance.cases.families.convolution.static import (
    convolution,
    fused,
    operand_quant,
    shifted,
    with_operand,
)
from npu_assay.conformance.cases.families.elementwise.binary import binary
from npu_assay.conformance.cases.families.linear.matrices import mm
from npu_assay.conformance.cases.families.linear.matrix_weights import linear_form
from npu_assay.conformance.cases.make import Call, Q, X, call, constant, model, quant, weight_quant
from npu_assay.conformance.cases.pieces.contexts import used_twice
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph, Ref
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import read_table
from npu_assay.partitioners.exir import BackendError, Partitioner, PreprocessResult, delegates, to_backend
from npu_assay.partitioners.exir.backend import BackendDetails
from npu_assay.partitioners.exir.blob import MAGIC, BlobError, pack, unpack
from npu_assay.partitioners.exir.qdq import QParams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.exir.single_op import (
    Cluster,
    ClusterPartitioner,
    lookup_table,
    only_cluster,
    only_plain,
    same_qparams,
    unfused,
)

SEEN: list[tuple[dict[str, Any], list[Tensor]]] = []


class Toy(BackendDetails):
    """Keeps what it is asked to compile."""

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: Any) -> PreprocessResult:
        SEEN.append(only_cluster(edge_program).describe())
        return PreprocessResult(pack(*SEEN[-1]))


@rule("never")
def never(node: fx.Node, cluster: Cluster | None) -> str | None:
    """no reason is good enough"""
    return "a reason"


class ToyPartitioner(ClusterPartitioner):
    backend_id = "Toy"
    rules = dict.fromkeys(
        (
            *("aten.add.Tensor", "aten.mm.default", "aten.convolution.default"),
            *("aten.max_pool2d_with_indices.default", "aten.cat.default"),
        ),
        (),
    ) | {"aten.permute_copy.default": (same_qparams,), "aten.neg.default": (never,)}


def taken(graph: Graph, partitioner: Partitioner | None = None) -> list[tuple[dict[str, Any], list[Tensor]]]:
    """What the compiler is given of each delegate."""
    SEEN.clear()
    lowered = to_backend(build(graph), partitioner or ToyPartitioner(), details={"Toy": Toy})
    assert len(SEEN) == len(list(delegates(lowered)))
    return list(SEEN)


def refused(graph: Graph, partitioner: ToyPartitioner | None = None) -> list[str]:
    """The codes of the reasons; nothing may be taken."""
    partitioner = partitioner or ToyPartitioner()
    assert taken(graph, partitioner) == []
    return [reason.code for reason in partitioner.rejections]


# ------------------------------------------------------------------------------------ clusters


def test_two_inputs_and_the_arguments_by_name() -> None:
    ((header, arrays),) = taken(model(binary("aten.add.Tensor", (2, 3), quant(0.5, 1), quant(0.25, 2), quant(1.0, 3))))
    assert header["operands"] == [
        {"scale": 0.5, "zero_point": 1, "input": 0},
        {"scale": 0.25, "zero_point": 2, "input": 1},
    ]
    assert header["output"] == {"scale": 1.0, "zero_point": 3, "qmin": -128, "qmax": 127, "dtype": "int8"}
    assert (header["op"], header["arguments"], arrays) == ("aten.add.Tensor", {"alpha": 1}, [])


def test_one_input_twice_is_one_input() -> None:
    twice = call("aten.add.Tensor", (2, 3), X)
    ((header, _),) = taken(model(twice))
    assert [operand["input"] for operand in header["operands"]] == [0, 0]


def test_constants_go_along_and_transposed_ones_are_transposed() -> None:
    ((plain, (weights,)),) = taken(model(mm(3, 7, 5)))
    ((turned, (stored,)),) = taken(linear_form(mm(3, 7, 5)))
    assert weights.shape == stored.shape == (7, 5) and plain["operands"] == turned["operands"]
    assert plain["operands"][1]["constant"] == 0 and plain["operands"][0]["input"] == 0


def test_the_first_of_several_results_is_enough() -> None:
    pool = call("aten.max_pool2d.default", (1, 2, 4, 4), (2, 2), (2, 1))
    ((header, _),) = taken(model(pool))
    assert header["arguments"]["stride"] == [2, 1] and header["arguments"]["ceil_mode"] is False


def test_several_clusters_are_several_delegates() -> None:
    u = binary("aten.add.Tensor", (2, 3))
    assert len(taken(model(u))) == 1
    assert len(taken(used_twice(u))) == 2


@pytest.mark.parametrize(
    ("u", "codes"),
    [
        (binary("aten.add.Tensor", (2, 3), y=quant(0.1, 5)), []),
        (call("aten.add.Tensor", (2, 3), 2.0), ["quantized"]),
        (binary("aten.add.Tensor", (0, 3)), ["static_shape"]),
        (convolution(), ["quantized"]),
        (call("aten.permute_copy.default", (2, 3), (1, 0), y=quant(0.1, 3)), ["same_qparams"]),
        (call("aten.neg.default", (2, 3)), ["never"]),
        (call("aten.abs.default", (2, 3)), []),
    ],
)
def test_every_reason_is_given(u: Call, codes: list[str]) -> None:
    if u.op == "aten.add.Tensor" and not codes:
        assert len(taken(model(u))) == 1
    else:
        assert refused(model(u)) == codes


def test_codes_of_16_bits_are_taken_where_they_are_let_in() -> None:
    wide = quant(0.001, 0)
    wide = type(wide)(wide.scale, 0, -32768, 32767, None, "int16")
    u = binary("aten.add.Tensor", (2, 3), wide, wide, wide)

    class Wide(ToyPartitioner):
        dtypes = (torch.int8, torch.int16)

    assert refused(model(u)) == ["quantized"]
    ((header, _),) = taken(model(u), Wide())
    assert header["output"]["dtype"] == "int16"


# ------------------------------------------------------------------------------------ convolutions

SINGLE = Convolution().call()  # one scale for all weights, and a bias


def test_a_constant_bias_has_codes_of_32_bits() -> None:
    ((header, (weights, bias)),) = taken(model(SINGLE))
    assert (weights.dtype, bias.dtype) == (torch.int8, torch.int32)
    assert header["operands"][2] == {
        "scale": pytest.approx(operand_quant(SINGLE.values[2]).scale),
        "zero_point": 0,
        "constant": 1,
    }
    widened = replace(SINGLE, values=(SINGLE.values[0], replace(SINGLE.values[1], quant=SINGLE.values[2].quant)))
    assert refused(model(replace(widened, args=(*widened.args[:2], None, *widened.args[3:])))) == ["quantized"]


@pytest.mark.parametrize(
    ("name", "bounds", "limits"),
    [
        ("aten.relu.default", (), (-118, 127)),
        ("aten.hardtanh.default", (), (-120, -116)),
        ("aten.hardtanh.default", (0.0, 6.0), (-118, -106)),
        ("aten.clamp.default", (0.6,), (-117, 127)),  # 1.2 steps
        ("aten.clamp.default", (None, 1.25), (-128, -116)),  # 2.5 steps, half to even
        ("aten.clamp.default", (-math.inf, 1e9), (-128, 127)),
    ],
)
def test_an_activation_goes_along_as_limits_of_the_codes(
    name: str, bounds: tuple[float | None, ...], limits: tuple[int, int]
) -> None:
    graph = fused(replace(SINGLE, y=quant(0.5, -118)), name, bounds, quant(0.5, -118))
    ((header, _),) = taken(graph)
    assert (header["output"]["qmin"], header["output"]["qmax"]) == limits

    class Plain(ToyPartitioner):
        activations = ()
        rules = ToyPartitioner.rules | {"aten.convolution.default": (unfused,)}

    assert refused(graph, Plain()) == ["quantized", "unfused"]
    assert len(taken(model(SINGLE), Plain())) == 1


def test_other_operators_keep_their_own_quantisation() -> None:
    tanh = fused(SINGLE, "aten.tanh.default", (), Q)
    added = fused(binary("aten.add.Tensor", (2, 3)), "aten.relu.default", (), Q)
    assert refused(tanh) == refused(added) == ["quantized"]


def test_an_activation_that_was_taken_along_is_not_refused_for_itself() -> None:
    class Both(ToyPartitioner):
        rules = ToyPartitioner.rules | {"aten.relu.default": ()}

    partitioner = Both()
    assert len(taken(fused(SINGLE, "aten.relu.default", (), Q), partitioner)) == 1
    assert partitioner.rejections == []


def test_scales_per_channel_are_taken_where_they_are_let_in() -> None:
    class Channels(ToyPartitioner):
        per_channel = True

    u = convolution()
    partitioner = ToyPartitioner()
    assert refused(model(u), partitioner) == ["quantized"]
    assert partitioner.rejections[0].found.endswith(": scales per channel")
    ((header, (weights, bias)),) = taken(model(u), Channels())
    assert header["operands"][1]["scale"] == pytest.approx(operand_quant(u.values[1]).scale)
    assert (header["operands"][1]["axis"], weights.shape, bias.shape) == (0, (5, 3, 3, 3), (5,))
    assert header["operands"][2]["scale"] == pytest.approx(operand_quant(u.values[2]).scale)
    assert refused(model(with_operand(u, "w", shifted(u.values[1]))), Channels()) == ["quantized"]


@pytest.mark.parametrize("precisions", ["", 'precisions = ["int8"], '])
def test_a_table_can_promise_convolutions_without_activations(precisions: str) -> None:
    """The cases with an activation between a convolution and its quantization change sides."""
    text = scaffold.rendered("some_npu")["some_npu/some_npu@0.1.toml"].replace("alpha = 1 @document", "")
    for promised in (False, True):
        row = f'"aten.convolution.default" = {{ document = "", {precisions}constraints = ["unfused @document"] }}\n'
        row = row.replace('"unfused @document"', "") if promised else row
        meanings = "" if promised else 'unfused = "no activation in front of the quantize node"\n'
        data = (
            text.replace("[operators]\n", f"{meanings}[operators]\n").replace('alpha = "', "# ").replace('[""]', "[]")
        )
        cases = all_cases(read_table((data + row).encode(), "some.toml"))
        found = {case.id.rpartition("/")[2]: case for case in cases if case.row == "aten.convolution.default"}
        changed = found["then_relu" if precisions else "relu_fused_behind"]
        assert (changed.expect, changed.reason) == (("accept", None) if promised else ("reject", "unfused"))
        assert any(case.constraint == "unfused" and case.side == "at_limit" for case in found.values()) != promised


def test_what_makes_no_cluster_is_said() -> None:
    found = []
    for u in (call("aten.add.Tensor", (2, 3), 2.0, x=None), replace(SINGLE, y=None), wide_input()):
        partitioner = ToyPartitioner()
        refused(model(u), partitioner)
        found.append(partitioner.rejections[0].found)
    assert found[0] == "x: no dequantize node"
    assert found[1] == "aten_convolution_default: no quantize node that takes it alone, but output"
    assert found[2].endswith(": codes of int16 with scale 0.5 and zero point 0")


def wide_input() -> Call:
    """16 bits in, 8 bits out."""
    wide = replace(quant(0.5), qmin=-32768, qmax=32767, dtype="int16")
    return binary("aten.add.Tensor", (2, 3), wide, wide)


def test_nothing_but_tags_and_rejections_change() -> None:
    program = build(linear_form(mm(3, 7, 5)))
    before = str(program.graph)
    partitioner = ToyPartitioner()
    tags = partitioner.partition(program).partition_tags
    assert str(program.graph) == before and list(tags) == ["Toy_0"]
    untagged = [n.op for n in program.graph.nodes if "delegation_tag" not in n.meta]
    assert sorted(untagged) == ["call_function", "call_function", "output", "placeholder"]  # at the model's two ends
    partitioner.partition(build(model(call("aten.abs.default", (1,)))))
    assert partitioner.rejections == []


def test_a_subgraph_of_another_kind_is_an_error() -> None:
    with pytest.raises(BackendError, match="one operator between dequantize and quantize"):
        only_cluster(build(model(call("aten.abs.default", (2, 3), x=None, y=None))))


def test_a_constant_operand_of_the_first_position() -> None:
    weights = constant("z", (2, 3), weight_quant(0.02))
    ((header, arrays),) = taken(model(call("aten.add.Tensor", (2, 3), Ref("z"), more=(weights,), x=Q)))
    assert header["operands"][1] == {"scale": pytest.approx(0.02), "zero_point": 0, "constant": 0}
    assert arrays[0].dtype == torch.int8


def test_a_table_of_results() -> None:
    x, y = QParams(0.5, -3, -128, 127, torch.int8), QParams(0.25, 7, -128, 127, torch.int8)
    table = lookup_table(torch.relu, x, y)
    assert table.dtype == torch.int32 and table.shape == (256,)
    assert table[:126].eq(0).all() and table[125:].tolist() == [2 * step for step in range(131)]


# ------------------------------------------------------------------------------------ the container


def test_what_is_packed_is_unpacked() -> None:
    arrays = [torch.arange(-3, 3, dtype=d).reshape(2, 3) for d in (torch.int8, torch.int16, torch.int32, torch.int64)]
    header = {"op": "x", "scale": 0.1, "list": [1, None, True, -math.inf]}
    data = pack(header, [*arrays, torch.tensor(5, dtype=torch.int8)])
    found, tensors = unpack(data)
    assert found == header and all(map(torch.equal, tensors, [*arrays, torch.tensor(5, dtype=torch.int8)]))
    assert [t.dtype for t in tensors] == [*(a.dtype for a in arrays), torch.int8]
    assert pack(dict(reversed(header.items())), tensors) == data


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"arrays": 1}, []),
        ({"x": object()}, []),
        ({}, [torch.ones(2, dtype=torch.complex64)]),
        ({}, [torch.empty(0, dtype=torch.int8)]),
    ],
)
def test_what_cannot_be_packed_is_an_error(header: dict[str, Any], arrays: list[Tensor]) -> None:
    with pytest.raises(BlobError, match="blob"):
        pack(header, arrays)


def test_no_other_bytes_are_read() -> None:
    data = pack({"op": "x"}, [torch.ones(2, 3, dtype=torch.int8)])
    for size in range(len(data)):
        with pytest.raises(BlobError):
            unpack(data[:size])
    with pytest.raises(BlobError, match="after the last array"):
        unpack(data + b"\0")


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b"{",
        b"\xff",
        b"[" * 100000,
        b'{"arrays": 1}',
        b'{"arrays": [1]}',
        b'{"arrays": [{"dtype": "float32", "shape": [1]}]}',
        b'{"arrays": [{"dtype": [], "shape": [1]}]}',
        b'{"arrays": [{"dtype": "int8", "shape": [0]}]}',
        b'{"arrays": [{"dtype": "int8", "shape": [-1]}]}',
        b'{"arrays": [{"dtype": "int8", "shape": [true]}]}',
        b'{"arrays": [{"dtype": "int8", "shape": [99999999999999999999]}]}',
    ],
)
def test_a_header_of_another_form_is_an_error(text: bytes) -> None:
    with pytest.raises(BlobError, match="blob"):
        unpack(MAGIC + len(text).to_bytes(4, "little") + text)


# ------------------------------------------------------------------------------------ plain numbers


class PlainToy(BackendDetails):
    """Keeps what it is asked to compile of plain numbers."""

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: Any) -> PreprocessResult:
        SEEN.append(only_plain(edge_program).describe())
        return PreprocessResult(pack(*SEEN[-1]))


class PlainPartitioner(ToyPartitioner):
    plain: ClassVar = {
        "aten.add.Tensor": (torch.float32, torch.int32),
        "aten.max_pool2d_with_indices.default": (torch.float32,),
    }


def plain_taken(graph: Graph, partitioner: Partitioner) -> list[tuple[dict[str, Any], list[Tensor]]]:
    SEEN.clear()
    to_backend(build(graph), partitioner, details={"Toy": PlainToy})
    return list(SEEN)


def typed(dtype: str, op: str = "aten.add.Tensor") -> Call:
    return binary(op, (2, 3)).with_each(dtype=dtype, quant=None)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_plain_numbers_are_taken_where_the_partitioner_says_so(dtype: str) -> None:
    u = replace(typed(dtype), y=None)
    ((header, arrays),) = plain_taken(model(u), PlainPartitioner())
    assert header == {
        "op": "aten.add.Tensor",
        "operands": [{"input": 0}, {"input": 1}],
        "results": [dtype],
        "arguments": {"alpha": 1},
    }
    assert arrays == []
    assert refused(model(u)) == ["quantized"]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64"])
def test_other_types_are_rejected_for_their_type(dtype: str) -> None:
    assert refused(model(replace(typed(dtype), y=None)), PlainPartitioner()) == ["dtype"]


def test_a_constant_and_several_results_go_along() -> None:
    x, y = replace(typed("float32"), y=None).values
    graph = model(replace(typed("float32"), y=None, values=(x, replace(y, constant=True))))
    ((header, (numbers,)),) = plain_taken(graph, PlainPartitioner())
    assert header["operands"] == [{"input": 0}, {"constant": 0}] and numbers.dtype == torch.float32
    pool = call("aten.max_pool2d_with_indices.default", (1, 2, 4, 4), (2, 2), x=None, y=None, outputs=2)
    ((header, _),) = plain_taken(model(pool), PlainPartitioner())
    assert header["results"] == ["float32", "int64"]


def test_what_is_quantized_stays_a_cluster_beside_plain_numbers() -> None:
    u = binary("aten.add.Tensor", (2, 3))
    assert taken(model(u), PlainPartitioner()) == taken(model(u))
    assert refused(model(replace(u, y=None)), PlainPartitioner()) == ["quantized"]
