"""Checks the metrics of a record: a gate that did not fail cannot have measured more than its limit.

`metric_problems` needs only the record. `limit_problem` compares with the limits of gates 1 and 2, which follow from
the case's goldens; only to compute these is torch loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from npu_assay.conformance.judge.known_limits import KnownLimits
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import NOISE, CaseResult, Number

GATE_OF: Mapping[str, str] = {
    "max_lsb": "gate1",
    "allowed_lsb": "gate1",
    "bias": "gate2",
    "off_by_one_rate": "gate2",
    "worst_ratio_to_bound": "gate3",
    "bound_lsb": "gate3",
    "bound_share": "gate3",
    "sqnr_db": "gate4",
    "sqnr_floor_db": "gate4",
}
"""The gate that measures each metric."""
NOT_FINITE = ("inf", "-inf", "nan")
LIMITS = ("allowed_lsb", "bound_lsb", "bound_share")
"""The metrics that are limits of gates; infinite where the gate allows any number."""
MEASURED = ("max_lsb", "off_by_one_rate", "bias")
"""The metrics that gates 1 and 2 limit, in the order of `CodeLimits`."""
LARGEST = 1000.0  # dB of which the ratio is still a float
HALF_DIGIT = 5e-6  # by which six significant digits are off, relatively


def metric_problems(result: CaseResult) -> Iterator[str]:
    """The metrics that no gate can have measured, or that exceed the limit of a gate that did not fail."""
    failed = {failure.check for failure in result.failures}
    for check, value in result.checks.items():
        if not _is_excess(value):
            yield f"{check}: invalid excess {value!r}, expected a number >= 0, or 'inf'"
    for name, value in result.metrics.items():
        limitless = (value in NOT_FINITE and GATE_OF[name] in failed) or (name in LIMITS and value == "inf")
        if not (value is None or _is_real(value) or limitless):
            yield f"{name} is {value!r}, expected a finite float of {GATE_OF[name]}"
            return
    if not failed and result.verdict != "accept" and any(value is not None for value in result.metrics.values()):
        yield "metrics are recorded for right outputs that torch computed, expected none"
    numbers = {name: value for name, value in result.metrics.items() if _is_real(value) and GATE_OF[name] not in failed}
    yield from _beyond(numbers)


def _is_real(value: Number) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_excess(value: Number) -> bool:
    return value == "inf" if isinstance(value, str) else value is not None and 0 <= value < math.inf


def _beyond(numbers: Mapping[str, Number]) -> Iterator[str]:
    """The metrics beyond limits that do not need the goldens. numbers: finite, of gates that did not fail."""
    found = {name: value for name, value in numbers.items() if isinstance(value, float)}
    lsb, rate, ratio = (found.get(name, 0.0) for name in ("max_lsb", "off_by_one_rate", "worst_ratio_to_bound"))
    for name in LIMITS:
        if found.get(name, 0.0) < 0:
            yield f"{name} is {found[name]:g}, expected at least 0"
    if lsb < 0 or lsb != round(lsb):
        yield f"max_lsb is {lsb:g}, expected a whole number"
    if lsb > found.get("allowed_lsb", math.inf):
        yield f"max_lsb is {lsb:g} and allowed_lsb {found['allowed_lsb']:g}, but no failure is recorded"
    if not 0 <= rate <= 1:
        yield f"off_by_one_rate is {rate:g}, expected a share from 0 to 1"
    if not 0 <= ratio <= 1:
        yield f"worst_ratio_to_bound is {ratio:g}, gate3 allows 0 to 1, but no failure is recorded"
    if "sqnr_db" in found and found["sqnr_db"] < _lowest(found.get("sqnr_floor_db")):
        floor = f"{found['sqnr_floor_db']:g}" if "sqnr_floor_db" in found else "none"
        yield f"sqnr_db is {found['sqnr_db']:g}, below its floor {floor}, but no failure of gate4 is recorded"


def _lowest(floor: float | None) -> float:
    """The smallest SQNR in dB that passes gate 4, which adds the golden's own noise to what the floor allows."""
    if floor is None:
        return math.inf
    if floor < -LARGEST:
        return floor
    return -20 * math.log10(10 ** (-floor / 20) + NOISE) - HALF_DIGIT * 2 * abs(floor)


# ------------------------------------------------------------------------------------ with the goldens


def limit_problem(result: CaseResult, case: Case, known: KnownLimits) -> str | None:
    """How the record of an accepted case exceeds the limits of gates 1 and 2, although no check failed; None if not.

    Where all that it measured is zero, the limits are not asked for.
    """
    if result.failures or not any(_sizes(result)):
        return None
    limits = known.of(case.graph)
    if limits is None:
        return "codes are measured, but no output of the case has codes that can be compared"
    for name, found, limit in zip(MEASURED, _sizes(result), limits, strict=True):
        if found > limit:
            return f"{name} is {found:g}, {GATE_OF[name]} allows {limit:g}, but no failure is recorded"
    return None


def _sizes(result: CaseResult) -> tuple[float, ...]:
    measured = (result.metrics[name] for name in MEASURED)
    return tuple(abs(value) if isinstance(value, float) else 0.0 for value in measured)
