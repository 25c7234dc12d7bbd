"""Judges a backend's outputs: guards first, then four gates, none with a tolerance that anyone chose.

gate1: codes against the exact-integer golden, 0 LSB where the vendor names its rescale scheme and the step
    was delegated; else against the float golden's nearest codes, 1 LSB.
gate2: over the case, how many codes are not the float golden's nearest ones, and their signed mean. Only
    elements whose rounding is ambiguous under the scheme's own slack may differ, so their share is the limit.
    Every step starts from codes, so the limit stays sharp behind many steps.
gate3: each element against the float golden of the whole chain, within its bound.
gate4: SQNR over each output against the floor that gate 3's bounds give.

A float output (not quantised) has no codes: gates 3 and 4 only. Values come from two independent
computations: `reference.integer` and `reference.golden`. The simulated devices run the same integer
kernels, so a fault in those passes gate 1; gates 2, 3 and 4 read the float golden and do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import torch
from torch import Tensor

from conformance.chain import Walk, exact_codes, walk
from conformance.graph import Graph, Quant
from reference.golden import Bounded, Codes

EXACT_SCHEMES = frozenset({"tflite_double_round"})
"""The rescale schemes that `reference.integer` computes."""

NOISE = 2.0**-30
"""Relative float64 noise of a bound: sums of 2**20 terms, each with a relative error of 2**-53, stay below."""


@dataclass(frozen=True)
class Golden:
    """What a graph's outputs must be. Everything is computed on first use and kept."""

    graph: Graph
    _walks: dict[tuple[str | None, bool], Walk] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def codes(self) -> tuple[Tensor | None, ...]:
        """Exact-integer codes of every graph output; None for an output that is not quantised throughout."""
        return exact_codes(self.graph)

    def walk(self, scheme: str | None, delegated: bool) -> Walk:
        """The float golden with the slack of a scheme (None: the largest) and, unless delegated, of float32."""
        key = (scheme, delegated)
        if key not in self._walks:
            self._walks[key] = walk(self.graph, scheme, delegated)
        return self._walks[key]


def golden(graph: Graph) -> Golden:
    """The golden of a case's graph. Raises GoldenError (on first use) for an operator without one."""
    return Golden(graph)


@dataclass(frozen=True)
class GateResult:
    """The verdict of one guard or gate over all outputs of a case.

    messages: one per output that failed, naming its worst element; empty when passed.
    metrics: what was measured, and the limit where there is one.
    """

    gate: str
    messages: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def passed(self) -> bool:
        return not self.messages


@dataclass(frozen=True)
class Output:
    """One output beside its goldens. All tensors have the output's shape; codes are float64 whole numbers.

    name: as messages print it, such as "out" or "out1". expected: gate 1's codes, allowed: its LSB.
    actual, expected, legal and quant are None for a float output.
    """

    name: str
    real: Tensor
    bounded: Bounded
    quant: Quant | None = None
    actual: Tensor | None = None
    expected: Tensor | None = None
    allowed: Tensor | None = None
    legal: Codes | None = None

    @property
    def step(self) -> float:
        """The unit of errors: one LSB, or 1 for a float output."""
        return 1.0 if self.quant is None else _scale(self.quant)


Check = Callable[[Output], tuple[str, dict[str, float]]]


def judge(
    golden: Golden,
    outputs: Sequence[Tensor],
    scheme: str | None,
    *,
    delegated: bool = True,
    checks: Mapping[str, Check] | None = None,
) -> tuple[GateResult, ...]:
    """The guards and gates on a model's outputs (float tensors, one per graph output).

    scheme: the vendor's rescale scheme, None when it names none. delegated: whether the backend took the
    subject; a model that runs by fallback computes in float32, so gate 1 is not exact for it.
    A failed guard "outputs" (count, shape, dtype, NaN, not on the grid) is the only result then: nothing
    else can be measured. Raises ValueError for a scheme without an exact golden.
    """
    if scheme is not None and scheme not in EXACT_SCHEMES:
        raise ValueError(f"rescale scheme: found {scheme!r}, expected one of {sorted(EXACT_SCHEMES)}, or None")
    run = golden.walk(scheme, delegated)
    faults = tuple(_malformed(run, outputs))
    if faults:
        return (GateResult("outputs", faults),)
    exact = golden.codes if delegated and scheme is not None else (None,) * len(outputs)
    beside = [_beside(run, index, output, exact[index]) for index, output in enumerate(outputs)]
    chosen = CHECKS if checks is None else checks
    return (GateResult("outputs"), *(_over_outputs(name, check, beside) for name, check in chosen.items()))


