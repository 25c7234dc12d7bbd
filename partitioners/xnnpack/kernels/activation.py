"""XNNPACK's float32 approximations: exp, tanh, gelu, log, sigmoid, hardswish, elu, softmax.

Polynomials by Horner's scheme with fused multiply-adds, rational ones with a true division. Subnormal operands and
results count as zero. Operands are not flushed by exp, tanh, gelu, hardswish, sigmoid and softmax, which have the same
result for them as for zero; nor is anything of which a comment or `fma.fused` says that it is not subnormal. All
functions take float32 tensors and return fresh ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from npu_assay.partitioners.exir.quantized import number
from npu_assay.partitioners.xnnpack.kernels.fma import LARGEST_SUBNORMAL, flushed, fma, fused, fuses_for_both

_EXP_P = (1.0, 0.41594290733, 0.072068706155, 0.0055380910635)
_EXP_Q = (1.0, -0.27720427513, 0.023986088112)
_TANH = (
    (1.0, 0.13412411511, 3.5330520477e-3, 2.1235626264e-5, 1.4248920266e-8),
    (1.0, 0.46745735407, 0.026018999517, 3.3472978976e-4, 8.1365948290e-7),
)
_GELU = (
    (0.79788452387, 0.06697217375, 0.0093065137044, 3.2973114867e-4, 1.2609783880e-5, 4.5835321316e-8),
    (1.0, 0.25060352683, 0.028431978077, 0.0018622842617, 7.2267655923e-5, 1.1988805682e-6),
)
_LOG_P = (1.0, 1.0, 0.182499691844)
_LOG_Q = (1.0, 1.5, 0.599170029163, 0.049584995955)
_SIN_P = (1.0, -1.3314664364e-01, 3.2340581529e-03)
_SIN_Q = (1.0, 3.3519912511e-02, 4.8770775902e-04)
_TWO_PI_HIGH, _TWO_PI_LOW = 6.28125, 1.9353072e-3
_ELU = tuple(
    float.fromhex(c) for c in ("0x1.FFFFFEp-2", "0x1.5554B0p-3", "0x1.555716p-5", "0x1.12278Ep-7", "0x1.6B7338p-10")
)
_ELU_CUTOFF = float.fromhex("-0x1.154246p+4")
_SHIFT = 1.5 * 2**18
_ZERO = 0x48C00000
"""What is added so that the sum's last place is one 32nd, and the bits of 0 moved so."""
_FIRST = _ZERO - 32 * 160
_SIGMOID = float.fromhex("0x1.0000F6p-0")
_SOFTMAX = tuple(
    float.fromhex(c) for c in ("1", "0x1.FFFFF6p-1", "0x1.FFFDC6p-2", "0x1.555A80p-3", "0x1.573A1Ap-5", "0x1.0F9F9Cp-7")
)
_LOG2E = float.fromhex("0x1.715476p+0")
_LN2 = float.fromhex("0x1.62E430p-1")
_LN2_LOW = float.fromhex("-0x1.05C610p-29")


def exp(x: Tensor) -> Tensor:
    """2**n * P(r) / Q(r) with x * log2(e) = n + r; NaN stays NaN."""
    z = (x.contiguous() * number(_LOG2E)).clamp_(-127.0, 128.0)
    n = torch.round(z)
    r = z - n
    return flushed((_horner(r, _EXP_P) / _horner(r, _EXP_Q)).mul_(_power(n)))


def tanh(x: Tensor) -> Tensor:
    """x * P(x**2) / Q(x**2) within +-7.98, beyond which it is the value there."""
    capped = x.contiguous().clamp(-7.9807181358, 7.9807181358)
    above, below = _fraction(capped * capped, _TANH)
    return flushed(above.mul_(capped).div_(below))


def gelu(x: Tensor) -> Tensor:
    """x / 2 * (1 + erf(x / sqrt(2))), the erf by a rational function of x."""
    x = x.contiguous()
    capped = x.clamp(-5.1638283730, 5.1638283730)
    square = flushed(capped * capped)
    above, below = _fraction(square, _GELU)
    erf = above.mul_(capped).div_(below)
    return flushed((x * number(0.5)).mul_(erf.add_(number(1.0))))


