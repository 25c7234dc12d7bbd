"""Guards and gates: the checks of one output, which `numerics.judge` has put beside its goldens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from npu_assay.conformance.judge.float_golden import Walk
from npu_assay.conformance.judge.integer_golden import affine
from npu_assay.conformance.programs.graph import Quant
from npu_assay.conformance.record.results import NOISE
from npu_assay.reference.golden import Bounded, Codes
from npu_assay.reference.golden.special import other_class


@dataclass(frozen=True)
class Coded:
    """The codes of a quantized output; float64 whole numbers in the output's shape.

    expected: what gate 1 compares with, allowed: by how many LSB it may differ. ambiguous: by how many LSB
    a correct code may differ from the nearest one.
    """

    quant: Quant
    actual: Tensor
    expected: Tensor
    allowed: Tensor
    legal: Codes
    ambiguous: Tensor


@dataclass(frozen=True)
class Output:
    """One output beside its goldens, in float64 and the output's shape.

    name: as messages print it, such as "out" or "out1". real: what the backend computed; a quantized
    output counts as its code times the scale, for its float32 rounding is not the backend's. distance: to
    the float golden. codes: None for a float output. unit: of errors, one LSB, or 1 for a float output.
    own, last: see `Walk`. exact: what a float output must be to the last bit, None where that is not known.
    indices: whether it says where elements are.
    """

    name: str
    real: Tensor
    bounded: Bounded
    distance: Tensor
    codes: Coded | None
    unit: float
    own: Bounded
    exact: Tensor | None = None
    last: Bounded | None = None
    indices: bool = False


# A message, or "" when passed, and what was measured; `excess` is by how much the limit is passed, if it is.
Check = Callable[[Output], tuple[str, dict[str, float]]]


# ------------------------------------------------------------------------------------ well formed

Fault = Callable[[Walk, int, Tensor], str]  # "" or what follows the output's name


def shape(run: Walk, index: int, output: Tensor) -> str:
    """Guard: the output has the golden's shape."""
    expected = tuple(run.bounded[index].value.shape)
    return "" if tuple(output.shape) == expected else f": shape {list(output.shape)}, expected {list(expected)}"


def dtype(run: Walk, index: int, output: Tensor) -> str:
    """Guard: the output has the dtype that the operator returns: float32 if quantized, int64 for indices."""
    expected = run.dtypes[index]
    return "" if output.dtype == expected else f": dtype {output.dtype}, expected {expected}"


def finite(run: Walk, index: int, output: Tensor) -> str:
    """Guard: NaN and infinity stand exactly where the golden has them; the gates then count these elements as 0."""
    golden, real = run.bounded[index], output.to(torch.float64)
    ordinary = bool(golden.value.isfinite().all())
    wrong = other_class(real, golden) if not ordinary or run.quants[index] is None else ~torch.isfinite(real)
    if not bool(wrong.any()):
        return ""
    at = _first(wrong)
    expected = element(golden.value, at)
    what = "a finite number" if math.isfinite(expected) else f"{expected}"
    return f"{subscript(wrong, at)} = {element(output, at)}, expected {what}{_count(wrong)}"


def on_grid(run: Walk, index: int, output: Tensor) -> str:
    """Guard: a quantized output holds multiples of its scale, up to float32's rounding (2**-23)."""
    quant = run.quants[index]
    if quant is None:
        return ""
    unit = _unit(quant, output.dim())
    steps = output.to(torch.float64) / unit
    whole = steps.round()
    off = (steps - whole).abs() > steps.abs() * 2.0**-22
    off |= (whole < quant.qmin - quant.zero_point) | (whole > quant.qmax - quant.zero_point)
    if not bool(off.any()):
        return ""
    at = _first(off)
    scale = unit if isinstance(unit, float) else element(unit.expand_as(steps), at)
    limits = f"codes {quant.qmin}..{quant.qmax} of scale {scale:g}, zero point {quant.zero_point}"
    return f"{subscript(off, at)} = {element(output, at):g}, expected one of {limits}{_count(off)}"


FORM: Mapping[str, Fault] = MappingProxyType({"shape": shape, "dtype": dtype, "finite": finite, "on_grid": on_grid})


# ------------------------------------------------------------------------------------ guards


def not_constant(output: Output) -> tuple[str, dict[str, float]]:
    """Guard: an output is not the same number everywhere, unless one number is legal everywhere."""
    if output.real.numel() < 2 or bool(output.real.min() < output.real.max()):
        return "", {}
    low, high = _legal_range(output)
    if bool(low.max() <= high.min()):
        return "", {}
    found = output.real if output.codes is None else output.codes.actual
    return f"{output.name} is {float(found.flatten()[0]):g} everywhere, the golden is not constant", {}


def _legal_range(output: Output) -> tuple[Tensor, Tensor]:
    if output.codes is not None:
        return output.codes.legal.low, output.codes.legal.high
    return output.bounded.value - output.bounded.error, output.bounded.value + output.bounded.error


