"""The simulated XNNPACK device on hand-written subgraphs: from bytes, with the shapes of the inputs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xnn_models import CONVOLUTION, X, Y, coded, codes, model, number, reals, unary
from xnn_models import dynamic as dynamic_product

from npu_assay.partitioners.common.machine import DeviceError, InputError
from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack import xnn_format, xnn_schema
from npu_assay.partitioners.xnnpack.device.operators import RULES
from npu_assay.partitioners.xnnpack.kernels import dynamic, elementwise, linear, pooling
from npu_assay.partitioners.xnnpack.runtime import XnnpackRuntime, load_model
from npu_assay.partitioners.xnnpack.xnn_model import ABSENT, PerChannel, PerGroup, PerToken, XModel, XNode, packed_int4
from npu_assay.reference.affine import Affine

RUNTIME = XnnpackRuntime()


def run(graph: XModel, *inputs: torch.Tensor) -> list[torch.Tensor]:
    return RUNTIME.execute(RUNTIME.load(xnn_format.write(graph)), inputs)


def test_the_device_has_every_operator_of_the_schema() -> None:
    assert set(RULES) == set(xnn_schema.OPERATORS)


def test_float_operators_in_both_precisions() -> None:
    x = reals(1, 2, 5)
    for dtype, torch_type in (("fp32", torch.float32), ("fp16", torch.float16)):
        given = x.to(torch_type)
        (found,) = run(unary("Abs", number(dtype, 2, 5), number(dtype, 2, 5)), given)
        assert torch.equal(found, given.abs())
        (found,) = run(unary("Tanh", number(dtype, 2, 5), number(dtype, 2, 5)), given)
        assert found.dtype == torch_type and torch.allclose(found, given.tanh(), atol=1e-3)


def test_a_sum_of_codes_with_a_fused_relu() -> None:
    a, b = codes(1, 4, 6), codes(2, 6)
    values = [coded(X, 4, 6), coded(X, 6), coded(Y, 4, 6)]
    graph = model(values, [XNode("Add", (0, 1), (2,), limits=(0.0, float("inf")))], (0, 1), (2,))
    assert torch.equal(run(graph, a, b)[0], elementwise.add(X, X, Y, (Y.zero_point, 127))(a, b))


def test_activations_quantised_at_run_time_with_open_rows() -> None:
    weights, scales = codes(3, 5, 32), np.linspace(0.01, 0.05, 5, dtype=np.float32)
    value = number("qcint8", 5, 32, quant=PerChannel(scales, 0), data=weights.numpy())
    bias = reals(4, 5)
    program = RUNTIME.load(xnn_format.write(dynamic_product(value, number("fp32", 5, data=bias.numpy()), rows=8)))
    expected = dynamic.linear(weights, scales.tolist(), bias)
    for rows in (8, 3, 1):
        x = reals(rows, rows, 32)
        assert torch.equal(RUNTIME.execute(program, [x])[0], expected(x))


@pytest.mark.parametrize("is_constant", [True, False])
def test_products_of_bfloat16_with_float32_results(is_constant: bool) -> None:
    x, matrix = reals(7, 2, 4).bfloat16(), reals(8, 3, 4).bfloat16()
    weights = number("bf16", 3, 4, data=matrix.view(torch.uint16).numpy() if is_constant else None)
    node = XNode("FullyConnected", (0, 1, ABSENT), (2,))
    graph = model([number("bf16", 2, 4), weights, number("fp32", 2, 3)], [node], (0,) if is_constant else (0, 1), (2,))
    (found,) = run(graph, x) if is_constant else run(graph, x, matrix)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), x.double() @ matrix.double().t(), rtol=1e-6, atol=1e-6)


def test_groups_of_four_bit_weights() -> None:
    weights = torch.randint(-8, 8, (4, 64), generator=torch.Generator().manual_seed(5), dtype=torch.int8)
    scales = torch.tensor([[0.5, 0.25]] * 4)
    value = number("qbint4", 4, 64, quant=PerGroup(scales.numpy(), 32), data=packed_int4(weights.numpy()))
    x = reals(6, 8, 64)
    expected = dynamic.groupwise_linear(weights, scales, None)(x)
    assert torch.equal(run(dynamic_product(value, rows=8), x)[0], expected)


def test_a_network_of_codes_with_open_batch_and_sides() -> None:
    """Convolution, pool, mean: every shape follows from the input's."""
    weights = codes(7, 4, 3, 3, 3)
    pool = {f"padding_{side}": 0 for side in ("top", "right", "bottom", "left")}
    pool |= {"pooling_height": 2, "pooling_width": 2, "stride_height": 2, "stride_width": 2}
    pool |= {"dilation_height": 1, "dilation_width": 1}
    filters = number("qcint8", 4, 3, 3, 3, quant=PerChannel(np.full(4, 0.01, np.float32), 0), data=weights.numpy())
    values = [coded(X, 2, 8, 8, 3), filters, coded(Y, 2, 4, 8, 4), coded(Y, 2, 2, 4, 4), coded(Y, 2, 1, 1, 4)]
    nodes = [
        XNode("Conv2d", (0, 1, -1), (2,), CONVOLUTION),
        XNode("MaxPooling2d", (2,), (3,), pool),
        XNode("GlobalAvgPooling2d", (3,), (4,), flags=0x40),
    ]
    program = RUNTIME.load(xnn_format.write(model(values, nodes, (0,), (4,))))
    convolution = linear.conv2d(weights, None, X, [0.01] * 4, Y, (2, 1), (1, 1), ((1, 1), (1, 1)))
    pooled, mean = pooling.max_pool2d((2, 2), (2, 2)), pooling.mean(Y, Y)
    for shape in ((2, 8, 8, 3), (1, 8, 8, 3), (2, 5, 6, 3)):
        x = codes(8, *shape)
        assert torch.equal(RUNTIME.execute(program, [x])[0], mean(pooled(convolution(x))))
    with pytest.raises(InputError, match=r"shapes \[\[1, 1, 1, 3\]\].*padded height"):
        RUNTIME.execute(program, [codes(9, 1, 1, 1, 3)])