def log(x: Tensor) -> Tensor:
    """e * ln(2) + log(m) with x * sqrt(2) = 2**e * m."""
    x = _dense(x)
    most = (x > 2.0**126).float()  # whose product would be infinite
    mantissa, exponent = torch.frexp(x * (1 - most / 2) * 1.4142134190)
    exponent = exponent + most.int()
    m = mantissa * 2 * 0.70710688829 - 1
    value = fma((exponent - 1).float(), number(math.log(2)), m * _horner(m, _LOG_P) / _horner(m, _LOG_Q))
    value = torch.where(torch.isinf(x), x, value)
    return torch.where(x > 0, value, torch.where(x == 0, -math.inf, math.nan))


def hardswish(x: Tensor) -> Tensor:
    """x * min(max(x / 6 + 1 / 2, 0), 1)."""
    x = x.contiguous()
    return flushed(x * fused(x)(x, number(1 / 6), number(0.5)).clamp_(0.0, 1.0))


def sin(x: Tensor) -> Tensor:
    """x folded into +-pi/2 by a two-part 2 * pi, then a rational function of x**2 times x."""
    return _sine(_less_turns(_dense(x)))


def cos(x: Tensor) -> Tensor:
    """The sine of pi/2 - x, taken after whole turns."""
    return _sine(number(math.pi / 2) - _less_turns(_dense(x)))


def _less_turns(x: Tensor) -> Tensor:
    turns = torch.round(x * number(0.5 / math.pi))
    add = fused(x)
    return add(turns, number(-_TWO_PI_LOW), add(turns, number(-_TWO_PI_HIGH), x))


def _sine(x: Tensor) -> Tensor:
    half_turn = number(math.pi)
    x = torch.minimum(x, half_turn - x)
    x = torch.maximum(x, -half_turn - x)
    x = torch.minimum(x, half_turn - x)
    square = flushed(x * x)
    return flushed(flushed(x * _horner(square, _SIN_P)) / _horner(square, _SIN_Q))


def elu(x: Tensor, alpha: float) -> Tensor:
    """x for x >= 0, else alpha * (exp(x) - 1): 2**n times a polynomial of degree 6."""
    x, slope = _dense(x), number(alpha)
    z = x.clamp_min(_ELU_CUTOFF).clamp_max(0.0)
    n = _to_fraction(z, 1)
    t = fma(n, number(-_LN2), z)
    p = _horner(t, _ELU) * t
    power = torch.exp2(n)
    scaled = t * power
    negative = fma(fma(p, scaled, scaled), slope, fma(power, slope, -slope))
    return flushed(torch.where(x < 0, negative, x))


def sigmoid(x: Tensor) -> Tensor:
    """e / (e + 1) with e = exp(-|x|), by a table of 2**(k / 32) and a quadratic polynomial; mirrored for x > 0."""
    shape, x = x.shape, x.reshape(-1)
    one = number(1.0)
    add, z = fused(x), torch.copysign(x, number(-1.0))
    shifted = add(z, number(_LOG2E), number(_SHIFT))
    n = shifted - number(_SHIFT)
    t = add(n, number(-_LN2), z, z)
    t = add(n, number(-_LN2_LOW), t, t)
    fraction, power = _powers_of_32nds(shifted)
    p = add(t, number(0.5), number(_SIGMOID))
    t.mul_(fraction)
    e = F.hardshrink(add(t, p, fraction, t).mul_(power), LARGEST_SUBNORMAL)  # flushed: it has no sign
    e = e.masked_fill_(n == number(-math.inf), 0.0)  # as the processor scales by 2**-inf
    y = e.div_(e + one)  # not below e / 2, and e itself where e is small
    return torch.heaviside(x, number(0.0)).sub_(y).abs_().view(shape)  # 1 - y for x > 0, else y


def _powers_of_32nds(shifted: Tensor) -> tuple[Tensor, Tensor]:
    """2**(n % 1) and 2**floor(n), 0 from n = -160 on, for n = shifted - _SHIFT of 0 or less, n * 32 an integer.

    One more in the last place of `shifted` is one 32nd more, down to -2**17: its bits are a table's index. Lower down
    the second is 0, and n is whole where the first may still matter, where results overflow. `shifted` [N] is lost.
    """
    fraction, power, first = _tables_of_32nds()
    place = shifted.view(torch.int32).clamp_(_FIRST, _ZERO).sub_(first)
    return fraction.index_select(0, place), power.index_select(0, place)


