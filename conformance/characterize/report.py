"""Findings as lines for a terminal, as Markdown and as JSON; what is inferred stands apart from what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npu_assay import __version__
from npu_assay.conformance.characterize.asking import Characterization
from npu_assay.conformance.characterize.plan import RESULTS, Change, Finding
from npu_assay.conformance.characterize.probes import OPERAND, PLAIN, RATIO, SIZE, SPREAD, TERMS
from npu_assay.conformance.characterize.samples import NEAREST, Sample, Ties, rule_text
from npu_assay.conformance.common.escaped import counted, shorten
from npu_assay.conformance.common.markup import code, markdown_table

SCHEMA = 1
LONGEST = 200  # characters of a reason
INTERVAL = (
    "99 %, from results or from programs, the wider; at least what as many results without a difference leave open"
)
TITLES = (
    "operator",
    "precision",
    "results",
    "not the nearest",
    "bias, LSB",
    "largest, LSB",
    "ties (inferred)",
    "rounding (inferred)",
)
VARIED = {
    (SPREAD, False): "scales of the result, and numbers",
    (OPERAND, True): "scales of the operand, and numbers",
    (SPREAD, True): "numbers",
    (PLAIN, False): "nothing",
}
UNITS = {RATIO: "ratio of scales", TERMS: "terms", SIZE: "size", SPREAD: "other scales and numbers"}
HALF = 0.5
ALWAYS = 0.995
"""The share of results that a rule must explain."""
LARGE = 0.05
HALVES = (0.3, 0.7)
"""Between which a share counts as half of another."""


# ------------------------------------------------------------------------------------ inferred


def rounding(found: Finding) -> str:
    """The rule that explains all results, or what is known of it; "" where nothing was measured."""
    now = found.sample
    if not now.results:
        return ""
    if not now.between:
        return "unknown: all results are codes exactly"
    ways = {"down": now.floors, "up": now.ceilings, "toward zero": now.cuts}
    whole = [f"always {name}" for name, count in ways.items() if count >= ALWAYS * now.between and now.wrong]
    if whole:
        return whole[0]
    if rounds_twice(found):
        return "to the nearest, twice: first to a whole number of the sum's steps"
    if now.most < NEAREST:
        near = f", but for results within {now.most - 0.5:.1g} LSB of a tie" if now.wrong else ""
        return f"to the nearest{near}"
    return "biased" if abs(now.bias) > now.half_width else "to a neighbor that is not always the nearest"


def rounds_twice(found: Finding) -> bool:
    """True if a large share of results that are not the nearest halves with the ratio, twice in a row."""
    shares = [found.ratios[k].share for k in range(5) if k in found.ratios]
    low, high = HALVES
    triples = zip(shares, shares[1:], shares[2:], strict=False)
    return any(a > LARGE and low * a < b < high * a and low * b < c < high * b for a, b, c in triples)


def ties_of(found: Finding) -> dict[str, Ties]:
    """All ties that were seen, by where they were: apart where a ratio changes which way they go."""
    starts, parts = [0], [Ties()]
    for k, power in found.powers.items():
        if parts[-1].count and parts[-1].rules and power.ties.count and not set((parts[-1] + power.ties).rules):
            starts.append(k)
            parts.append(Ties())
        parts[-1] += power.ties
    if len(parts) == 1:
        return {"": parts[0] + found.sample.ties}
    return {f"from 2**-{first} on": ties for first, ties in zip(starts, parts, strict=True)}


def ties_text(found: Finding) -> str:
    """Which way ties go, and how many there were."""
    parts = {where: ties for where, ties in ties_of(found).items() if ties.count} or {"": Ties()}
    return "; ".join(f"{rule_text(ties)} {where}".rstrip() + f" ({ties.count})" for where, ties in parts.items())


# ------------------------------------------------------------------------------------ text


def lines(found: Characterization, verbose: bool = False) -> Iterator[str]:
    """What was measured of each operator, and what follows from it."""
    yield f"{found.backend} by {found.table}: {counted(len(found.findings), 'operator')}, by precision"
    for finding in found.findings:
        yield from finding_lines(finding, verbose)


def finding_lines(found: Finding, verbose: bool = False) -> Iterator[str]:
    """The lines of one operator in one precision."""
    yield " ".join(filter(None, (found.row, found.precision)))
    if found.sample.results or found.sample.ties.count:
        yield f"  measured: {_measured(found.sample)}"
        yield f"  ties: {ties_text(found)}"
        yield f"  inferred: {rounding(found)}"
    yield from (f"  {line}" for line in (*map(change_text, found.changes), *_hidden(found)))
    if verbose:
        yield from (f"  ratio 2**-{k}: {_measured(sample)}" for k, sample in found.ratios.items() if sample.results)
    yield from (f"  {_unknown(what, why)}" for what, why in found.why.items())


def _hidden(found: Finding) -> Iterator[str]:
    """From which ratio on nothing can be seen of rounding."""
    small = [k for k, sample in found.ratios.items() if sample.results and sample.largest < HALF]
    if small:
        yield f"hidden from ratio of scales 2**-{small[0]} on: exact results are less than half a code"


def _measured(now: Sample) -> str:
    text = f"{now.wrong} of {now.results} results are not the nearest code ({now.share:.2%}), bias {_bias(now)} LSB"
    far = f", {now.far} by more than one code" if now.far else ""
    lost = f", {now.lost} that are no code" if now.lost else ""
    return f"{text}, at most {now.most:.3f} LSB from the exact result{far}{lost}"


def _bias(now: Sample) -> str:
    return f"{now.bias:+.4f} +- {now.half_width:.4f}"


def change_text(change: Change) -> str:
    """Where results change, and how."""
    unit, what = UNITS[change.knob], shorten(change.what, LONGEST)
    if not change.exact:
        return f"changes between {unit} {change.last} and {change.first}, without an exact limit: {what}"
    if change.knob == RATIO:
        return f"changes {'below' if change.below else 'from'} {unit} 2**-{change.first}: {what}"
    results = f", {change.results} results" if change.knob == SIZE else ""
    return f"changes from {unit} {change.first} on{results} (not at {change.last}): {what}"


def _unknown(what: str, why: str) -> str:
    named = "" if what == PLAIN else f"{UNITS.get(what, what)}: "
    return f"not characterized: {named}{shorten(why, LONGEST)}"


def markdown(found: Characterization) -> str:
    """A page: a table of all operators that gave results, then changes, and what is not known."""
    measured = [finding for finding in found.findings if finding.sample.results]
    parts = [
        f"# How {found.backend} rounds",
        f"Measured by npu-assay {__version__}, programs of {found.table}, seed {found.request.seed}. "
        f"Interval of the bias: {INTERVAL}.",
        markdown_table(TITLES, [_row(finding) for finding in measured]),
        "## Changes",
        *_listed((finding, map(change_text, finding.changes)) for finding in found.findings),
        "## Not characterized",
        *_listed((finding, (_unknown(*item) for item in finding.why.items())) for finding in found.findings),
    ]
    return "\n\n".join(parts) + "\n"


def _row(found: Finding) -> tuple[str, ...]:
    now = found.sample
    numbers = (f"{now.results}", f"{now.share:.2%}", _bias(now), f"{now.most:.3f}")
    return (code(found.row), found.precision, *numbers, ties_text(found), rounding(found))


def _listed(parts: Any) -> Iterator[str]:
    text = "\n".join(f"- {code(one.row)} {one.precision}: {code(line)}" for one, told in parts for line in told)
    yield text or "None."


# ------------------------------------------------------------------------------------ JSON


def as_json(found: Characterization) -> dict[str, Any]:
    """All of it, as docs/characterize.md says."""
    return {
        "schema": SCHEMA,
        "suite": __version__,
        "backend": found.backend,
        "spec": found.request.backend,
        "table": found.table,
        "seed": found.request.seed,
        "interval": INTERVAL,
        "wanted_results": RESULTS,
        "operators": [record(finding) for finding in found.findings],
    }


def record(found: Finding) -> dict[str, Any]:
    """One operator in one precision."""
    return {
        "operator": found.row,
        "precision": found.precision,
        "programs": found.programs,
        "varied": "" if found.way is None else VARIED[found.way.knob, found.way.held],
        "measured": _sample(found.sample)
        | {
            "ratios": [{"k": k} | _sample(sample) for k, sample in found.ratios.items()],
            "powers": [{"k": k} | _sample(sample) for k, sample in found.powers.items()],
            "asked": {knob: list(limits) for knob, limits in found.asked.items()},
            "changes": [vars(change) for change in found.changes],
        },
        "inferred": {
            "rounding": rounding(found),
            "ties": {where: list(ties.rules) for where, ties in ties_of(found).items() if ties.count},
        },
        "not_characterized": found.why,
    }


def _sample(now: Sample) -> dict[str, Any]:
    return {
        "results": now.results,
        "not_nearest": now.wrong,
        "bias": round(now.bias, 6),
        "bias_interval": [round(now.bias + sign * now.half_width, 6) for sign in (-1, 1)],
        "bias_below_zero": round(now.bias_of(positive=False), 6),
        "bias_above_zero": round(now.bias_of(positive=True), 6),
        "largest_distance": round(now.most, 6),
        "largest_result": round(now.largest, 6),
        "by_more_than_one": now.far,
        "no_code": now.lost,
        "ties": {"up": now.ties.up, "down": now.ties.down, "elsewhere": now.ties.far},
    }
