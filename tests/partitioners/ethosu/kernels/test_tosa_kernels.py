"""The kernels of `npu_assay.partitioners.ethosu.kernels` against TOSA's formulas in whole numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.buffers import Buffers, Place
from npu_assay.partitioners.ethosu.kernels import (
    Codes,
    Unpredictable,
    codes,
    elementwise,
    layout,
    linear,
    pooling,
    resize,
    scale,
)
from npu_assay.partitioners.ethosu.kernels.numbers import require_within
from npu_assay.partitioners.ethosu.kernels.rescale import rescale, rounded

INT32 = (-(2**31), 2**31 - 1)
EVERY = torch.arange(-128, 128, dtype=torch.int8)


def whole(value: int, multiplier: int, shift: int, y: Codes) -> int:
    """One RESCALE in Python's integers, ties towards plus infinity."""
    return min(max(((value * multiplier + (1 << (shift - 1))) >> shift) + y.zero_point, y.low), y.high)


# ------------------------------------------------------------------------------------------------ rescale

MULTIPLIERS = [
    (1 << 30, 30),
    (1 << 30, 31),
    ((1 << 31) - 1, 38),
    (1518500250, 43),
    (1518500250, 44),
    (3, 8),
    (1 << 30, 56),
    (1 << 30, 62),
]