@lru_cache(maxsize=1)
def _tables_of_32nds() -> tuple[Tensor, Tensor, Tensor]:
    """Both tables, and the place of their first entries."""
    n = torch.arange(_FIRST - _ZERO, 1, dtype=torch.float64) / 32
    whole = n.floor()
    return torch.exp2(n - whole).float(), torch.ldexp(torch.ones(1), whole.float()), torch.tensor(_FIRST).int()


def softmax(x: Tensor) -> Tensor:
    """Over the last axis: exp(x - max) by a polynomial of degree 5, times f32(1 / sum).

    The terms are added up as in the kernel for 16 lanes: blocks of 64 into two lane sums in turn, then the rest.
    """
    x = x.contiguous()
    terms = _exp_negative(x - x.amax(-1, keepdim=True))
    return flushed(terms * torch.reciprocal(_lane_sum(terms)))


def _exp_negative(d: Tensor) -> Tensor:
    n, add = torch.round(d * number(_LOG2E)), fused(d)
    r = add(n, number(-_LN2_LOW), flushed(add(n, number(-_LN2), d)))
    power = flushed(_horner(r, _SOFTMAX).mul_(_power(n.clamp(-200.0, 128.0))))
    # So far down, r and its polynomial may be anything, NaN too; scaled by 2**n, all of that is 0 in the kernel.
    return power.masked_fill_(n < number(-200.0), 0.0)


def _lane_sum(terms: Tensor) -> Tensor:
    """Sums over the last axis [..., 1]."""
    size = terms.shape[-1]
    padded = torch.nn.functional.pad(terms, (0, -size % 16))
    vectors = list(padded.reshape(*terms.shape[:-1], -1, 16).unbind(-2))
    blocks = size // 64 * 4
    sums = list(vectors[:2] if blocks else vectors[:1])
    for index, vector in enumerate(vectors[2:blocks]):
        sums[index % 2] = sums[index % 2] + vector
    lanes = sums[0] + sums[1] if blocks else sums[0]
    for vector in vectors[max(blocks, 1) :]:
        lanes = lanes + vector
    for half in (8, 4, 2, 1):
        lanes = lanes.narrow(-1, 0, half) + lanes.narrow(-1, half, half)
    return lanes


def _to_fraction(z: Tensor, parts: int) -> Tensor:
    """z * log2(e), rounded to multiples of 1 / parts, in one rounding."""
    magic = number(1.5 * 2**23 / parts)
    return fma(z, number(_LOG2E), magic) - magic


def _horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """c0 + x * (c1 + x * (...)): one fused multiply-add for each degree. x is dense, and no coefficient small."""
    highest, second, *others = map(number, reversed(coefficients))
    add = fused(x)
    result = add(x, highest, second)
    for c in others:
        result = add(x, result, c, result)
    return result


def _fraction(x: Tensor, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> tuple[Tensor, Tensor]:
    """Both polynomials of a rational function, of one degree, as `_horner`: a call of torch computes a step of both."""
    if not fuses_for_both(tuple(x.shape), torch.get_num_threads()):
        above, below = coefficients
        return _horner(x, above), _horner(x, below)
    highest, *others = _columns(coefficients, x.dim())
    result = torch.addcmul(others[0], x, highest)
    for c in others[1:]:
        torch.addcmul(c, x, result, out=result)
    p, q = result.unbind()
    return p, q


@lru_cache(maxsize=64)
def _columns(coefficients: tuple[tuple[float, ...], tuple[float, ...]], rank: int) -> tuple[Tensor, ...]:
    """The coefficients [2, 1, ...], of the highest degree first."""
    both = torch.tensor(coefficients).view(2, -1, *[1] * rank)
    return both.flip(1).transpose(0, 1).contiguous().unbind()


def _dense(x: Tensor) -> Tensor:
    """A fresh tensor, flushed."""
    return flushed(x).contiguous()


def _power(n: Tensor) -> Tensor:
    """2**n for whole n from -200 to 128, which is infinite; for NaN any."""
    place = (n + number(200.0)).nan_to_num_().int().reshape(-1)
    return _powers().index_select(0, place).view(n.shape)


@lru_cache(maxsize=1)
def _powers() -> Tensor:
    return torch.ldexp(torch.ones(1), torch.arange(-200.0, 129.0))
