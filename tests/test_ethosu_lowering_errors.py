"""What has no form on Ethos-U is refused with one error that names node, operator, found and expected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from delegated import delegated
from ethosu_runs import blob_of, compiled
from lowering_graphs import IMAGE, OTHER, Operation, Q, X, activation, constant, convolution, graph
from torch import fx
from tosa_graph_families import TO_COPY, integers, unary
from tosa_graphs import widened

from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step
from npu_assay.partitioners.ethosu.backend import EthosUBackend
from npu_assay.partitioners.exir import CompileSpec, edge_program
from npu_assay.partitioners.exir.compiling import CompileError
from npu_assay.partitioners.exir.ops import edge_op

CONV = convolution("conv", (1, 4, 5, 6), (2, 3), 4)
W = Quant(2.0**-8, 0, -127)
Z = activation("z", IMAGE, OTHER)
TRANSPOSED = convolution("", (1, 4, 5, 6), (2, 3), 4, groups=2, transposed=True, per_channel=False)

REFUSED = {
    "alpha": Operation("", "aten.add.Tensor", IMAGE, (Ref("z"),), more=(Z,), kwargs=(("alpha", 2),)),
    "second operand": Operation("", "aten.remainder.Tensor", IMAGE, (Ref("z"),), more=(Z,)),
    "operator": Operation("", "aten._softmax.default", IMAGE, (1, False)),
    "axis of the weights' scales": replace(
        CONV, more=(replace(CONV.more[0], quant=replace(W, scale=(2.0**-8,) * 4, axis=1)), CONV.more[1])
    ),
    "weights of groups": replace(
        convolution("", (1, 4, 5, 6), (2, 3), 4, groups=4), more=(activation("w", (4, 1, 2, 3), W), CONV.more[1])
    ),
    "dilation": convolution("", (1, 4, 5, 6), (2, 3), 4, dilation=(2, 2), transposed=True),
    "scales of the weights of groups": replace(
        TRANSPOSED, more=(replace(TRANSPOSED.more[0], quant=replace(W, scale=(0.1, 0.2), axis=1)), TRANSPOSED.more[1])
    ),
    "size of the bias": replace(CONV, more=(CONV.more[0], constant("b", (1,), Quant(0.1, 0, -9, 9, None, "int32")))),
    "bias": replace(CONV, more=(CONV.more[0], activation("b", (4,), Q))),
    "stride of a dilated pool": unary("max_pool2d", (1, 3, 8, 8), (2, 2), (2, 2), (0, 0), (2, 2)),
    "accumulate": Operation(
        "",
        "aten.index_put.default",
        (3, 5),
        ((Ref("i"),), Ref("v"), True),
        more=(integers("i", (2,), "int32", 0, 2), activation("v", (2, 5))),
    ),
    "indices": Operation(
        "", "aten.index.Tensor", (3, 5), ((None, Ref("i")),), more=(integers("i", (2,), "int32", 0, 2),)
    ),
    "resizing": unary("upsample_nearest2d.vec", (1, 1, 1, 1), (1025, 1025), None),
    "storage_offset": unary("as_strided_copy", (4, 6), (2, 3), (3, 1), 1),
    "stride": unary("as_strided_copy", (4, 6), (2, 3), (6, 1)),
    "rank of the input": unary("sum.dim_IntList", (), ()),
    "scales of operands and result": unary("mul.Tensor", IMAGE, X, x=Quant(1e6), y=Quant(1e-6)),
    "operand": unary("any.dim", IMAGE, 1),
}


SAYS = {
    "alpha": "found 2, expected 1",
    "second operand": "found z_codes, a tensor, expected a constant of one element",
    "operator": "found aten._softmax.default, expected one that the compiler knows",
    "axis of the weights' scales": "found 1, expected 0",
    "weights of groups": "found computed at run time, expected constants",
    "dilation": "found (2, 2), expected (1, 1)",
    "scales of the weights of groups": "found 2, expected 1",
    "size of the bias": "found 1, expected 4",
    "bias": "found b_codes, computed at run time, expected a constant",
    "stride of a dilated pool": "found (2, 2), expected 1 where the dilation is not",
    "accumulate": "found True, expected False",
    "indices": "found [None, i], expected one for each leading dimension",
    "resizing": "found scale 2050/2, expected one that RESIZE has",
    "storage_offset": "found 1, expected 0",
    "stride": "found [6, 1], expected (3, 1)",
    "rank of the input": "found 0, expected 1 or more",
    "scales of operands and result": "found rescale ratio: found 1e+18, expected less than 2**29 for TOSA RESCALE, "
    "expected a ratio that RESCALE has",
    "operand": "found quantized numbers, expected booleans or integers",
}
"""What each is found to have, and what is expected."""


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(REFUSED[what].graph(), "u85")
    error = caught.value
    assert error.what == what
    assert str(error) == f"{error.node} ({error.operator}): {error.what}: {SAYS[what]}"
    assert error.operator.startswith("aten") and error.found != error.expected


def test_a_large_stride_only_fits_the_u55_when_windows_do_not_overlap() -> None:
    pool = unary("max_pool2d", (1, 3, 9, 9), (5, 4), (4, 4)).graph()
    compiled(pool, "u85")
    with pytest.raises(CompileError, match="stride above 3"):
        compiled(pool, "u55")


def test_an_exact_shrinking_is_not_for_the_u55() -> None:
    shrunk = unary("upsample_bilinear2d.vec", (1, 2, 16, 32), (1, 2), False, None).graph()
    with pytest.raises(CompileError, match="scale factor"):
        compiled(shrunk, "u55")


def test_a_number_that_several_codes_equal() -> None:
    """Scales so small that torch's float32 numbers coincide."""
    fine = activation("x", IMAGE, Quant(1e-46))
    with pytest.raises(CompileError, match="number to compare with"):
        compiled(graph([fine], [Step("y", "aten.eq.Scalar", (X, 0.0))]), "u85")


