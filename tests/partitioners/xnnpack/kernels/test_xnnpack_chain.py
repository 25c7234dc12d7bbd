"""Products by a library are, bit for bit, the chains that adding up term by term makes; where not, it is not asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.partitioners.xnnpack.kernels import activation, chain
from npu_assay.partitioners.xnnpack.kernels import float32 as reals
from npu_assay.partitioners.xnnpack.kernels import fma as fused
from npu_assay.partitioners.xnnpack.kernels.fma import SMALLEST, emulated_fma, flushed, fma

SHAPES = ((1, 7, 1), (1, 300, 40), (3, 16, 5), (4, 143, 16), (49, 144, 33), (50, 433, 17), (97, 20, 64), (5, 0, 3))


@pytest.fixture(autouse=True)
def _forgets() -> Iterator[None]:
    """What one test makes believe of a library is forgotten by the next."""
    yield
    chain._makes_chain.cache_clear()
    chain._makes_chains.cache_clear()
    _forget_what_fuses()


def _forget_what_fuses() -> None:
    for tried in (fused._fuses, fused._fuses_all, fused.fuses_for_both):
        tried.cache_clear()


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def by_fma(rows: Tensor, matrix: Tensor, start: Tensor) -> Tensor:
    """The chains by another function than the device's, which flushes every sum: these numbers need it nowhere."""
    acc = start.expand(len(rows), -1).clone()
    for k in range(rows.shape[1]):
        acc = emulated_fma(rows[:, k : k + 1], matrix[k], acc)
    return acc


def same(found: Tensor, expected: Tensor) -> bool:
    """Also the signs of zeros, and the bits of what is no number."""
    return torch.equal(found.contiguous().view(torch.int32), expected.contiguous().view(torch.int32))


def product(rows: Tensor, matrix: Tensor, start: Tensor | None) -> Tensor:
    return reals._product(rows, reals._factor(matrix, start))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-19, 1e18], ids=str)
def test_a_product_is_a_chain(shape: tuple[int, int, int], scale: float) -> None:
    """Whichever way is taken; tiny numbers reach the subnormal ones, large ones overflow."""
    count, terms, width = shape
    rows, matrix, start = numbers(count, terms) * scale, numbers(terms, width, seed=1) * scale, numbers(width, seed=2)
    found = product(rows, matrix, start)
    assert same(found, flushed(reals.by_terms(rows, matrix, start)))
    if scale == 1.0:
        assert torch.equal(found, by_fma(rows, matrix, start))


@pytest.mark.parametrize("special", [float("inf"), float("-inf"), float("nan"), -0.0, 1e-42])
@pytest.mark.parametrize("place", ["rows", "matrix", "start"])
def test_special_numbers(special: float, place: str) -> None:
    """They touch their own row and column only, also where a chain goes on from block to block."""
    given = {"rows": numbers(9, 400), "matrix": numbers(400, 20, seed=1), "start": numbers(20, seed=2)}
    given[place].view(-1)[3] = special
    assert same(product(**given), flushed(reals.by_terms(**given)))


def test_a_sum_of_minus_zero_keeps_its_sign() -> None:
    """A negative number below the smallest one rounds to -0, at the end of a block."""
    rows, matrix = torch.zeros(5, 300), torch.zeros(300, 20)
    rows[:, 142], matrix[142] = -1e-30, 1e-30
    rows[:, 143:], matrix[143:] = -0.0, 1.0
    start = torch.zeros(20)
    assert same(product(rows, matrix, start), reals.by_terms(rows, matrix, start))