def _over_outputs(name: str, check: Check, outputs: Sequence[Output]) -> GateResult:
    """One check over all outputs; each metric is the worst: the largest, or the smallest for `sqnr_*`."""
    messages, metrics = [], dict[str, float]()
    for output in outputs:
        message, measured = check(output)
        messages += [message] if message else []
        for key, value in measured.items():
            worse = min if key.startswith("sqnr") else _larger
            metrics[key] = worse(metrics[key], value) if key in metrics else value
    return GateResult(name, tuple(messages), MappingProxyType(metrics))


def _larger(a: float, b: float) -> float:
    """The one of larger size; a bias keeps its sign."""
    return max(a, b, key=abs)


# ------------------------------------------------------------------------------------ well-formed


def _malformed(run: Walk, outputs: Sequence[Tensor]) -> Iterator[str]:
    """Why the outputs cannot be compared: count, shape, dtype, NaN or infinity, off the grid."""
    if len(outputs) != len(run.bounded):
        yield f"found {len(outputs)} outputs, expected {len(run.bounded)}"
        return
    for index, output in enumerate(outputs):
        fault = _fault(run, index, output)
        if fault:
            yield f"{_name(index, len(outputs))}{fault}"


def _fault(run: Walk, index: int, output: Tensor) -> str:
    shape, dtype = tuple(run.bounded[index].value.shape), run.dtypes[index]
    if tuple(output.shape) != shape:
        return f": shape {list(output.shape)}, expected {list(shape)}"
    if output.dtype != dtype:
        return f": dtype {output.dtype}, expected {dtype}"
    if not output.is_floating_point():
        return ""
    finite = torch.isfinite(output)
    if not bool(finite.all()):
        return f"{_worst_at(~finite)}, expected a finite number{_count(~finite)}"
    quant = run.quants[index]
    return "" if quant is None else _off_grid(output, quant)


def _off_grid(output: Tensor, quant: Quant) -> str:
    """A dequantised float32 is a whole number of steps, but for its own rounding (2**-23 of it)."""
    steps = output.to(torch.float64) / _scale(quant)
    distance = (steps - steps.round()).abs()
    off = (distance > steps.abs() * 2.0**-22) | (steps.round() + quant.zero_point < quant.qmin)
    off |= steps.round() + quant.zero_point > quant.qmax
    if not bool(off.any()):
        return ""
    at = _first(off)
    limits = f"codes {quant.qmin}..{quant.qmax} of scale {_scale(quant):g}, zero point {quant.zero_point}"
    return f"{_subscript(off, at)} = {float(output.flatten()[at]):g}, expected one of {limits}{_count(off)}"


def _beside(run: Walk, index: int, output: Tensor, exact: Tensor | None) -> Output:
    """An output with its goldens; without exact codes gate 1 takes the nearest ones and 1 LSB."""
    name, quant, legal = _name(index, len(run.bounded)), run.quants[index], run.codes[index]
    real = output.to(torch.float64)
    if quant is None or legal is None:
        return Output(name, real, run.bounded[index])
    actual = (real / _scale(quant)).round() + quant.zero_point
    if exact is not None:
        expected, allowed = exact.to(torch.float64), torch.zeros((), dtype=torch.float64)
    else:
        expected, allowed = legal.nearest, legal.ambiguous().clamp_(min=1)
    return Output(name, real, run.bounded[index], quant, actual, expected, allowed, legal)