def not_saturated(output: Output) -> tuple[str, dict[str, float]]:
    """Guard: an output does not hold qmin and qmax alone, unless every element may be one of them."""
    codes = output.codes
    if codes is None or codes.actual.numel() == 0:
        return "", {}
    quant = codes.quant
    if bool(((codes.actual > quant.qmin) & (codes.actual < quant.qmax)).any()):
        return "", {}
    inside = (codes.legal.low > quant.qmin) & (codes.legal.high < quant.qmax)
    if not bool(inside.any()):
        return "", {}
    return f"{output.name} holds only {quant.qmin} and {quant.qmax}, the golden does not{_count(inside)}", {}


# ------------------------------------------------------------------------------------ gates


def gate1(output: Output) -> tuple[str, dict[str, float]]:
    """Gate 1: codes, element by element; reals to the last bit, where these are known."""
    codes = output.codes
    if output.real.numel() == 0:
        return "", {}
    if codes is None:
        return ("", {"allowed_lsb": math.inf}) if output.exact is None else _same_reals(output, output.exact)
    distance = (codes.actual - codes.expected).abs()
    metrics = {"max_lsb": float(distance.max()), "allowed_lsb": float(codes.allowed.max())}
    wrong = distance > codes.allowed
    if not bool(wrong.any()):
        return "", metrics
    at = int((distance - codes.allowed).argmax())
    allowed = element(codes.allowed.expand_as(distance), at)
    metrics["excess"] = element(distance, at) - allowed
    how = "exact" if allowed == 0 else f"+- {allowed:g} LSB"
    return f"{_found(output, at)}, expected {element(codes.expected, at):g} ({how}){_count(wrong)}", metrics


def _same_reals(output: Output, exact: Tensor) -> tuple[str, dict[str, float]]:
    metrics = {"allowed_lsb": 0.0}
    wrong = output.real != exact
    if not bool(wrong.any()):
        return "", metrics
    distance = torch.where(wrong, (output.real - exact).abs(), -1.0)
    at = int(distance.argmax())
    found, expected = (f"{element(tensor, at):.9g}" for tensor in (output.real, exact))
    message = f"{output.name}{subscript(wrong, at)} = {found}, expected {expected} (exact){_count(wrong)}"
    return message, metrics | {"excess": element(distance, at)}


def gate2(output: Output) -> tuple[str, dict[str, float]]:
    """Gate 2: share of codes that are not the nearest, and mean signed error, against the share that may differ."""
    codes = output.codes
    if codes is None or codes.actual.numel() == 0:
        return "", {}
    error, count = codes.actual - codes.legal.nearest, codes.actual.numel()
    rate, rate_limit = (int(t.count_nonzero()) / count for t in (error, codes.ambiguous))
    bias, bias_limit = (float(t.sum()) / count for t in (error, codes.ambiguous))
    metrics = {"off_by_one_rate": rate, "rate_limit": rate_limit, "bias": bias, "bias_limit": bias_limit}
    if rate <= rate_limit and abs(bias) <= bias_limit:
        return "", metrics
    metrics["excess"] = max(rate - rate_limit, abs(bias) - bias_limit)
    at = int((error.abs() - codes.ambiguous).argmax())
    text = (
        f"{output.name}: {rate:.2%} of codes are not the nearest (limit {rate_limit:.2%}), mean error {bias:+.4f} LSB"
    )
    return (
        f"{text} (limit {bias_limit:.4f}); {_found(output, at)}, nearest {element(codes.legal.nearest, at):g}",
        metrics,
    )


def gate3(output: Output) -> tuple[str, dict[str, float]]:
    """Gate 3: distance to the float golden over its bound, element by element, for the whole chain and the last step.

    The bound that is recorded is the smaller of the two goldens' largest ones.
    """
    if output.distance.numel() == 0:
        return "", {}
    message, metrics = _within(output, output.bounded, output.distance)
    if output.last is None:
        return message, metrics
    text, others = _within(output, output.last, (output.real - output.last.value).abs())
    smaller = {key: min(metrics[key], others[key]) for key in ("bound_lsb", "bound_share") if key in metrics}
    worst = {key: max(found.get(key, 0.0) for found in (metrics, others)) for key in metrics | others}
    return message or text, worst | smaller


def _within(output: Output, golden: Bounded, distance: Tensor) -> tuple[str, dict[str, float]]:
    """The distance to one float golden over its bound.

    A ratio as small as float64's rounding is recorded as 0: it depends on the processor that computed the golden.
    """
    bound = (golden.error + golden.magnitude * NOISE).expand_as(distance)
    ratio = float((distance / bound).nan_to_num_(0.0).max())
    metrics = {"worst_ratio_to_bound": ratio if ratio > NOISE else 0.0} | _widest(output, bound)
    wrong = distance > bound
    if not bool(wrong.any()):
        return "", metrics
    at = int(torch.where(wrong, distance - bound, -torch.inf).argmax())
    metrics["excess"] = element(distance, at) - element(bound, at)
    found = f"{output.name}{subscript(distance, at)} = {element(output.real, at):.6g}"
    lsb = "" if output.codes is None else f", {element(bound, at) / output.unit:.3g} LSB"
    expected = f"{element(golden.value, at):.6g} +- {element(bound, at):.3g}{lsb} (float)"
    return f"{found}, expected {expected}{_count(wrong)}", metrics