def _damaged() -> bytes:
    scales = PerChannel(np.full(4, 0.01, np.float32), 0)
    weights = number("qcint8", 4, 3, 3, 3, quant=scales, data=codes(1, 4, 3, 3, 3).numpy())
    values = [coded(X, 1, 4, 4, 3), weights, coded(Y, 1, 2, 4, 4)]
    return xnn_format.write(model(values, [XNode("Conv2d", (0, 1, -1), (2,), CONVOLUTION)], (0,), (2,)))


DAMAGED = _damaged()


def test_float_convolution_agrees_with_torch() -> None:
    x, weights, bias = reals(10, 1, 6, 5, 3), reals(11, 4, 3, 3, 3), reals(12, 4)
    values = [number("fp32", 1, 6, 5, 3), number("fp32", 4, 3, 3, 3, data=weights.numpy())]
    values += [number("fp32", 1, 3, 5, 4), number("fp32", 4, data=bias.numpy())]
    graph = model(values, [XNode("Conv2d", (0, 1, 3), (2,), CONVOLUTION)], (0,), (2,))
    real = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), weights.permute(0, 3, 1, 2), bias, (2, 1), 1)
    assert torch.allclose(run(graph, x)[0], real.permute(0, 2, 3, 1), atol=1e-5)


def test_data_movement() -> None:
    x = codes(13, 2, 3, 4)
    moved = unary("StaticTranspose", coded(X, 2, 3, 4), coded(X, 4, 2, 3), perm=(2, 0, 1))
    assert torch.equal(run(moved, x)[0], x.permute(2, 0, 1))
    reshaped = unary("StaticReshape", coded(X, 2, 3, 4), coded(X, 2, 12), new_shape=(0, 12))
    assert torch.equal(run(reshaped, x[:1])[0], x[:1].reshape(1, 12))
    cut = unary("StaticSlice", coded(X, 2, 3, 4), coded(X, 1, 2, 4), offsets=(1, 0, 0), sizes=(1, 2, 4))
    assert torch.equal(run(cut, x)[0], x[1:, :2])
    options: dict[str, Any] = {"pre_paddings": (0, 1, 0), "post_paddings": (0, 0, 2), "padding_value": 0.5}
    padded = run(unary("StaticConstantPad", coded(X, 2, 3, 4), coded(X, 2, 4, 6), **options), x)[0]
    assert torch.equal(padded, torch.nn.functional.pad(x, (0, 2, 1, 0), value=13))