@pytest.mark.parametrize(
    ("target", "zero_point"), [("INT8", 7), ("INT8", 127), ("INT8", -128), ("INT16", 7), ("INT32", 0)]
)
@pytest.mark.parametrize(("multiplier", "shift"), MULTIPLIERS)
@pytest.mark.parametrize("bound", [100, 2**20, 2**31])
def test_rescale_is_the_formula_for_all_ways_to_compute_it(
    target: str, zero_point: int, multiplier: int, shift: int, bound: int
) -> None:
    """Small bounds take float64, large ones 64-bit integers; accumulators on ties and next to them."""
    y = codes(target, zero_point)
    reach = min(bound, 1 << (shift - 1)) - 1
    ties = [(((2 * k + 1) << (shift - 1)) // multiplier) + d for k in range(-300, 300, 7) for d in (-1, 0, 1)]
    values = [v for v in (*ties, *range(-50, 50), -reach, reach) if abs(v) <= reach]
    expected = [whole(v, multiplier, shift, y) for v in values]
    finish = rescale([multiplier], [shift], codes("INT32"), y, bound=bound)
    for numbers in (torch.tensor(values, dtype=torch.int32), torch.tensor(values, dtype=torch.float64)):
        assert finish(numbers).tolist() == expected


@pytest.mark.parametrize(("target", "shift"), [(t, s) for t in ("INT8", "INT16") for s in (30, *range(35, 48))])
@pytest.mark.parametrize("multiplier", [3, 7, 101])
@pytest.mark.parametrize("is_kept", [False, True])
def test_sums_as_near_to_a_tie_as_whole_numbers_come(target: str, shift: int, multiplier: int, is_kept: bool) -> None:
    """Float64 is taken as long as that is exact; memory that is kept moves numbers up by what the type holds."""
    y, unit, inverse = codes(target), 1 << shift, pow(multiplier, -1, 1 << shift)
    bound = (2**53 - unit // 2) // multiplier
    near = [(unit // 2 + k * unit + short) * inverse % unit for k in range(200) for short in (-2, -1, 0, 1)]
    values = [sign * (value + unit * more) for value in near for more in (0, 1) for sign in (1, -1)]
    values = [value for value in values if abs(value) <= bound]
    place = Place(Buffers(), (len(values),), (len(values),)) if is_kept else None
    finish = rescale([multiplier], [shift], codes("INT32"), y, scale32=False, bound=bound, place=place)
    assert len(values) > 0
    assert finish(torch.tensor(values, dtype=torch.float64)).tolist() == [
        whole(value, multiplier, shift, y) for value in values
    ]


def test_one_multiplier_per_last_index() -> None:
    pairs = [scale(r) for r in (0.5, 1.0, 0.003)]
    y = codes("INT8", -3)
    x = torch.tensor([[5, -5, 1000], [3, -3, -1500]], dtype=torch.int32)
    multipliers, shifts = zip(*pairs, strict=True)
    found = rescale(list(multipliers), list(shifts), codes("INT32"), y)(x)
    assert found.tolist() == [[whole(int(v), *pair, y) for v, pair in zip(row, pairs, strict=True)] for row in x]


def test_unsigned_codes_are_stored_by_their_bits() -> None:
    as_signed = rescale([1 << 30], [30], codes("INT8", -128, unsigned=True), codes("INT8", 0))
    assert as_signed(EVERY).tolist() == [max(-128, min(127, (v % 256) - 128)) for v in range(-128, 128)]
    back = rescale([1 << 30], [30], codes("INT8", 0), codes("INT8", -128, unsigned=True))
    assert back(EVERY).tolist() == [v + 128 if v < 0 else v - 128 for v in range(-128, 128)]
    twice = rescale([1 << 30], [29], codes("INT8", 0), codes("INT8", -128, unsigned=True))
    assert [v % 256 for v in twice(EVERY).tolist()] == [min(max(2 * v + 128, 0), 255) for v in range(-128, 128)]
    wide = rescale([1 << 30], [30], codes("INT16", -(2**15), unsigned=True), codes("INT16"))
    assert wide(torch.tensor([0, -1, -(2**15)], dtype=torch.int16)).tolist() == [-(2**15), 2**15 - 1, 0]


@pytest.mark.parametrize(
    ("multiplier", "shift", "value", "zero_point", "scale32", "message"),
    [
        (1 << 30, 2, 2, 0, True, "RESCALE accumulator is 2"),
        (3, 8, -129, 0, True, "RESCALE accumulator is -129"),
        (32767, 14, INT32[1], 0, False, "RESCALE result is 4294836222"),
        (1 << 30, 30, INT32[1], 1, True, "RESCALE accumulator is 2147483647"),
        (1 << 14, 14, INT32[1], 1, False, "RESCALE result with its zero point is 2147483648"),
    ],
)
def test_what_tosa_leaves_undefined_is_refused(
    multiplier: int, shift: int, value: int, zero_point: int, scale32: bool, message: str
) -> None:
    finish = rescale([multiplier], [shift], codes("INT32"), codes("INT8", zero_point), scale32)
    with pytest.raises(Unpredictable, match=message):
        finish(torch.tensor([0, value], dtype=torch.int32))
    assert finish(torch.tensor([0], dtype=torch.int32)).tolist() == [zero_point]


def test_the_lowest_accumulator_of_a_shift_is_defined() -> None:
    finish = rescale([3], [8], codes("INT32"), codes("INT8"))
    assert finish(torch.tensor([-128, 127], dtype=torch.int32)).tolist() == [-1, 1]


@pytest.mark.parametrize("width", [16, 32])
def test_scales_keep_their_ratio(width: int) -> None:
    for ratio in (1.0, 2.0**-20, 0.7, 1e-5, 1234.5):
        multiplier, shift = scale(ratio, width)
        assert 2 ** (width - 2) <= multiplier < 2 ** (width - 1)
        assert abs(multiplier / 2**shift / ratio - 1) <= 2.0 ** (1 - width)
    with pytest.raises(ValueError, match=f"expected less than 2..{width - 3}"):
        scale(2.0 ** (width - 3), width)


# ------------------------------------------------------------------------------------------------ elementwise


def _int32(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(
    ("kernel", "a", "b"),
    [
        (elementwise.add, INT32[1], 1),
        (elementwise.add, INT32[0], -1),
        (elementwise.sub, INT32[0], 1),
        (elementwise.sub, 0, INT32[0]),
        (elementwise.mul(1), INT32[1], 3),
        (elementwise.intdiv, INT32[0], -1),
        (elementwise.intdiv, 5, 0),
        (elementwise.logical_left_shift, 1, 32),
        (elementwise.logical_right_shift, 1, -1),
        (elementwise.arithmetic_right_shift(True), 1, 32),
    ],
)
def test_overflows_are_refused(kernel: Callable[[Tensor, Tensor], Tensor], a: int, b: int) -> None:
    with pytest.raises(Unpredictable, match="expected"):
        kernel(_int32(0, a), _int32(1, b))


def test_lone_operands_that_overflow_are_refused() -> None:
    for kernel in (elementwise.abs_, elementwise.negate(codes("INT32"), codes("INT32")), layout.reduce_sum(0)):
        with pytest.raises(Unpredictable, match="expected"):
            kernel(_int32(INT32[0], INT32[0]))
    with pytest.raises(Unpredictable, match="partial sum"):  # the sum itself would fit
        layout.reduce_sum(0)(_int32(INT32[1], 1, -5))


def test_products_without_a_shift_keep_the_low_bits_and_with_one_round_half_up() -> None:
    a, b = _int32(INT32[1], -7, 7, 2**20), _int32(3, 3, 3, 2**20)
    assert elementwise.mul()(a, b).tolist() == [2147483645, -21, 21, 0]
    for shift in (1, 5, 31, 40, 62):
        for p, q in itertools.product((-7, 7, 2**20, -(2**31)), (1, -3, 4)):
            exact = (p * q + (1 << (shift - 1))) >> shift
            if INT32[0] <= exact <= INT32[1]:
                assert elementwise.mul(shift)(_int32(p), _int32(q)).tolist() == [exact]


def test_shifts_of_every_width() -> None:
    for dtype, bits in ((torch.int8, 8), (torch.int16, 16), (torch.int32, 32)):
        for value, amount in itertools.product((-5, 5, -(1 << (bits - 1))), range(bits)):
            a, b = torch.tensor([value], dtype=dtype), torch.tensor([amount], dtype=dtype)
            last = (value >> (amount - 1)) & 1 if amount else 0
            assert elementwise.logical_right_shift(a, b).tolist() == [_signed((value % (1 << bits)) >> amount, bits)]
            assert elementwise.logical_left_shift(a, b).tolist() == [_signed(value << amount, bits)]
            assert elementwise.arithmetic_right_shift(False)(a, b).tolist() == [value >> amount]
            assert elementwise.arithmetic_right_shift(True)(a, b).tolist() == [(value >> amount) + last]


def _signed(value: int, bits: int) -> int:
    low = value % (1 << bits)
    return low - (1 << bits) if low >> (bits - 1) else low


def test_tables() -> None:
    entries = torch.randint(-128, 128, (256,), generator=torch.Generator().manual_seed(1), dtype=torch.int8)
    assert torch.equal(elementwise.table8(entries)(EVERY), entries)
    line = torch.arange(513, dtype=torch.int16) - 256
    every = torch.arange(-(2**15), 2**15).to(torch.int16)
    assert torch.equal(elementwise.table16(line)(every), every.to(torch.int32))  # 128 a step, 7 fraction bits
    steep = torch.zeros(513, dtype=torch.int16)
    steep[300], steep[301] = -(2**15), 2**15 - 1
    kernel = elementwise.table16(steep)
    assert kernel(torch.zeros(1, dtype=torch.int16)).tolist() == [0]
    with pytest.raises(Unpredictable, match="slope of a TABLE is 65535"):
        kernel(torch.tensor([(300 - 256) * 128], dtype=torch.int16))


def test_leading_zeros() -> None:
    values = [0, 1, -1, INT32[1], INT32[0], *(1 << k for k in range(31))]
    assert elementwise.clz(_int32(*values)).tolist() == [32 - (v % 2**32).bit_length() for v in values]


# ------------------------------------------------------------------------------------------------ images


@pytest.mark.parametrize("zero_points", [(0, 0), (-128, -128), (5, -7)])
def test_averages_multiply_by_a_reciprocal(zero_points: tuple[int, int]) -> None:
    x, y = (codes("INT8", zero_point) for zero_point in zero_points)
    image = torch.randint(-128, 128, (1, 5, 6, 2), generator=torch.Generator().manual_seed(2), dtype=torch.int8)
    found = pooling.avg_pool2d((3, 2), (1, 1), x, y, ((1, 1), (0, 1)))(image)
    for row, column, channel in itertools.product(range(5), range(6), range(2)):
        part = image[0, max(0, row - 1) : row + 2, column : column + 2, channel].flatten().tolist()
        k = (len(part) - 1).bit_length()
        multiplier = ((2**30 + 1) << k) // len(part)
        total = sum(code - x.zero_point for code in part)
        assert int(found[0, row, column, channel]) == whole(total, multiplier, 30 + k, y)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (1073741825, 30)), (2, (1073741825, 31)), (3, (1431655766, 32)), (4, (1073741825, 32)), (5, (1717986920, 33))],
)
def test_reciprocals_have_as_many_bits_as_the_specification_says(count: int, expected: tuple[int, int]) -> None:
    """TOSA: k = 32 - the leading zeros of count - 1 in 32 bits; multiplier ((2**30 + 1) << k) / count, shift 30 + k."""
    assert pooling.reciprocal(count) == expected


def _resized(row: Sequence[int], n: int, d: int, offset: int, count: int) -> list[int]:
    result = []
    for place in range(count):
        first, fraction = divmod(place * d + offset, n)
        low, high = (row[min(max(i, 0), len(row) - 1)] for i in (first, first + 1))
        result.append(low * (n - fraction) + high * fraction)
    return result


def test_resizes_along_rows() -> None:
    row = [3, -100, 127, 50]
    for n, d, offset in ((4, 2, -1), (6, 2, -2), (3, 5, 2), (14, 6, 0)):
        count = ((len(row) - 1) * n - offset) // d + 1
        image = torch.tensor(row, dtype=torch.int8).view(1, 1, -1, 1)
        weights = resize.resize_bilinear((1, count), ((1, 1), 0), ((n, d), offset), torch.int32)(image)
        assert weights.flatten().tolist() == _resized(row, n, d, offset, count)
        nearest = resize.resize_nearest((1, count), ((1, 1), 0), ((n, d), offset))(image).flatten().tolist()
        places = [divmod(place * d + offset, n) for place in range(count)]
        assert nearest == [row[min(max(i + (2 * f >= n), 0), 3)] for i, f in places]


# ------------------------------------------------------------------------------------------------ products


def test_convolutions_subtract_both_zero_points_and_pad_with_nothing() -> None:
    generator = torch.Generator().manual_seed(3)
    x, bias = codes("INT8", 9), _int32(100, -5)
    image = torch.randint(-128, 128, (1, 4, 5, 3), generator=generator, dtype=torch.int8)
    weights = torch.randint(-128, 128, (2, 3, 2, 3), generator=generator, dtype=torch.int8)
    product = linear.conv2d(weights, bias, x, stride=(1, 2), padding=((1, 1), (0, 1)), weight_zero_point=-4)
    centred = torch.nn.functional.pad((image.long() - 9), (0, 0, 0, 1, 1, 1))
    for oy, ox, channel in itertools.product(range(4), range(3), range(2)):
        part = centred[0, oy : oy + 3, 2 * ox : 2 * ox + 2]
        expected = int((part * (weights[channel].long() + 4)).sum() + bias[channel])
        assert int(product.kernel(image)[0, oy, ox, channel]) == expected
        assert abs(expected) <= product.bound


@pytest.mark.parametrize("stride", list(itertools.product((1, 2), repeat=2)), ids=str)
@pytest.mark.parametrize("size", list(itertools.product((1, 2), repeat=2)), ids=str)
@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
@pytest.mark.parametrize("kept", [False, True])
def test_windows_and_strides_of_one_and_two(
    size: tuple[int, int], stride: tuple[int, int], dtype: str, kept: bool
) -> None:
    """Each way to take a convolution apart is another shortcut for some of them."""
    x, bias = codes(dtype, 9 if dtype == "INT8" else 0), _int32(100, -5)
    image = torch.arange(60).sub(30).view(1, 4, 5, 3).to(torch.int8 if dtype == "INT8" else torch.int16)
    weights = torch.arange(6 * size[0] * size[1]).sub(7).view(2, *size, 3).to(torch.int8)
    real = ((image.double() - x.zero_point).permute(0, 3, 1, 2), weights.double().permute(0, 3, 1, 2))
    expected = torch.nn.functional.conv2d(*real, bias.double(), stride).permute(0, 2, 3, 1)
    place = Place(Buffers(), tuple(image.shape), tuple(expected.shape)) if kept else None
    product = linear.conv2d(weights, bias, x, stride=stride, place=place)
    assert torch.equal(linear.integers(31, product.offset)(product.kernel(image)), expected.to(torch.int32))


def _of_one(kind: str, weights: Tensor, bias: Tensor) -> linear.Product:
    """The product of one code."""
    place, x = Place(Buffers(), (1, 1, 1, 1), (1, 1, 1, 1)), codes("INT8")
    if kind == "transposed":
        return linear.transpose_conv2d(weights, bias, (1, 1), x)
    if kind == "of volumes":
        return linear.conv3d(weights[None], bias, x)
    make = linear.depthwise_conv2d if "depthwise" in kind else linear.conv2d
    return make(weights, bias, x, place=place if "kept" in kind else None)


@pytest.mark.parametrize("kind", ["plain", "kept", "depthwise", "depthwise, kept", "transposed", "of volumes"])
def test_the_first_accumulator_that_leaves_its_type_is_refused(kind: str) -> None:
    """-1 times the lowest code is 128: its bound is the sum itself."""
    weights, lowest = torch.full((1, 1, 1, 1), -1, dtype=torch.int8), torch.full((1, 1, 1, 1), -128, dtype=torch.int8)
    volume = lowest[None] if kind == "of volumes" else lowest
    held = _of_one(kind, weights, _int32(INT32[1] - 128))
    assert linear.integers(31, held.offset)(held.kernel(volume)).flatten().tolist() == [INT32[1]]
    past = _of_one(kind, weights, _int32(INT32[1] - 127))
    with pytest.raises(Unpredictable, match="accumulator is 2147483648"):
        past.kernel(volume)


def test_accumulators_that_leave_their_type_are_refused() -> None:
    one = torch.ones(1, 1, 1, 1, dtype=torch.int8)
    product = linear.conv2d(one, _int32(INT32[1]), codes("INT8"))
    assert product.kernel(-one).tolist() == [[[[INT32[1] - 1]]]]
    with pytest.raises(Unpredictable, match="accumulator is 2147483648"):
        product.kernel(one)
    wide = linear.conv2d(one, torch.tensor([2**47 - 1]), codes("INT16"), bits=47)
    with pytest.raises(Unpredictable, match="accumulator is"):
        wide.kernel(one.to(torch.int16))


@pytest.mark.parametrize("x", [codes("INT8"), codes("INT16")], ids=["INT8", "INT16"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_a_bound_is_the_largest_accumulator(x: Codes, depthwise: bool) -> None:
    """Of the output whose weights and bias can make most of it."""
    weights = torch.tensor([[3, -4], [1, 1]], dtype=torch.int8)
    bias = torch.tensor([-1000, 2000], dtype=torch.int32)
    if depthwise:  # [KH, KW, C, M]
        product = linear.depthwise_conv2d(weights.T.reshape(1, 2, 2, 1), bias, x)
    else:
        product = linear.conv2d(weights.reshape(2, 1, 1, 2), bias, x)
    assert product.bound == max((3 + 4) * x.reach + 1000, (1 + 1) * x.reach + 2000)


@pytest.mark.parametrize("depth", [1, 257, 258, 259, 300])
@pytest.mark.parametrize("zero_point", [0, 127, -128])
def test_sums_of_matrices_are_exact_up_to_their_bound(depth: int, zero_point: int) -> None:
    """From 259 products of codes 255 apart on, float32 is too narrow: the sum is odd."""
    x = codes("INT8", zero_point)
    kernel, bound = linear.matmul(x, x, depth)
    assert bound == depth * x.reach**2
    rows = torch.full((1, 1, depth), 127 if zero_point < 0 else -128, dtype=torch.int8)
    assert int(kernel(rows, rows.mT)) == bound


def test_48_bits_are_exact() -> None:
    """Sums of 2**44 with ones in the last place."""
    weights = torch.full((1, 1, 1, 3), -128, dtype=torch.int8)
    image = torch.tensor([-(2**15), -(2**15), 1], dtype=torch.int16).view(1, 1, 1, 3)
    product = linear.conv2d(weights, torch.tensor([2**44 + 1]), codes("INT16"), bits=47)
    assert int(product.kernel(image)) == 2**44 + 1 + 2 * 2**22 - 128


def test_indices_outside_and_repeated_ones_are_refused() -> None:
    values, one = torch.zeros(1, 2, 1, dtype=torch.int8), torch.ones(1, 2, 1, dtype=torch.int8)
    for index in (-1, 2):
        with pytest.raises(Unpredictable, match=f"GATHER index is {index}"):
            layout.gather(values, torch.tensor([[index]]))
    with pytest.raises(Unpredictable, match="SCATTER indices"):
        layout.scatter(values, torch.tensor([[1, 1]]), one)
    assert layout.scatter(values, torch.tensor([[1, 0]]), one).flatten().tolist() == [1, 1]


def test_nothing_is_within_anything() -> None:
    require_within(torch.zeros(0), 1, 0, "nothing")


def test_parameters_broadcast() -> None:
    """As average pools need, whose windows at the border have fewer cells."""
    multipliers, shifts = torch.tensor([[1], [3]]) << 28, torch.tensor([[29], [30]])
    found = rounded(multipliers, shifts, codes("INT8"), 1000)(torch.tensor([[5, -5], [6, -6]]))
    assert found.tolist() == [[3, -2], [5, -4]]


@pytest.mark.parametrize("size", [(2, 9), (9, 3)])
def test_windows_that_do_not_fit_along_one_axis_are_refused(size: tuple[int, int]) -> None:
    kernel = pooling.max_pool2d((3, 4), (1, 1), codes("INT8"))
    assert kernel(torch.zeros(1, 3, 4, 1, dtype=torch.int8)).shape == (1, 1, 1, 1)
    with pytest.raises(ValueError, match="expected at least the window"):
        kernel(torch.zeros(1, *size, 1, dtype=torch.int8))


@pytest.mark.parametrize(("zero_point", "reach"), [(0, 128), (3, 131), (-128, 255), (127, 255), (-7, 134)])
def test_the_largest_magnitude_of_codes(zero_point: int, reach: int) -> None:
    assert codes("INT8", zero_point).reach == reach
