"""Judges a backend's outputs: guards first, then four gates, whose limits are all computed.

gate1: codes against the exact-integer golden, 0 LSB, where the vendor names its rescale scheme and the model
    was delegated; else against the float golden's nearest codes, 1 LSB. Reals that the scheme computes in one
    known way: to the last bit.
gate2: over the case, how many codes are not the float golden's nearest ones, and their signed mean. Only
    elements whose rounding is ambiguous under the scheme's own error bound may differ, so their share is the limit.
gate3: each element against the float golden of the whole chain, within its bound, and where the operands of the last
    step are known exactly, against that of this step; and every step of the integer golden against the float golden
    of that step alone.
gate4: SQNR over each output against the floor that gate 3's bounds give.

Any other float output has no codes: gates 3 and 4 only. The numbers come from two independent
computations, `npu_assay.reference.integer` and `npu_assay.reference.golden`. The simulated devices share no arithmetic
with the first where it computes on integers, and none with the second. Real numbers that XNNPACK computes in one known
way (activations quantized at run time) are its device's own kernels in both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from torch import Tensor

from npu_assay.conformance.judge.float_golden import NOTHING, Walk, walk
from npu_assay.conformance.judge.gates import CHECKS, FORM, Check, Coded, Output
from npu_assay.conformance.judge.integer_golden import TFLITE, Exact, affine, exact_values
from npu_assay.conformance.programs.graph import Graph
from npu_assay.reference.golden.special import finite_part, other_class
from npu_assay.reference.integer import SCHEMES
from npu_assay.reference.integer.operand import QTensor

SMALLEST_NORMAL = torch.finfo(torch.float32).tiny
NUMBERS_OF_FORM = frozenset({"finite", "on_grid"})
"""The guards of `FORM` that look at numbers."""
EXACT_SCHEMES = frozenset(SCHEMES)
"""The rescale schemes that `npu_assay.reference.integer` computes."""


@dataclass(frozen=True)
class Golden:
    """What a graph's outputs must be. Everything is computed on first use and kept."""

    graph: Graph
    _exact: dict[str, Exact] = field(default_factory=dict, repr=False, compare=False)
    _walks: dict[tuple[str | None, bool], Walk] = field(default_factory=dict, repr=False, compare=False)

    def exact(self, scheme: str = TFLITE) -> Exact:
        """The exact golden of every value and step, in the arithmetic of a scheme."""
        if scheme not in self._exact:
            self._exact[scheme] = exact_values(self.graph, scheme)
        return self._exact[scheme]

    def codes(self, scheme: str = TFLITE) -> tuple[Tensor | None, ...]:
        """Exact codes of every graph output; None for an output that is not known exactly, or not quantized."""
        found = (self.exact(scheme).codes.get(ref) for ref in self.graph.outputs)
        return tuple(None if x is None else x.codes for x in found)

    def reals(self, scheme: str = TFLITE) -> tuple[Tensor | None, ...]:
        """Exact numbers of every graph output that is not quantized, in float64; None for any other."""
        found = (self.exact(scheme).reals.get(ref) for ref in self.graph.outputs)
        return tuple(None if x is None else x.to(torch.float64) for x in found)

    def walk(self, scheme: str | None, delegated: bool) -> Walk:
        """The float golden with the error bound of a scheme (None: the largest) and, unless delegated, of float32."""
        key = (scheme, delegated)
        if key not in self._walks:
            exact = self.exact(scheme) if delegated and scheme is not None else NOTHING
            self._walks[key] = walk(self.graph, scheme, delegated, exact)
        return self._walks[key]


def golden(graph: Graph) -> Golden:
    """The golden of a case's graph. Raises GoldenError (on first use) for an operator without one."""
    return Golden(graph)


@dataclass(frozen=True)
class GateResult:
    """The verdict of one guard or gate over all outputs of a case.

    messages: one per output that failed, naming its worst element; empty when passed.
    metrics: what was measured, and the limit where there is one.
    excess: by how much the worst output passes the limit, in the gate's own unit (for a guard, how many
    outputs are at fault); infinite when the goldens contradict each other; 0 exactly when passed.
    """

    gate: str
    messages: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    excess: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.messages


def judge(
    golden: Golden,
    outputs: Sequence[Tensor],
    scheme: str | None,
    *,
    delegated: bool = True,
    without: Collection[str] = (),
) -> tuple[GateResult, ...]:
    """The guards and gates on a model's outputs (float tensors, one per graph output).

    scheme: the vendor's rescale scheme, None when it names none. delegated: whether the backend took the
    subject; a model that runs by fallback computes in float32, so gate 1 is not exact for it. without:
    names of `FORM` and `CHECKS` to leave out, to show what only they catch.
    If an output is not well formed (`FORM`), the results end with that guard: nothing else can be measured.
    Raises ValueError for a scheme without an exact golden.
    """
    if scheme is not None and scheme not in EXACT_SCHEMES:
        raise ValueError(f"rescale scheme: found {scheme!r}, expected one of {sorted(EXACT_SCHEMES)}, or None")
    run = golden.walk(scheme, delegated)
    form = tuple(_well_formed(run, outputs, without))
    if not all(result.passed for result in form):
        return form
    compared = beside(golden, outputs, scheme, delegated)
    chosen = [(name, check) for name, check in CHECKS.items() if name not in without]
    return (*form, *(_over_outputs(name, check, compared, run) for name, check in chosen))


