"""The simulated device equals the XNNPACK library of the executorch wheel, operator by operator.

0 differing outputs, but for the operators of `apart.APART`, which stay within what is stated there. The library
picks its kernels by processor: these are the numbers of x86 with AVX-512 and VNNI. Where the processor computes in
float16, sums of float16 products stay within `half_arithmetic.bound`; where it has no AVX-512, or no VNNI, what differs
stays within what `narrow` states.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from npu_assay.partitioners.xnnpack.runtime import load_model
from npu_assay.reference.operators.home import Accuracy
from tests.crosscheck.executorch import half_arithmetic, library, narrow, subgraphs
from tests.crosscheck.executorch.apart import APART, near
from tests.crosscheck.executorch.subgraphs import Array, Draw, Program

COUNT = 40

EXACT: dict[str, Callable[[Draw], Program]] = {
    **{f"{op} codes": subgraphs.codes_binary(op) for op in ("Add", "Multiply", "Subtract")},
    "Clamp codes": subgraphs.codes_clamp,
    "FullyConnected codes": subgraphs.codes_linear,
    "GlobalAvgPooling2d codes": subgraphs.codes_mean,
    "MaxPooling2d codes": subgraphs.pool("MaxPooling2d", "qint8"),
    **{
        f"{op} codes": subgraphs.codes_convolution(op)
        for op in ("Conv2d", "ConvTranspose2d", "DepthwiseConv2d")
    },
    **{f"FullyConnected dynamic {kind}": subgraphs.dynamic_linear(kind) for kind in ("qcint8", "qcint4", "qbint4")},
    **{f"{op} dynamic": subgraphs.dynamic_convolution(op) for op in ("Conv2d", "ConvTranspose2d")},
    **{f"Convert {a} {b}": subgraphs.conversion(a, b) for a, b in (
        ("fp32", "qint8"), ("fp16", "qint8"), ("qint8", "fp32"), ("qint8", "fp16"),
    )},
}  # fmt: skip
for _dtype in ("fp32", "fp16"):
    EXACT |= {
        **{f"{op} {_dtype}": subgraphs.real_unary(op, _dtype) for op in (
            "Abs", "Ceiling", "Clamp", "Floor", "Negate", "Square",
        )},
        f"LeakyReLU {_dtype}": subgraphs.real_unary("LeakyReLU", _dtype, negative_slope=0.01),
        **{f"{op} {_dtype}": subgraphs.real_binary(op, _dtype) for op in (
            "Add", "Div", "Maximum", "Minimum", "Multiply", "PReLU", "Subtract",
        )},
        f"FullyConnected {_dtype}": subgraphs.real_linear(_dtype),
        f"BatchMatrixMultiply {_dtype}": subgraphs.real_matmul(_dtype),
        **{f"{op} {_dtype}": subgraphs.real_convolution(op, _dtype) for op in (
            "Conv2d", "ConvTranspose2d", "DepthwiseConv2d",
        )},
        f"AvgPooling2d {_dtype}": subgraphs.pool("AvgPooling2d", _dtype),
        f"MaxPooling2d {_dtype}": subgraphs.pool("MaxPooling2d", _dtype),
        f"GlobalAvgPooling2d {_dtype}": subgraphs.real_mean(_dtype),
        f"StaticResizeBilinear2D {_dtype}": subgraphs.resize(_dtype),
    }  # fmt: skip

FUNCTIONS = {
    "Cos": "aten.cos.default",
    "ELU": "aten.elu.default",
    "Exp": "aten.exp.default",
    "Gelu": "aten.gelu.default",
    "Hardswish": "aten.hardswish.default",
    "Log": "aten.log.default",
    "ReciprocalSquareRoot": "aten.rsqrt.default",
    "Sigmoid": "aten.sigmoid.default",
    "Sin": "aten.sin.default",
    "Softmax": "aten._softmax.default",
    "SquareRoot": "aten.sqrt.default",
    "Tanh": "aten.tanh.default",
}


def results(program: Program) -> tuple[Array, Array]:
    """(found by the device, expected by the library)."""
    (expected,) = library.run(program.model, *program.inputs)
    (found,) = load_model(program.model).run([torch.from_numpy(array) for array in program.inputs])
    assert found.shape == expected.shape
    return found.numpy(), expected


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", EXACT)
def test_no_output_differs(name: str) -> None:
    bound = bounds(name)
    for seed in range(COUNT):
        program = EXACT[name](Draw(seed))
        found, expected = results(program)
        if bound is not None:
            assert near(found, expected, bound(program)).all(), f"seed {seed}"
        else:
            assert np.array_equal(found, expected, equal_nan=found.dtype != np.int8), f"seed {seed}"


def bounds(name: str) -> Callable[[Program], Array] | None:
    """How far the outputs of a program may be on the processor of this run; None where none may differ."""
    if half_arithmetic.NATIVE and name in {f"{op} fp16" for op in half_arithmetic.SUMS}:
        return half_arithmetic.bound
    return narrow.bound if narrow.OTHER_ORDER and name == "FullyConnected dynamic qbint4" else None


@pytest.mark.parametrize("op", half_arithmetic.SUMS)
def test_the_bound_of_sums_tells_another_sum(op: str) -> None:
    """It has a meaning on every processor: one filter, or matrix, twice as large as it should be is seen."""
    program = EXACT[f"{op} fp16"](Draw(1))
    found, _ = results(program)
    assert near(found, found, half_arithmetic.bound(program)).all()
    assert not near(found, 2 * found, half_arithmetic.bound(program)).all()


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_are_as_near_as_stated(op: str, dtype: str) -> None:
    options = {"alpha": 0.7} if op == "ELU" else {}
    kind = {"fp32": torch.float32, "fp16": torch.float16}[dtype]
    stated = APART[kind].get(FUNCTIONS[op], Accuracy())
    native = half_arithmetic.NATIVE and (op, dtype) == ("Exp", "fp16")
    stated = half_arithmetic.EXP if native else stated
    distance = torch.finfo(kind).eps
    for seed in range(COUNT):
        program = subgraphs.real_unary(op, dtype, **options)(Draw(seed))
        found, expected = results(program)
        found = half_arithmetic.exp(program.inputs[0], found) if native else found
        differs = found != expected
        a, b = found[differs].astype(np.float64), expected[differs].astype(np.float64)
        excess = np.abs(a - b) - np.abs(b) * stated.ulps * distance - stated.absolute
        assert not bool((excess > 0).any()), f"seed {seed}: {float(excess.max())} too far"


def test_a_changed_code_would_be_seen() -> None:
    found, expected = results(EXACT["Add codes"](Draw(1)))
    assert not np.array_equal(found ^ 1, expected)