# ------------------------------------------------------------------------------------ guards


def not_constant(output: Output) -> tuple[str, dict[str, float]]:
    """Guard: one and the same number everywhere, where no single number is legal everywhere."""
    low, high = _legal_range(output)
    found = output.real if output.actual is None else output.actual
    if found.numel() < 2 or bool(found.min() < found.max()) or bool(low.max() <= high.min()):
        return "", {}
    return f"{output.name} is {float(found.flatten()[0]):g} everywhere, the golden is not constant", {}


def not_saturated(output: Output) -> tuple[str, dict[str, float]]:
    """Guard: nothing but qmin and qmax, where some element may be neither."""
    quant, legal, actual = output.quant, output.legal, output.actual
    if quant is None or legal is None or actual is None or actual.numel() == 0:
        return "", {}
    inside = (legal.low > quant.qmin) & (legal.high < quant.qmax)
    if bool(((actual > quant.qmin) & (actual < quant.qmax)).any()) or not bool(inside.any()):
        return "", {}
    return f"{output.name} holds only {quant.qmin} and {quant.qmax}, the golden does not{_count(inside)}", {}


def _legal_range(output: Output) -> tuple[Tensor, Tensor]:
    if output.legal is not None:
        return output.legal.low, output.legal.high
    return output.bounded.value - output.bounded.error, output.bounded.value + output.bounded.error


# ------------------------------------------------------------------------------------ gates


def gate1(output: Output) -> tuple[str, dict[str, float]]:
    """Codes, element by element."""
    if output.actual is None or output.expected is None or output.allowed is None or output.actual.numel() == 0:
        return "", {}
    distance = (output.actual - output.expected).abs()
    metrics = {"max_lsb": float(distance.max())}
    wrong = distance > output.allowed
    if not bool(wrong.any()):
        return "", metrics
    at = int((distance - output.allowed).argmax())
    allowed = float(output.allowed.expand_as(distance).flatten()[at])
    how = "exact" if allowed == 0 else f"+- {allowed:g} LSB"
    return f"{_found(output, at)}, expected {float(output.expected.flatten()[at]):g} ({how}){_count(wrong)}", metrics


def gate2(output: Output) -> tuple[str, dict[str, float]]:
    """Share of codes that are not the nearest, and their signed mean, against the share that may differ."""
    if output.actual is None or output.legal is None or output.actual.numel() == 0:
        return "", {}
    error, may = output.actual - output.legal.nearest, output.legal.ambiguous()
    count = error.numel()
    rate, rate_limit = float((error != 0).sum()) / count, float((may > 0).sum()) / count
    bias, bias_limit = float(error.sum()) / count, float(may.sum()) / count
    metrics = {"off_by_one_rate": rate, "rate_limit": rate_limit, "bias": bias, "bias_limit": bias_limit}
    if rate <= rate_limit and abs(bias) <= bias_limit:
        return "", metrics
    at = int((error.abs() - may).argmax())
    text = (
        f"{output.name}: {rate:.2%} of codes are not the nearest (limit {rate_limit:.2%}), mean error {bias:+.4f} LSB"
    )
    nearest = float(output.legal.nearest.flatten()[at])
    return f"{text} (limit {bias_limit:.4f}); {_found(output, at)}, nearest {nearest:g}", metrics


def gate3(output: Output) -> tuple[str, dict[str, float]]:
    """Distance to the float golden over its bound, element by element."""
    if output.real.numel() == 0:
        return "", {}
    distance, bound = _distance_and_bound(output)
    wrong = distance > bound
    ratio = torch.where(distance > 0, distance / bound, 0.0)
    metrics = {"worst_ratio_to_bound": float(ratio.max())}
    if not bool(wrong.any()):
        return "", metrics
    at = int(torch.where(wrong, distance - bound, -torch.inf).argmax())
    value, most = float(output.bounded.value.flatten()[at]), float(bound.expand_as(distance).flatten()[at])
    found = f"{output.name}{_subscript(distance, at)} = {float(output.real.flatten()[at]):.6g}"
    unit = "" if output.quant is None else f", {most / output.step:.3g} LSB"
    return f"{found}, expected {value:.6g} +- {most:.3g}{unit} (float){_count(wrong)}", metrics


