"""What variations showed of Ethos-U: programs near those of its tables that did not compile."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import pytest

from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from tests.conformance.run.test_own_variations import Q, program, result

BACKENDS = pytest.mark.parametrize("backend", ["ethos-u55", "ethos-u85"])


def verdict(backend: str, row: str, graph: Graph) -> str:
    """What becomes of a program, of which nothing is wrong."""
    found = result(backend, row, graph)
    assert found.failures == ()
    return found.verdict


def integers(name: str, dtype: str, *shape: int, constant: bool = False) -> Value:
    return Value(name, shape, None, Fill("list", values=tuple(range(1, 1 + math.prod(shape)))), constant, dtype)


@BACKENDS
@pytest.mark.parametrize("outputs", [1, 3, 17])
@pytest.mark.parametrize("scale", [0.0005, (0.0005,)])
def test_a_bias_of_one_number_is_that_of_every_output(backend: str, outputs: int, scale: float | tuple[float]) -> None:
    w = Value("w", (outputs, 8), Quant(0.01, 0, -127, 127), Fill(seed=1), constant=True)
    axis = 0 if isinstance(scale, tuple) else None
    bias = Value("b", (1,), Quant(scale, 0, dtype="int32", axis=axis), Fill("list", values=(900,)), constant=True)
    graph = program("aten.linear.default", Ref("w"), Ref("b"), shape=(2, 8), quant=Q, more=(w, bias))
    assert verdict(backend, "aten.linear.default", graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("pads", [(1, -5), (-5, 2), (-2, -3, 4, 1), (3, -5, -1, -3)])
@pytest.mark.parametrize("row", ["aten.constant_pad_nd.default", "aten.pad.default"])
def test_padding_that_leaves_nothing_is_a_constant(backend: str, row: str, pads: tuple[int, ...]) -> None:
    args = (pads, 0.5) if "constant" in row else (pads, "constant", 0.5)
    graph = program(row, *args, shape=(1, 2, 4, 5), quant=Q)
    if math.prod(n + a + b for n, a, b in zip((5, 4), pads[::2], pads[1::2], strict=False)) > 0:
        assert verdict(backend, row, graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize(
    ("op", "kwargs"),
    [("remainder.Tensor", ()), ("pow.Tensor_Tensor", ()), ("div.Tensor_mode", (("rounding_mode", "floor"),))],
)
def test_a_number_may_have_more_dimensions(
    backend: str, shape: tuple[int, ...], op: str, kwargs: tuple[tuple[str, str], ...]
) -> None:
    y = Value("y", shape, Q, Fill("list", values=(20,)), constant=True)
    graph = program(f"aten.{op}", Ref("y"), shape=(7,), quant=Q, more=(y,))
    graph = replace(graph, steps=(replace(graph.steps[0], kwargs=kwargs),))
    assert verdict(backend, f"aten.{op}", graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("types", [("int8", "int32"), ("int32", "int8"), ("int8", "int16", "int32")])
def test_integers_of_several_types_are_joined_as_torch_promotes_them(backend: str, types: tuple[str, ...]) -> None:
    values = tuple(integers(f"x{n}", dtype, 2, 4) for n, dtype in enumerate(types))
    step = Step("subject", "aten.cat.default", (tuple(Ref(v.name) for v in values), 1))
    assert verdict(backend, "aten.cat.default", Graph(values, (step,), (Ref("subject"),))) == "accept"


@BACKENDS
@pytest.mark.parametrize("types", [("uint8", "int32"), ("int32", "uint8")])
@pytest.mark.parametrize("constant", [False, True])
def test_nothing_takes_uint8_whatever_it_gives(backend: str, types: tuple[str, str], constant: bool) -> None:
    values = (integers("x", types[0], 2, 4), integers("y", types[1], 2, 4, constant=constant))
    step = Step("subject", "aten.bitwise_left_shift.Tensor", (Ref("x"), Ref("y")))
    graph = Graph(values, (step,), (Ref("subject"),))
    assert verdict(backend, "aten.bitwise_left_shift.Tensor", graph) == "reject"


@pytest.mark.parametrize(("order", "fits"), [((0, 1, 2), True), (None, True), ((0, 1), False), ((), False)])
def test_an_order_is_one_of_all_dimensions(order: tuple[int, ...] | None, fits: bool) -> None:
    copy = Step("copy", "dim_order_ops._to_dim_order_copy.default", (Ref("x"),), (("dim_order", order),))
    with nullcontext() if fits else pytest.raises(NoProgram):
        application(Graph((integers("x", "int8", 2, 3, 4),), (copy,), (Ref("copy"),)), "copy")


def test_what_device_meta_takes_it_may_refuse_empty() -> None:
    for images in (1, 0):
        graph = program("aten.upsample_nearest2d.vec", None, (2.0, 2.0), shape=(images, 3, 6, 8), quant=Q)
        with nullcontext() if images else pytest.raises(NoProgram):
            application(graph, "subject")


@BACKENDS
@pytest.mark.parametrize("sizes", [((4,), (2, 3, 4), (1,)), ((1,), (3, 1), (2, 1, 4)), ((2, 1, 4), (4,), (3, 1))])
@pytest.mark.parametrize("dtype", ["int8", "int32", None])
def test_a_clamp_grows_with_each_of_its_limits(
    backend: str, sizes: tuple[tuple[int, ...], ...], dtype: str | None
) -> None:
    names = ("x", "low", "high")
    codes = (Value(name, size, Q, Fill(seed=n)) for n, (name, size) in enumerate(zip(names, sizes, strict=True)))
    plain = (integers(name, dtype or "", *size) for name, size in zip(names, sizes, strict=True))
    step = Step("subject", "aten.clamp.Tensor", tuple(map(Ref, names)), (), Q if dtype is None else None)
    graph = Graph(tuple(codes if dtype is None else plain), (step,), (Ref("subject"),))
    assert verdict(backend, "aten.clamp.Tensor", graph) == "accept"


@pytest.mark.parametrize(
    "factors", [(0.7, 2 / 3), (2 / 3, 0.4), (1.6, 2.4), (0.06, 0.0625), (2.5, 1.0), (1 / 3, 1 / 3)]
)
@pytest.mark.parametrize("size", [(17, 16), (3, 5), (32, 32), (48, 24)])
@pytest.mark.parametrize("corners", [False, True])
def test_pixels_are_read_by_the_factor(factors: tuple[float, float], size: tuple[int, int], corners: bool) -> None:
    row = "aten.upsample_bilinear2d.vec"
    graph = program(row, None, corners, factors, shape=(1, 2, *size), quant=Q)
    if all(int(n * factor) > 0 for n, factor in zip(size, factors, strict=True)):
        refused = 0.06 in factors or (corners and 0.0625 in factors)
        assert verdict("ethos-u85", row, graph) == ("reject" if refused else "accept")


@BACKENDS
@pytest.mark.parametrize("op", ["asinh", "sinh", "sigmoid", "tanh", "erf"])
@pytest.mark.parametrize("ends", [(-20, 20), (-3, 32767), (-32768, 500)])
def test_a_narrow_range_cuts_off_straight_lines(backend: str, op: str, ends: tuple[int, int]) -> None:
    x, y = (Quant(scale, 0, low, high, dtype="int16") for scale, low, high in ((2e-4, -32767, 32767), (1e-3, *ends)))
    values = (Value("x", (1, 700), x, Fill(seed=4)),)
    step = Step("subject", f"aten.{op}.default", (Ref("x"),), (), y)
    assert verdict(backend, step.op, Graph(values, (step,), (Ref("subject"),))) == "accept"


@BACKENDS
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(("dilation", "size"), [((13, 3), (12, 7)), ((1, 7), (12, 6)), ((5, 8), (4, 7))])
def test_the_largest_of_padding_alone_is_the_lowest_code(
    backend: str, dtype: str, dilation: tuple[int, int], size: tuple[int, int]
) -> None:
    quant = Q if dtype == "int8" else Quant(2e-4, 0, -32767, 32767, dtype="int16")
    row = "aten.max_pool2d.default"
    graph = program(row, (2, 2), (1, 1), (1, 1), dilation, shape=(1, 3, *size), quant=quant)
    assert verdict(backend, row, graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("dtype", ["int32", "int16", None])
@pytest.mark.parametrize("op", ["remainder.Tensor", "pow.Tensor_Tensor"])
def test_the_number_of_a_table_may_have_any_type(backend: str, dtype: str | None, op: str) -> None:
    ends = {"int32": 2**31 - 1, "int16": 2**15 - 1}
    quant = None if dtype is None else Quant(0.05, 0, -ends[dtype], ends[dtype], dtype=dtype)
    y = Value("y", (1,), quant, Fill("list", values=(2 if dtype is None else 40,)), constant=True, dtype="float32")
    graph = program(f"aten.{op}", Ref("y"), shape=(2, 7), quant=Q, more=(replace(y, dtype=dtype or "int8"),))
    assert verdict(backend, f"aten.{op}", graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("row", ["aten.constant_pad_nd.default", "aten.pad.default"])
@pytest.mark.parametrize("number", [-1000.0, 7.0, math.inf, -math.inf])
@pytest.mark.parametrize(
    "ends", [(Q, replace(Q, scale=20.0)), (replace(Q, qmin=-20, qmax=20), Q)], ids=["wide", "narrow"]
)
def test_a_number_beyond_the_operand_is_one_of_the_result(
    backend: str, row: str, number: float, ends: tuple[Quant, Quant]
) -> None:
    args = ((0, 1, 2, 0), number) if "constant" in row else ((0, 1, 2, 0), "constant", number)
    x = Value("x", (1, 2, 4, 5), ends[0], Fill(seed=1))
    graph = Graph((x,), (Step("subject", row, (Ref("x"), *args), (), ends[1]),), (Ref("subject"),))
    assert verdict(backend, row, graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("other", [1e-38, -1e-38, 1.2e-38, 0.3, -7.0])
def test_a_remainder_of_what_float32_cannot_divide_is_open(backend: str, other: float) -> None:
    graph = program("aten.remainder.Scalar", other, shape=(3, 40), quant=Q)
    assert verdict(backend, "aten.remainder.Scalar", graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("ends", [(0.0, math.nan), (math.nan, 6.0), (2.0, -1.0)])
@pytest.mark.parametrize("row", ["aten.hardtanh.default", "aten.clamp.default"])
def test_limits_may_be_no_numbers_or_crossed(backend: str, ends: tuple[float, float], row: str) -> None:
    graph = program(row, *ends, shape=(2, 40), quant=Q)
    assert verdict(backend, row, graph) == "accept"


@BACKENDS
@pytest.mark.parametrize("limits", [(1e-38, 1.0), (0.5, 5.5), (-2.5, 2.5), (-0.9, 3.2)])
def test_hardtanh_of_integers_has_its_limits_cut_off(backend: str, limits: tuple[float, float]) -> None:
    x = Value("x", (2, 4), None, Fill("list", values=(-9, -2, -1, 0, 1, 2, 3, 9)), dtype="int32")
    step = Step("subject", "aten.hardtanh.default", (Ref("x"), *limits))
    assert verdict(backend, "aten.hardtanh.default", Graph((x,), (step,), (Ref("subject"),))) == "accept"
