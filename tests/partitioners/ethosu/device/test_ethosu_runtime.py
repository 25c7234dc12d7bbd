"""The simulated Ethos-U: what it refuses, what it fuses, and what it knows of numbers before it runs."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from draw import Draw
from tosa_building import Building, Program
from tosa_programs import PROGRAMS

from npu_assay.partitioners.common.machine import DeviceError, UnpredictableError
from npu_assay.partitioners.ethosu.device.operators import of_result
from npu_assay.partitioners.ethosu.device.site import Site
from npu_assay.partitioners.ethosu.device.spans import of_tensor
from npu_assay.partitioners.ethosu.runtime import EthosURuntime, load_model, site_of
from npu_assay.partitioners.ethosu.tosa_format import FormatError, write
from npu_assay.partitioners.ethosu.tosa_model import TModel, TShape, TTensor

WINDOW: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1)}
RESCALE: dict[str, Any] = {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": False}


def _run(program: Program) -> list[torch.Tensor]:
    runtime = EthosURuntime()
    return runtime.execute(runtime.load(write(program.model)), [torch.from_numpy(x.copy()) for x in program.inputs])


def _conv(
    x: np.ndarray[Any, Any], weights: np.ndarray[Any, Any], bias: int, computed: Sequence[str] = (), wide: bool = False
) -> tuple[Building, str]:
    """A 1x1 convolution of one pixel, and the name of its accumulators. wide: codes of 16 bits."""
    b, (codes, sums) = Building(), ("INT16", "INT48") if wide else ("INT8", "INT32")
    image = b.input(x.reshape(1, 1, 1, -1), codes)
    w = (b.input if "weights" in computed else b.constant)(weights.reshape(-1, 1, 1, x.size), "INT8")
    added = (b.input if "bias" in computed else b.constant)(np.array([bias]), sums)
    zeros = (b.constant([0], codes), b.constant([0], "INT8"))
    acc = b.apply("CONV2D", image, w, added, *zeros, pad=(0, 0, 0, 0), acc_type=sums, **WINDOW)
    return b, acc


def _rescaled(b: Building, acc: str, wide: bool = False) -> str:
    factor = ([1 << 14], "INT16") if wide else ([1 << 30], "INT32")
    constants = [factor, ([15 if wide else 31], "INT8"), ([0], "INT48" if wide else "INT32"), ([3], "INT8")]
    options = {**RESCALE, "scale32": not wide}
    return b.apply("RESCALE", acc, *(b.constant(v, t) for v, t in constants), target="INT8", **options)


X, W = np.array([3, -5, 7]), np.array([[1, 2, -3], [4, 0, 1]])


def test_a_product_and_its_rescale_are_one_call_unless_more_is_asked_of_the_accumulators() -> None:
    b, acc = _conv(X, W, 100)
    y = _rescaled(b, acc)
    fused, both, other = b.program(y), b.program(y, acc), b.program(y)
    assert len(load_model(fused.model).calls) == 1
    assert len(load_model(both.model).calls) == 2
    expected = W @ X + 100
    codes = [((int(v) + 1) >> 1) + 3 for v in expected]
    assert _run(fused)[0].flatten().tolist() == codes
    first, second = _run(both)
    assert (first.flatten().tolist(), second.flatten().tolist()) == (codes, expected.tolist())
    double = b.apply("ADD", acc, acc)
    other = b.program(y, double)
    assert len(load_model(other.model).calls) == 3
    assert _run(other)[1].flatten().tolist() == (2 * expected).tolist()


@pytest.mark.parametrize("computed", [("weights",), ("bias",), ("weights", "bias")])
def test_weights_and_bias_may_be_computed(computed: Sequence[str]) -> None:
    found = [_conv(X, W, 100, of) for of in ((), computed)]
    (one,), (other,) = (_run(b.program(_rescaled(b, acc))) for b, acc in found)
    assert torch.equal(one, other)


def test_what_is_undefined_names_its_operator() -> None:
    b = Building()
    x = b.input(np.array([2**31 - 1]), "INT32")
    program = b.program(b.apply("ADD", b.apply("SUB", x, b.constant([0], "INT32")), b.constant([1], "INT32")))
    with pytest.raises(UnpredictableError, match="operator 1 ADD: ADD result is past 32 bits"):
        _run(program)


@pytest.mark.parametrize(("wide", "most"), [(False, 2**31), (True, 2**47)])
def test_accumulators_have_32_bits_or_48(wide: bool, most: int) -> None:
    """The largest one is refused by what rescales it alone."""
    for bias, message in ((most - 1, f"accumulator is {most}"), (most - 2, "RESCALE ")):
        b, acc = _conv(np.array([1]), np.array([[1]]), bias, wide=wide)
        with pytest.raises(UnpredictableError, match=f"operator 0 CONV2D: {message}"):
            _run(b.program(_rescaled(b, acc, wide)))


def test_inputs_stay_and_outputs_are_fresh() -> None:
    b = Building()
    x = b.input(np.arange(6).reshape(2, 3), "INT8")
    y = b.apply("RESHAPE", b.apply("IDENTITY", x), b.shape([6]))
    program = load_model(b.program(y, x).model)
    given = torch.arange(6, dtype=torch.int8).view(2, 3)
    for _ in range(2):
        moved, same = program.run([given])
        moved.zero_()
        same.zero_()
        assert given.flatten().tolist() == list(range(6))


def test_constants_may_be_outputs() -> None:
    b = Building()
    program = load_model(b.program(b.constant([1, 2], "INT16")).model)
    program.run([])[0].zero_()
    assert program.run([])[0].tolist() == [1, 2]


def test_a_graph_that_would_compute_for_long_is_refused() -> None:
    b = Building()
    x, y = (b.input(np.zeros((1, 2**12, 2**12)), "INT8") for _ in range(2))
    zero = b.constant([0], "INT8")
    long = b.program(b.apply("MATMUL", x, y, zero, zero)).model
    with pytest.raises(DeviceError, match="multiplications of all operators is 68719476736, expected at most 343597"):
        load_model(long)


def test_graphs_that_do_not_fit_the_device_are_refused() -> None:
    b = Building()
    x = b.input(np.zeros((1, 1, 1, 1)), "INT8")
    huge = b.program(b.apply("TILE", x, b.shape([1, 2**9, 2**9, 2**9]))).model
    with pytest.raises(DeviceError, match="number of elements of all tensors is 134217729, expected at most 67108864"):
        load_model(huge)
    wide, padded = Building(), Building()
    image = wide.input(np.zeros((1, 1, 1, 1)), "INT16")
    scaled = wide.apply(
        "RESIZE", image, wide.shape([1, 1, 1, 1]), wide.shape([0, 0]), wide.shape([0, 0]), mode="BILINEAR"
    )
    with pytest.raises(DeviceError, match=f"tensor '{scaled}': type of an argument is INT48"):
        load_model(wide.program(scaled).model)
    image = padded.input(np.zeros((1, 1, 1, 2)), "INT8")
    window: dict[str, Any] = {"kernel": (4000, 4000), "stride": (3999, 3999), "pad": (3999,) * 4}
    with pytest.raises(DeviceError, match="operator 0 MAX_POOL2D: elements to gather is 127968002"):
        load_model(padded.program(padded.apply("MAX_POOL2D", image, **window)).model)


def test_a_checked_graph_is_asked_for() -> None:
    b = Building()
    model = b.program(b.apply("ABS", b.input(np.zeros(2), "INT32"))).model
    with pytest.raises(FormatError, match=r"output is .*, expected defined by an operator"):
        load_model(replace(model, operators=()))


# ------------------------------------------------------------------------------------------------ spans


def _spans(model: TModel) -> dict[str, tuple[int, int]]:
    """The span of every tensor."""
    records: tuple[TTensor | TShape, ...] = (*model.tensors, *model.shapes)
    named = {each.name: each for each in records}
    known = {tensor.name: of_tensor(tensor) for tensor in model.tensors}
    for operator in model.operators:
        site: Site = site_of(operator, named, known, operator.code)
        known[operator.outputs[0]] = of_result(site)
    return known


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_no_result_is_outside_its_span(name: str) -> None:
    for seed in range(12):
        program = PROGRAMS[name](Draw(zlib.crc32(name.encode()) + seed))
        spans = _spans(program.model)
        try:
            outputs = _run(program)
        except UnpredictableError:
            continue
        for output, argument in zip(outputs, program.model.outputs, strict=True):
            low, high = spans[argument]
            assert low <= int(output.min()) <= int(output.max()) <= high


def test_sums_of_rescaled_codes_need_no_checks() -> None:
    """The span of codes goes through rescales, sums and products."""
    b = Building()
    x = b.input(np.zeros((2, 3)), "INT8")
    constants = [([1 << 30], "INT32"), ([11], "INT8"), ([5], "INT8"), ([0], "INT32")]
    wide = b.apply("RESCALE", x, *(b.constant(v, t) for v, t in constants), target="INT32", **RESCALE)
    total = b.apply("ADD", wide, wide)
    product = b.apply("MUL", x, x, b.constant([0], "INT8"))
    summed = b.apply("REDUCE_SUM", product, axis=1)
    spans = _spans(b.program(total, summed).model)
    assert spans[wide] == (-133 << 19, 122 << 19)
    assert spans[total] == (-133 << 20, 122 << 20)
    assert spans[product] == (-128 * 127, 128 * 128)
    assert spans[summed] == (-3 * 128 * 127, 3 * 128 * 128)


# ------------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_runs_leave_nothing_behind_for_the_next_one(name: str) -> None:
    """Kernels keep their memory: runs on other numbers in between change neither results nor earlier outputs."""
    for seed in range(4):
        program = PROGRAMS[name](Draw(zlib.crc32(name.encode()) + seed))
        given = [torch.from_numpy(x.copy()) for x in program.inputs]
        others = [x.flip(list(range(x.dim()))) for x in given]
        handle = load_model(program.model)
        try:
            first = handle.run(given)
            expected = [y.clone() for y in first]
            between = handle.run(others)
            fresh = load_model(program.model).run(others)
            again = handle.run(given)
        except UnpredictableError:
            continue
        for y, e, a in zip(first, expected, again, strict=True):
            assert torch.equal(y, e) and torch.equal(a, e)
        assert all(torch.equal(a, b) for a, b in zip(between, fresh, strict=True))


def test_an_input_may_change_between_runs() -> None:
    """The same tensor with other numbers, and with other memory."""
    b, acc = _conv(X, W, 100)
    handle = load_model(b.program(_rescaled(b, acc)).model)
    x = torch.tensor(X, dtype=torch.int8).view(1, 1, 1, 3)
    before = handle.run([x])[0]
    x.neg_()
    changed = handle.run([x])[0]
    x.data = torch.tensor(X, dtype=torch.int8).view(1, 1, 1, 3)
    assert not torch.equal(before, changed)
    assert torch.equal(handle.run([x])[0], before)


def test_a_program_runs_in_several_threads() -> None:
    b, acc = _conv(X, W, 100)
    handle = load_model(b.program(_rescaled(b, acc)).model)
    images = [torch.tensor(X * k, dtype=torch.int8).view(1, 1, 1, 3) for k in range(-8, 9)] * 8
    expected = [handle.run([x])[0] for x in images]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: handle.run([x])[0], images))
    assert all(torch.equal(a, e) for a, e in zip(found, expected, strict=True))