def gate4(output: Output) -> tuple[str, dict[str, float]]:
    """SQNR in dB against its floor.

    Errors spread evenly over +-E have the root mean square E / sqrt(3); the floor is 3 dB under that. Few
    or tied elements are not spread evenly, so the floor never asks for more than what the nearest codes,
    off by what is ambiguous, reach themselves.
    """
    distance, _ = _distance_and_bound(output)
    error = output.bounded.spread()
    finite = torch.isfinite(error)
    if not bool(finite.any()):
        return "", {}
    signal, noise, rms = (_norm(torch.where(finite, t, 0.0)) for t in (output.bounded.value, distance, error))
    allowed = max(rms / math.sqrt(3) * 10 ** (3 / 20), _own_noise(output))
    metrics = {}
    if signal > 0 and noise > 0:
        metrics["sqnr_db"] = 20 * math.log10(signal / noise)
    if signal > 0 and allowed > 0:
        metrics["sqnr_floor_db"] = 20 * math.log10(signal / allowed)
    if noise <= allowed + signal * NOISE:
        return "", metrics
    if "sqnr_floor_db" not in metrics:
        return f"{output.name}: noise of root sum square {noise:.3g}, expected at most {allowed:.3g}", metrics
    return (
        f"{output.name}: SQNR {metrics['sqnr_db']:.1f} dB, expected at least {metrics['sqnr_floor_db']:.1f} dB",
        metrics,
    )


def _own_noise(output: Output) -> float:
    """The noise of the float golden's own nearest codes, each off by what is ambiguous."""
    if output.quant is None or output.legal is None:
        return 0.0
    nearest = (output.legal.nearest - output.quant.zero_point) * output.step
    return _norm((nearest - output.bounded.value).abs() + output.legal.ambiguous() * output.step)


def _distance_and_bound(output: Output) -> tuple[Tensor, Tensor]:
    """Distance to the float golden, and the bound with float64's own noise.

    A quantised output counts as its code times the scale: its float32 rounding is not the backend's.
    """
    real = output.real
    if output.actual is not None and output.quant is not None:
        real = (output.actual - output.quant.zero_point) * output.step
    bound = (output.bounded.error + output.bounded.magnitude * NOISE).expand_as(real)
    return (real - output.bounded.value).abs(), bound


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


def _scale(quant: Quant) -> float:
    """An activation's scale as file formats keep it. Raises ValueError for a per-channel one."""
    if isinstance(quant.scale, tuple):
        raise ValueError(f"quantisation of an output: found {len(quant.scale)} scales, expected 1")
    return float(torch.tensor(quant.scale, dtype=torch.float32))


def _name(index: int, count: int) -> str:
    return "out" if count == 1 else f"out{index}"


def _subscript(tensor: Tensor, at: int) -> str:
    """`[0,3]` for a flat index."""
    place = []
    for size in reversed(tensor.shape):
        place.append(at % size)
        at //= size
    return f"[{','.join(map(str, reversed(place)))}]"


def _first(flags: Tensor) -> int:
    return int(flags.flatten().to(torch.uint8).argmax())


def _worst_at(flags: Tensor) -> str:
    return f"{_subscript(flags, _first(flags))} is not finite"


def _found(output: Output, at: int) -> str:
    actual = output.real if output.actual is None else output.actual
    return f"{output.name}{_subscript(actual, at)} = {float(actual.flatten()[at]):g}"


def _count(flags: Tensor) -> str:
    return f"; {int(flags.sum())} of {flags.numel()} elements"