def is_exact(golden: Golden, outputs: Sequence[Tensor], scheme: str) -> bool:
    """True if every output is what the scheme's arithmetic gives, to the last bit: no gate fails then.

    That is quick to see. Where it is not so, or the arithmetic leaves something open, only the gates can tell.
    """
    exact, refs = golden.exact(scheme), golden.graph.outputs
    known = [_dequantized(exact.codes[ref]) if ref in exact.codes else exact.reals.get(ref) for ref in refs]
    return len(outputs) == len(known) and all(map(_is_same, outputs, known))


def _dequantized(x: QTensor) -> Tensor | None:
    return None if isinstance(x.scale, tuple) else (x.codes.to(torch.float32) - x.zero_point) * x.scale


def _is_same(output: Tensor, known: Tensor | None) -> bool:
    return known is not None and output.dtype == known.dtype and torch.equal(output, known)


def beside(golden: Golden, outputs: Sequence[Tensor], scheme: str | None, delegated: bool) -> list[Output]:
    """Well-formed outputs with what the gates compare them with."""
    run, unknown = golden.walk(scheme, delegated), (None,) * len(outputs)
    known = delegated and scheme is not None
    codes, reals = (golden.codes(scheme), golden.reals(scheme)) if known and scheme else (unknown, unknown)
    return [_beside(run, index, output, codes[index], reals[index]) for index, output in enumerate(outputs)]


def judge_form(golden: Golden, outputs: Sequence[Tensor]) -> tuple[GateResult, ...]:
    """The guards on the count, shapes and dtypes of a model's outputs, without those on their numbers."""
    return tuple(_well_formed(golden.walk(None, False), outputs, NUMBERS_OF_FORM))


def _over_outputs(name: str, check: Check, outputs: Sequence[Output], run: Walk) -> GateResult:
    """One check over all outputs; each metric is the worst: the largest, or the smallest for `sqnr_*`.

    Gate 3 also holds for every step of the integer golden itself.
    """
    messages = list(run.contradictions) if name == "gate3" else []
    excess = math.inf if messages else 0.0
    metrics = dict[str, float]()
    for output in outputs:
        message, measured = check(output)
        messages += [message] if message else []
        excess = max(excess, measured.pop("excess", 1.0 if message else 0.0))
        for key, value in measured.items():
            worse = min if key.startswith("sqnr") else _larger
            metrics[key] = worse(metrics[key], value) if key in metrics else value
    return GateResult(name, tuple(messages), MappingProxyType(metrics), excess)


def _larger(a: float, b: float) -> float:
    """The one with the larger absolute value, with its sign."""
    return max(a, b, key=abs)


def _well_formed(run: Walk, outputs: Sequence[Tensor], without: Collection[str]) -> Iterator[GateResult]:
    """The guards on the count of outputs and of `FORM`, up to the first that fails."""
    if len(outputs) != len(run.bounded):
        message = f"found {len(outputs)} outputs, expected {len(run.bounded)}"
        yield GateResult("count", (message,), excess=abs(len(outputs) - len(run.bounded)))
        return
    for guard, fault in FORM.items():
        if guard in without:
            continue
        found = [(_name(index, len(outputs)), fault(run, index, output)) for index, output in enumerate(outputs)]
        messages = tuple(f"{name}{text}" for name, text in found if text)
        yield GateResult(guard, messages, excess=len(messages))
        if messages:
            return


def _beside(run: Walk, index: int, output: Tensor, exact: Tensor | None, real_exact: Tensor | None) -> Output:
    """An output with its goldens; without exact codes gate 1 takes the nearest ones and 1 LSB."""
    name, quant, legal, bounded = (
        _name(index, len(run.bounded)),
        run.quants[index],
        run.codes[index],
        run.bounded[index],
    )
    real = output.to(torch.float64)
    if quant is None or legal is None:
        if (
            real_exact is not None and output.dtype == torch.float32
        ):  # 0 there stands for what is below the normal range
            real_exact = torch.where((real_exact == 0) & (real.abs() < SMALLEST_NORMAL), real, real_exact)
        last = run.last[index]
        found = Output(name, real, bounded, real, None, 1.0, run.own[index], real_exact, last, run.indices[index])
        return _beside_floats(found)
    unit = affine(quant).scale32
    steps = (real / unit).round()
    real, ambiguous = steps * unit, legal.ambiguous()
    if exact is not None:
        coded = Coded(quant, steps + quant.zero_point, exact.to(torch.float64), _NONE, legal, ambiguous)
    else:
        coded = Coded(quant, steps + quant.zero_point, legal.nearest, ambiguous.clamp(min=1), legal, ambiguous)
    distance, own, last = (real - bounded.value).abs(), run.own[index], run.last[index]
    return Output(name, real, bounded, distance, coded, unit, own, last=last)


def _beside_floats(output: Output) -> Output:
    """A float output with its distances. Elements whose golden is NaN or infinite are 0 in both, if they match.

    The guard `finite` has compared these elements; against an exact golden, they are compared here.
    """
    special = ~output.bounded.value.isfinite()
    real, exact = output.real, output.exact
    if bool(special.any()):
        if exact is not None:
            alike = (real == exact) | (real.isnan() & exact.isnan())
            exact = torch.where(special, torch.where(alike, 0.0, exact), exact)
        matched = special & ~other_class(real, output.bounded)
        real = real.masked_fill(matched, 0.0)
    bounded, own = finite_part(output.bounded), finite_part(output.own)
    last = None if output.last is None else finite_part(output.last)
    distance = (real - bounded.value).abs()
    return replace(output, real=real, bounded=bounded, distance=distance, own=own, exact=exact, last=last)


_NONE = torch.zeros((), dtype=torch.float64)


def _name(index: int, count: int) -> str:
    return "out" if count == 1 else f"out{index}"