def test_channels_last_arguments() -> None:
    graph = unary("Abs", number("fp32", 1, 2, 3, 4), number("fp32", 1, 2, 3, 4))
    x = reals(14, 1, 4, 2, 3).contiguous(memory_format=torch.channels_last)
    (found,) = run(replace(graph, channels_last=(0, 1)), x)
    assert torch.equal(found, x.abs()) and found.is_contiguous(memory_format=torch.channels_last)


def test_weights_that_are_an_argument() -> None:
    values = [number("fp32", 2, 5), number("fp32", 3, 5), number("fp32", 2, 3)]
    graph = model(values, [XNode("FullyConnected", (0, 1, -1), (2,))], (0, 1), (2,))
    x, weights = reals(15, 2, 5), reals(16, 3, 5)
    assert torch.allclose(run(graph, x, weights)[0], x @ weights.T, atol=1e-6)


def test_inputs_and_outputs_are_not_shared() -> None:
    x = reals(17, 3)
    kept = x.clone()
    (found,) = run(unary("Copy", number("fp32", 3), number("fp32", 3)), x)
    found.zero_()
    assert torch.equal(x, kept)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "device inputs: found 0, expected 1"),
        ((torch.zeros(2, 5, dtype=torch.float64),), r"found torch.float64 \[2, 5\], expected torch.float32"),
        ((torch.zeros(5),), r"found torch.float32 \[5\], expected torch.float32 of rank 2, sizes 1 or more"),
        ((torch.zeros(0, 5),), "sizes 1 or more"),
    ],
)
def test_inputs_that_do_not_fit(inputs: tuple[torch.Tensor, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(unary("Abs", number("fp32", 2, 5), number("fp32", 2, 5)), *inputs)


def test_a_number_without_dimensions_is_one_and_several_are_not() -> None:
    scalar = replace(unary("Abs", number("fp32", 1), number("fp32", 1)), scalars=(0, 1))
    assert torch.equal(run(scalar, torch.tensor(-2.0))[0], torch.tensor(2.0))
    with pytest.raises(InputError, match=r"found torch.float32 \[1, 3\], expected torch.float32 of rank 1"):
        run(scalar, torch.zeros(1, 3))


def test_a_clamp_between_infinities_keeps_its_operand() -> None:
    x = torch.tensor([[-1e30, 2.0, math.inf]])
    clamp = XNode("Clamp", (0,), (1,), limits=(-math.inf, math.inf))
    (found,) = run(model([number("fp32", 1, 3)] * 2, [clamp], (0,), (1,)), x)
    assert torch.equal(found, x)
    given = codes(1, 2, 5)
    assert torch.equal(run(model([coded(X, 2, 5)] * 2, [clamp], (0,), (1,)), given)[0], given)


def test_a_kernel_that_the_device_does_not_have_is_named() -> None:
    values = [coded(Affine(1e-5, 0), 4), coded(Affine(1e-5, 0), 4), coded(Affine(1.0, 0), 4)]
    with pytest.raises(DeviceError, match=r"node 0 Add.*ratio of a sum"):
        load_model(model(values, [XNode("Add", (0, 1), (2,))], (0, 1), (2,)))


def test_rows_of_another_extent_are_refused() -> None:
    weights = number("qcint8", 5, 32, quant=PerChannel(np.ones(5, np.float32), 0), data=codes(1, 5, 32).numpy())
    graph = dynamic_product(weights)
    wide = replace(graph.values[2], quant=PerToken(2))
    with pytest.raises(DeviceError, match="nonbatch_dims"):
        load_model(replace(graph, values=(*graph.values[:2], wide, graph.values[3])))


def test_more_memory_than_the_device_has() -> None:
    with pytest.raises(DeviceError, match="elements of all values"):
        load_model(unary("Abs", number("fp32", 2**14, 2**13), number("fp32", 2**14, 2**13)))


@settings(max_examples=1500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_blobs_load_or_are_refused(changes: list[tuple[int, int]]) -> None:
    blob = bytearray(DAMAGED)
    for place, byte in changes:
        blob[place % len(blob)] = byte
    try:
        program = RUNTIME.load(bytes(blob))
    except FormatError:
        return
    assert program.calls


def test_bytes_that_are_no_blob() -> None:
    with pytest.raises(FormatError):
        RUNTIME.load(b"not a blob at all, but long enough for a header")