def _widest(output: Output, bound: Tensor) -> dict[str, float]:
    """The largest bound of an output: of codes in LSB, of reals as a share of the golden's range, zero included."""
    widest = float(bound.nan_to_num(nan=math.inf, posinf=math.inf).max())
    if output.codes is not None:
        return {"bound_lsb": widest / output.unit}
    value = output.bounded.value
    extent = max(float(value.max()), 0.0) - min(float(value.min()), 0.0)
    return {"bound_share": widest / (extent or 1.0) if math.isfinite(extent) else math.inf}


def gate4(output: Output) -> tuple[str, dict[str, float]]:
    """Gate 4: SQNR in dB against its floor.

    Errors spread evenly over +-E have the root mean square E / sqrt(3); the floor is 3 dB under that. Few
    or tied elements are not spread evenly, so the floor never asks for more than what the float golden's own
    codes, off by what is ambiguous, reach themselves. Unbounded elements do not count, nor does the golden's
    own rounding, so noise no larger than that has no SQNR.
    """
    error = output.bounded.spread()
    parts = [output.bounded.value, output.distance, error]
    finite = torch.isfinite(error)
    if not bool(finite.all()):
        parts = [torch.where(finite, part, 0.0) for part in parts]
    signal, noise, bound = map(_norm, parts)
    allowed = max(bound / math.sqrt(3) * 10 ** (3 / 20), _own_noise(output))
    metrics = {}
    if noise > signal * NOISE > 0:
        metrics["sqnr_db"] = 20 * math.log10(signal / noise)
    if signal > 0 and allowed > 0:
        metrics["sqnr_floor_db"] = 20 * math.log10(signal / allowed)
    if noise <= allowed + signal * NOISE:
        return "", metrics
    metrics["excess"] = noise - (allowed + signal * NOISE)
    if "sqnr_floor_db" not in metrics:
        return f"{output.name}: noise of root sum square {noise:.3g}, expected at most {allowed:.3g}", metrics
    return (
        f"{output.name}: SQNR {metrics['sqnr_db']:.1f} dB, expected at least {metrics['sqnr_floor_db']:.1f} dB",
        metrics,
    )


def _own_noise(output: Output) -> float:
    """The noise of the float golden's own nearest codes, each off by what is ambiguous.

    A float output has that of its code path: a single rounded code may be the source of all of it.
    """
    codes = output.codes
    if codes is None:
        noise = (output.own.value - output.bounded.value).abs_().add_(output.own.error)
        return _norm(noise.masked_fill_(~noise.isfinite(), 0.0))  # of what has no bound, nothing counts
    nearest = (codes.legal.nearest - codes.quant.zero_point) * output.unit
    return _norm((nearest - output.bounded.value).abs_().add_(codes.ambiguous, alpha=output.unit))


def _norm(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values))


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "not_constant": not_constant,
        "not_saturated": not_saturated,
        "gate1": gate1,
        "gate2": gate2,
        "gate3": gate3,
        "gate4": gate4,
    }
)


# ------------------------------------------------------------------------------------ wording


def _unit(quant: Quant, rank: int) -> float | Tensor:
    """An activation's scale in float32, as file formats store it; one per channel along the axis that has them."""
    if not isinstance(quant.scale, tuple):
        return affine(quant).scale32
    sizes = [-1 if axis == quant.axis else 1 for axis in range(rank)]
    return torch.tensor(quant.scale, dtype=torch.float32).to(torch.float64).reshape(sizes)


def place(tensor: Tensor, at: int) -> tuple[int, ...]:
    """The index of the element at a flat index."""
    return tuple(int(index) for index in torch.unravel_index(torch.tensor(at), tensor.shape))


def subscript(tensor: Tensor, at: int) -> str:
    """`[0,3]` for a flat index."""
    return f"[{','.join(map(str, place(tensor, at)))}]"


def _first(flags: Tensor) -> int:
    return int(flags.flatten().to(torch.uint8).argmax())


def _found(output: Output, at: int) -> str:
    actual = output.real if output.codes is None else output.codes.actual
    return f"{output.name}{subscript(actual, at)} = {element(actual, at):g}"


def element(tensor: Tensor, at: int) -> float:
    """The element at a flat index."""
    return float(tensor.flatten()[at])


def _count(flags: Tensor) -> str:
    return f"; {int(flags.sum())} of {flags.numel()} elements"