def test_mixed_integers_and_numbers() -> None:
    mixed = Operation("", "aten.maximum.default", IMAGE, (Ref("z"),), more=(integers("z", IMAGE),))
    with pytest.raises(CompileError, match="a tensor quantized in 8 or 16 bits"):
        compiled(mixed.graph(), "u85")


def test_types_that_the_device_has_not() -> None:
    double = Step("y", TO_COPY, (X,), (("dtype", "int64"),))
    with pytest.raises(CompileError, match="type of an output"):
        compiled(graph([integers("x", IMAGE)], [double]), "u85")
    with pytest.raises(CompileError, match="type of an input"):
        compiled(graph([integers("x", IMAGE, "int64")], [Step("y", "aten.neg.default", (X,))]), "u85")


def test_an_8_bit_table_has_8_bit_results() -> None:
    wide = Quant(0.001, 0, -32767, 32767, None, "int16")
    with pytest.raises(CompileError, match="result's type"):
        compiled(unary("sigmoid", y=wide).graph(), "u85")


def program(source: Graph) -> fx.Graph:
    """The delegated graph, for tests that damage it; all placeholders are inputs."""
    damaged: fx.Graph = delegated(build(source)).graph
    return damaged


def refused(damaged: fx.Graph) -> CompileError:
    with pytest.raises(CompileError) as caught:
        blob_of(edge_program(damaged), "u85")
    return caught.value


def only(found: fx.Graph, part: str) -> fx.Node:
    node: fx.Node = next(node for node in found.nodes if part in node.name)
    return node


def test_float_output() -> None:
    damaged = program(unary("abs", (2, 3)).graph())
    damaged.output_node().args = ((only(damaged, "aten_abs"),),)
    damaged.eliminate_dead_code()
    assert refused(damaged).what == "result"


def test_float_output_of_a_copy() -> None:
    damaged = program(unary("view_copy", (2, 3), (3, 2)).graph())
    damaged.output_node().args = ((only(damaged, "aten_view"),),)
    assert refused(damaged).what == "output"


def test_a_scale_that_is_computed() -> None:
    damaged = program(unary("abs", (2, 3)).graph())
    read = only(damaged, "dequantize")
    read.args = (read.args[0], only(damaged, "x_codes"), *read.args[2:])
    error = refused(damaged)
    assert (error.what, error.found, error.expected) == ("quantization", "parameters that are not constant", "numbers")


def test_no_outputs() -> None:
    damaged = program(unary("abs", (2, 3)).graph())
    damaged.output_node().args = ((),)
    assert refused(damaged).what == "outputs"


def test_unquantised_operand() -> None:
    damaged = program(unary("abs", (2, 3)).graph())
    node = only(damaged, "aten_abs")
    with damaged.inserting_before(node):
        extra = damaged.call_function(edge_op("aten.neg.default"), node.args)
    extra.meta = dict(node.meta)
    node.args = (extra,)
    assert refused(damaged).node == extra.name


@pytest.mark.parametrize(
    ("position", "value", "what"),
    [
        (1, 0.0, "scale"),
        (1, float("nan"), "scale"),
        (1, float("inf"), "scale"),
        (2, 128, "zero point"),
        (5, torch.uint8, "quantized type"),
    ],
)
def test_odd_quantisation(position: int, value: object, what: str) -> None:
    damaged = program(unary("view_copy", (2, 3), (3, 2)).graph())
    quantize = only(damaged, "_quantize")
    args: list[Any] = list(quantize.args)
    args[position] = value
    quantize.args = tuple(args)
    assert refused(damaged).what == what


def test_16_bit_codes_are_symmetric() -> None:
    shifted = Quant(0.001, 5, -32767, 32767, None, "int16")
    with pytest.raises(CompileError, match=r"zero point of torch\.int16 codes: found 5, expected 0$"):
        compiled(Operation("", "aten.neg.default", IMAGE, y=shifted, x=shifted).graph(), "u85")
    compiled(widened(unary("neg").graph()), "u85")


@pytest.mark.parametrize(
    "specs",
    [
        [],
        [CompileSpec("tosa_spec", b"TOSA-1.0+FP")],
        [CompileSpec("tosa_spec", b"TOSA-0.80+INT")],
        [CompileSpec("tosa_spec", b"TOSA-1.0+INT")] * 2,
        [CompileSpec("tosa_spec", b"\xff")],
    ],
)
def test_compile_specs(specs: list[CompileSpec]) -> None:
    part = delegated(build(unary("abs").graph()))
    with pytest.raises(CompileError, match="specification of TOSA"):
        EthosUBackend.preprocess(part, specs)