def test_a_difference_below_the_smallest_number_keeps_its_sign() -> None:
    """2**-126 less a product that is larger by less than half of 2**-149: the sum rounds to -0."""
    rows, matrix, start = torch.zeros(5, 3), torch.zeros(3, 20), torch.full((20,), 2.0**-126)
    rows[:, -1], matrix[-1] = -(1 + 2.0**-23) * 2.0**-63, (1 - 2.0**-24) * 2.0**-63
    expected = reals.by_terms(rows, matrix, start)
    assert expected.eq(0).all() and expected.signbit().all()
    assert same(product(rows, matrix, start), expected)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding", "multiplier"),
    [
        ((3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 1),
        ((3, 5), (2, 1), (1, 2), ((0, 1), (2, 3)), 2),
        ((1, 7), (3, 2), (1, 1), ((0, 0), (0, 0)), 1),
        ((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 1),
        ((1, 1), (2, 3), (1, 1), ((1, 0), (0, 2)), 1),
        ((1, 1), (1, 1), (1, 1), ((0, 0), (0, 0)), 2),
    ],
)
@pytest.mark.parametrize("special", [1.0, float("inf"), float("nan"), -0.0, 1e-39, -1.5e-38])
@pytest.mark.parametrize("biased", [True, False])
def test_a_depthwise_convolution_is_a_chain(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
    multiplier: int,
    special: float,
    biased: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, weights = numbers(2, 11, 13, 6), numbers(6 * multiplier, *kernel, 1, seed=1)
    bias = torch.cat([numbers(6 * multiplier - 1), torch.tensor([-0.0])]) if biased else None
    x[0, 4, 5, 2] = special
    x[1, 6, 6] = special
    made = reals.conv2d(weights, bias, stride, dilation, padding, 6)(x)
    monkeypatch.setattr(chain, "depthwise", lambda *_: lambda _: None)
    monkeypatch.setattr(reals, "_one_tap", lambda *_: lambda _: None)
    assert same(made, reals.conv2d(weights, bias, stride, dilation, padding, 6)(x))


@pytest.mark.parametrize("count", [1, 17, 144, 145, 500])
@pytest.mark.parametrize("channels", [1, 5, 40])
@pytest.mark.parametrize("special", [1.0, math.inf, math.nan, -0.0, 1e-39, 3e38])
def test_a_mean_adds_up_one_cell_after_the_other(count: int, channels: int, special: float) -> None:
    x = numbers(2, count, 1, channels) * 1000.0 ** numbers(2, count, 1, 1, seed=1)
    x[0, count // 2, 0, 0] = special
    x[1, :, 0, 0] = special
    sums = torch.stack([reals.total_by_terms(flushed(image)) for image in x.flatten(1, 2)])
    expected = flushed(sums * torch.tensor(1.0 / count))
    assert same(reals.mean()(x)[:, 0, 0], expected)


def test_sums_of_large_images_are_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reals, "total_by_terms", lambda cells: pytest.fail("one by one"))
    reals.mean()(numbers(1, 20, 20, 30))


def test_a_library_with_another_order_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one that adds up two halves: the trial tells, for every shape of two terms or more."""

    def halves(left: Tensor, right: Tensor) -> Tensor:
        middle = left.shape[1] // 2
        return (left[:, :middle].double() @ right[:middle].double()).float() + (
            left[:, middle:].double() @ right[middle:].double()
        ).float()

    monkeypatch.setattr(torch, "mm", halves)
    chain._makes_chain.cache_clear()
    rows, matrix, start = numbers(9, 40), numbers(40, 20, seed=1), numbers(20, seed=2)
    factor = chain.factor(matrix, start)
    assert factor is not None and chain.product(rows, factor) is None
    assert torch.equal(product(rows, matrix, start), by_fma(rows, matrix, start))


def test_one_wrong_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel for the last row alone has its own order."""
    product = torch.mm

    def last(left: Tensor, right: Tensor) -> Tensor:
        found = product(left, right)
        found[-1] = (left[-1].double() @ right.double()).float()
        return found

    monkeypatch.setattr(torch, "mm", last)
    chain._makes_chain.cache_clear()
    factor = chain.factor(numbers(40, 20, seed=1))
    assert factor is not None and chain.product(numbers(33, 40), factor) is None


@pytest.mark.parametrize(
    "shape", [(4, 16, 16, 16), (3, 1, 64, 9), (2, 49, 144, 33), (2, 5, 145, 8), (1, 3, 1, 1)], ids=str
)
@pytest.mark.parametrize("special", [1.0, float("inf"), float("nan"), -0.0, 1e-42, 1e-20])
@pytest.mark.parametrize("place", [0, 1])
def test_products_in_one_call(shape: tuple[int, ...], special: float, place: int) -> None:
    """Each is what it is alone, whichever way is taken."""
    batch, count, terms, width = shape
    given = [numbers(batch, count, terms), numbers(batch, terms, width, seed=1)]
    given[place].view(-1)[-1] = special
    given[place].view(-1)[0] = -special
    a, b = map(flushed, given)
    expected = torch.stack([flushed(reals.by_terms(x, y, None)) for x, y in zip(a, b, strict=True)])
    assert same(reals.batch_matmul()(*given), expected)


@pytest.mark.parametrize("terms", [1, 2, 17])
def test_a_sum_of_nothing_but_minus_zero_is_zero(terms: int) -> None:
    """Chains start from 0. A library's function for one term does not."""
    rows, matrix = torch.zeros(5, terms), numbers(terms, 20).abs().neg()
    for found in (product(rows, matrix, None), reals.batch_matmul()(rows[None], matrix[None])):
        assert same(found, torch.zeros_like(found))


def test_products_in_another_order_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One matrix of a batch that is added up in float64 is noticed."""
    product = torch.bmm

    def last(left: Tensor, right: Tensor) -> Tensor:
        found = product(left, right)
        found[-1] = (left[-1].double() @ right[-1].double()).float()
        return found

    assert chain.products(numbers(3, 9, 40), numbers(3, 40, 20, seed=1)) is not None
    monkeypatch.setattr(torch, "bmm", last)
    chain._makes_chains.cache_clear()
    assert chain.products(numbers(3, 9, 40), numbers(3, 40, 20, seed=1)) is None


def test_a_small_product_of_two_activations() -> None:
    """Batches broadcast, and every matrix is a product of its own."""
    a, b = numbers(3, 1, 5, 17), numbers(2, 17, 4, seed=1)
    found = reals.batch_matmul()(a, b)
    assert found.shape == (3, 2, 5, 4)
    for i in range(3):
        for j in range(2):
            assert torch.equal(found[i, j], by_fma(a[i, 0], b[j], torch.zeros(4)))


BROADCAST = (((), (5,), (5,)), ((5,), (5,), ()), ((3, 1), (1, 17), (3, 17)), ((1,), (), ()), ((4, 33), (), (33,)))
SPECIAL = (0.0, -0.0, 1e-42, -1e-42, SMALLEST, -SMALLEST, 1e-30, 3e38, float("inf"), float("-inf"), float("nan"), 1.0)


@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
def test_one_rounding(shapes: tuple[tuple[int, ...], ...]) -> None:
    """Whichever function makes it, by broadcasting."""
    a, b, c = (numbers(*shape, seed=seed) for seed, shape in enumerate(shapes))
    assert same(fma(a, b, c), emulated_fma(a, b, c))


def test_one_rounding_of_special_numbers() -> None:
    """All triples of them; no number is any of its kind."""
    special = torch.tensor(SPECIAL)
    a, b, c = (each.contiguous().flatten() for each in torch.meshgrid(special, special, special, indexing="ij"))
    found, expected = fma(a, b, c), emulated_fma(a, b, c)
    assert torch.equal(found.isnan(), expected.isnan())
    assert same(found.nan_to_num(), expected.nan_to_num())


def test_flushing_keeps_signs() -> None:
    found = flushed(torch.tensor(SPECIAL))
    expected = [0.0, -0.0, 0.0, -0.0, SMALLEST, -SMALLEST, *SPECIAL[6:]]
    assert same(found.nan_to_num(), torch.tensor(expected).nan_to_num())
    assert found.isnan().tolist() == torch.tensor(expected).isnan().tolist()


@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
def test_two_roundings_are_noticed(shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A library whose sum of a product rounds the product is not asked, for operands of any shape."""
    monkeypatch.setattr(torch, "addcmul", lambda c, a, b: a * b + c)
    _forget_what_fuses()
    assert not fused._fuses(*shapes, torch.get_num_threads())
    a, b, c = (numbers(*shape, seed=seed) for seed, shape in enumerate(shapes))
    assert same(fma(a, b, c), emulated_fma(a, b, c))


def test_two_roundings_are_noticed_by_those_that_do_not_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "addcmul", lambda c, a, b: a * b + c)
    _forget_what_fuses()
    assert fused.fused(numbers(5)) is emulated_fma


@pytest.mark.parametrize("function", [activation.tanh, activation.gelu])
def test_two_roundings_are_noticed_by_rational_functions(
    function: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their two polynomials are computed in one, and have other shapes than what was tried for one."""
    x = numbers(2000)
    expected = function(x)
    one_rounding = torch.addcmul

    def rounded_twice(c: Tensor, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        return one_rounding(c, a, b, out=out) if c.dim() == 0 else a * b + c

    monkeypatch.setattr(torch, "addcmul", rounded_twice)
    _forget_what_fuses()
    assert same(function(x), expected)


@pytest.mark.parametrize("c", [2.0**-70, -0.3, 1.5 * 2.0**18])
def test_next_to_such_a_number_nothing_is_to_be_flushed(c: float) -> None:
    """Products that nearly cancel it leave 2**-48 of it or more."""
    a = torch.cat([torch.tensor(SPECIAL), numbers(500), numbers(500, seed=1) * 1e-38])
    b = torch.cat([torch.tensor(SPECIAL).flip(0), -c / numbers(500), numbers(500)])
    found, expected = fused.fused(a)(a, b, torch.tensor(c)), emulated_fma(a, b, torch.tensor(c))
    assert torch.equal(found.isnan(), expected.isnan())
    assert same(found.nan_to_num(), expected.nan_to_num())


def test_bits_of_a_shifted_number_are_an_index() -> None:
    """Every 32nd from -200 to 0, far numbers, and infinity."""
    n = torch.cat([torch.arange(-200 * 32, 1) / 32, torch.tensor([-131072.5, -4e5, -1e10, -3e38, -math.inf])])
    fraction, power = activation._powers_of_32nds(n + activation._SHIFT)
    near = n >= -160
    whole = n[near].floor()
    assert torch.equal(fraction[near], torch.exp2((n[near] - whole).double()).float())
    assert torch.equal(power[near], torch.exp2(whole.double()).float())
    assert power[~near].eq(0).all()


@pytest.mark.parametrize("which", range(3))
def test_only_dense_numbers_are_asked_in_one(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is of dense ones: a library that fails on others is not asked."""
    one_rounding = torch.addcmul

    def dense(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return one_rounding(c, a, b) if all(each.is_contiguous() for each in (a, b, c)) else c.clone()

    monkeypatch.setattr(torch, "addcmul", dense)
    operands = [numbers(4, 6, seed=seed) for seed in range(3)]
    operands[which] = operands[which].t().contiguous().t()
    assert same(fma(*operands), emulated_fma(*operands).contiguous())


def test_a_batch_of_products_that_makes_minus_zeros_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    product = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda left, right: torch.where(left.any(), product(left, right), -0.0))
    chain._makes_chains.cache_clear()
    assert chain.products(numbers(3, 9, 40), numbers(3, 40, 20, seed=1)) is None


def test_a_depthwise_convolution_in_another_order_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that adds in float64 is told by the trial, though what it gives is near."""
    convolution = torch.nn.functional.conv2d
    x, weights = numbers(1, 6, 7, 8), numbers(8, 3, 3, 1, seed=1)
    expected = reals.conv2d(weights, None, groups=8)(x)
    in_one = chain.depthwise(weights, None, (1, 1), (1, 1), ((0, 0), (0, 0)), lambda *_: expected)

    def exact(image: Tensor, kernel: Tensor, offset: Tensor | None, *how: Any, **more: Any) -> Tensor:
        return convolution(image.double(), kernel.double(), offset, *how, **more).float()

    monkeypatch.setattr(torch.nn.functional, "conv2d", exact)
    assert in_one(x) is None
    assert same(reals.conv2d(weights, None, groups=8)(x), expected)
