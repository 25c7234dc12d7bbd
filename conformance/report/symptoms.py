"""What a failing case shows, in words: the kind of fault, and where to look for it.

A fault in a backend breaks many cases at once. Cases with the same symptom belong together, so that a reader
sees few faults and not many failures.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from npu_assay.conformance.record.results import SUITE, CaseResult, Number


@dataclass(frozen=True)
class Symptom:
    """One kind of failure.

    what: a headline, for one case as for many. look: where such a fault usually stands. rule: code of the
    constraint that it is about, or None. traits: whether it helps to ask what the cases have in common.
    """

    what: str
    look: str
    rule: str | None = None
    traits: bool = False


def symptom(result: CaseResult, rescale: str, absent: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Symptom:
    """The symptom of a failing case; of several, the one that explains the others.

    rescale: the table's scheme. absent: rows that are not delegated at all, with the reasons given (`undelegated`).
    """
    checks = {failure.check for failure in result.failures}
    if result.status == "undecided":
        return _OTHER[SUITE] if SUITE in checks else _UNDECIDED
    if "tag" in checks and (result.verdict, result.expect) == ("accept", "reject"):
        return _tag(result)  # what it ends in, an error or wrong numbers, follows from that
    if "crash" in checks:
        return _crash(next(f.message for f in result.failures if f.check == "crash"))
    for check in checks & _STOPPED.keys():
        return _STOPPED[check]
    if checks & {"tag", "reason"}:
        return _tag(result, absent.get(result.row))
    for check, found in _OTHER.items():
        if check in checks:
            return found
    return _numbers(result, checks, rescale)


REFUSED = "Delegated, but the compiler refuses it"


def _crash(message: str) -> Symptom:
    """`message` is "stage: error: ..."; a process that died has neither stage nor error."""
    stage, _, error = message.partition(": ")
    if not error or error.startswith("the process "):
        how = error.partition("(")[2].partition(")")[0]
        what = f"The process died{how and f' ({how})'}{error and f' in the stage {stage!r}'}"
        return Symptom(what, "native code that the backend calls", traits=True)
    name = error.partition(":")[0]
    if stage == "compile" and name != "ContractError" and not hasattr(builtins, name):  # one that somebody meant
        return Symptom(
            f"{REFUSED}: {name}", "the message; what the partitioner tags and what it leaves out", traits=True
        )
    look = _IN_JUDGE if stage == "judge" else "the message, and the function that it names"
    return Symptom(f"An error, {name}, in the stage {stage!r}", look, traits=True)


_IN_JUDGE = "the message; what judges is no part of the backend: the operator's golden, and the package that brings it"


def _tag(result: CaseResult, absent: Sequence[str] | None = None) -> Symptom:
    """Delegated or not, against the table. absent: the reasons of a row of which nothing is delegated, else None."""
    if absent is not None and result.verdict == "reject":
        what = f"{ABSENT} ({', '.join(absent) or 'no reason given'}), although the table lists it"
        return Symptom(what, UNKNOWN, next(iter(absent), None))
    given = ", ".join(dict.fromkeys(reason.code for reason in result.reasons or ())) or "no reason"
    match result.verdict, result.expect:
        case "accept", "reject":
            excluding = "a rule of its row" if result.reason is None else f"the rule {result.reason}"
            what = f"Delegated, but {excluding} excludes it"
            return Symptom(what, "a limit in the partitioner that is too wide, or a missing check", result.reason)
        case "reject", "reject":
            what = f"Rejected for {given}, not for the rule {result.reason} that it breaks"
            return Symptom(what, "the partitioner's check of that rule, or the reason it gives", result.reason)
        case "reject", "accept":
            rule = result.reasons[0].code if result.reasons else None
            what = f"Rejected for {given}, but the table allows it"
            return Symptom(what, "a limit in the partitioner that is too narrow, or in another unit", rule)
    what = f"Tagged {result.verdict}, expected {result.expect}"
    return Symptom(what, "which nodes of an operator the partitioner tags", traits=True)


TAKEN = ("accept", "partial")
"""The verdicts that show that a partitioner knows the operator."""


def undelegated(results: Iterable[CaseResult], constraints: Callable[[str], Set[str]]) -> Mapping[str, Sequence[str]]:
    """Rows of which no case is delegated although some must be, with the reasons given: not too narrow a limit.

    constraints: codes of a row's constraints. Where one is given as the reason, the partitioner knows the operator.
    """
    given: dict[str, set[str]] = {}
    taken = set[str]()
    for result in results:
        if result.verdict in TAKEN:
            taken.add(result.row)
        elif (result.verdict, result.expect) == ("reject", "accept"):
            given.setdefault(result.row, set()).update(reason.code for reason in result.reasons or ())
    return {row: sorted(codes) for row, codes in given.items() if row not in taken and not codes & constraints(row)}


ABSENT = "Not delegated at all"
UNKNOWN = "the partitioner's list of operators, and the name by which programs call this one"

_UNDECIDED = Symptom(
    "The two float goldens disagree, which says nothing of the backend",
    "the suite: the operator's float golden, or onnx.reference; please report it",
)

_STOPPED = {
    "hang": Symptom("No answer in time", "loops and locks; --timeout, if the backend is only slow", traits=True),
    "memory": Symptom(
        "More memory than the limit", "sizes that are multiplied; --memory, if it is needed", traits=True
    ),
}

GROUPED = "Another number of delegates than the options ask for"
_OTHER = {
    SUITE: Symptom(
        "The suite's own code fails, which says nothing of the backend",
        "the suite: the message names the function; please report it",
    ),
    "not_run": Symptom("Compiled, but nothing here runs it", "the runtime, which may not be installed", traits=True),
    "state": Symptom("Settings of the process changed", "what it sets and does not set back", traits=True),
    "leak": Symptom("Processes or threads left running", "what it starts and does not end", traits=True),
    "noise": Symptom("Something printed", "what it writes to stdout or stderr; logging is allowed", traits=True),
    "delegates": Symptom(
        GROUPED, "how the partitioner groups operators, and which of its options it reads", traits=True
    ),
    "outputs": Symptom(
        "Outputs of another count, shape, type or grid",
        "sizes, strides, padding and axes in the compiler; the quantization of its outputs",
        traits=True,
    ),
    "mutation": Symptom(
        "The runtime changes its inputs, or outputs that it had returned",
        "operations that work in place, buffers that are used again",
        traits=True,
    ),
    "empty": Symptom("A partition that computes nothing", "how the partitioner drops such partitions", traits=True),
    "tool": Symptom("Refused by a further compiler", "limits of the hardware in the partitioner", traits=True),
    "determinism": Symptom(
        "Other tags, bytes or outputs the second time, or in another process",
        "sets, dictionaries or counters whose order or value outlives a call; what the runtime needs besides the blob",
        traits=True,
    ),
}


ROUNDED = "Numbers 1 LSB off, as another rounding gives them"
WRONG = "Wrong numbers"
GROWN = ", and more where what follows makes that larger"
FAR = f"{WRONG}, further off than rounding explains"
UNCODED = f"{WRONG}, where the result is not a code"


def _numbers(result: CaseResult, checks: set[str], rescale: str) -> Symptom:
    """Wrong numbers: a rounding's difference, or more than that."""
    lsb = _distance(result)
    if _is_rounding(result):
        scheme = f"the rescale scheme ({rescale or 'the table names none'})"
        return Symptom(
            ROUNDED,
            f"{scheme}, its tie rule, its multiplier and shift; how exact a function or a table is",
            traits=True,
        )
    if lsb == 0:
        what = "Numbers that the float golden excludes"
        return Symptom(what, "what the exact integers and the backend have in common", traits=True)
    look = "a term left out (bias, zero point), axes, strides or padding exchanged, a table, an attribute, the operator"
    return Symptom(FAR if isinstance(lsb, int | float) else UNCODED, look, traits=True)


def _is_rounding(result: CaseResult) -> bool:
    """Whether codes are 1 LSB off, or by what operators after a rounding make of 1 LSB.

    Bounds allow each rounding half an LSB, and the others, such as a floor, are off by up to one: twice the bound.
    """
    lsb, bound, ratio = _distance(result), *(result.metrics[name] for name in ("bound_lsb", "worst_ratio_to_bound"))
    if not isinstance(lsb, int | float) or lsb <= 1:
        return isinstance(lsb, int | float) and lsb > 0
    return isinstance(bound, float) and isinstance(ratio, float) and bound > 1 and 1 < ratio <= 2


_LATER = re.compile(r"= (-?\d+), expected (-?\d+) \(exact\)")


def _distance(result: CaseResult) -> Number:
    """The largest difference in LSB; where only later inputs show one, that of the second inputs.

    What neither the first nor the second ones show is as rare as a rounding.
    """
    later = [failure.message for failure in result.failures if failure.check == "gate1"]
    if result.metrics["max_lsb"] != 0 or not later:
        return result.metrics["max_lsb"]
    told = _LATER.search(later[0])
    return 1 if told is None else abs(int(told[1]) - int(told[2]))


def refined(found: Symptom, group: Sequence[CaseResult]) -> Symptom:
    """The pattern of wrong numbers that most of the cases with a pattern show: how they differ from the right ones.

    MOST of those with a pattern must have it, and MANY of all cases; else nothing more is said. Of roundings, whether
    any code differs by more than 1 LSB.
    """
    if found.what == ROUNDED and any(_distance(result) != 1 for result in group):
        return replace(found, what=ROUNDED + GROWN)
    told = Counter(KINDS[result.pattern] for result in group if result.pattern)
    if not found.what.startswith(WRONG) or not told:
        return found
    (kind, count), *_ = told.most_common(1)
    if count < MOST * told.total() or count < MANY * len(group):
        return found
    return replace(found, what=f"{WRONG}, {kind.what}", look=kind.look)


MOST, MANY = 2 / 3, 1 / 4


@dataclass(frozen=True)
class Kind:
    """what: how a headline goes on. look: where such a fault usually stands."""

    what: str
    look: str


_OFFSET = Kind("off by a constant", "a bias, a zero point, and the sums of weights that it is multiplied by")
_FACTOR = Kind("off by a factor", "scales, their multipliers and shifts, a divisor")
KINDS: Mapping[str, Kind] = {
    "constant": Kind("the same one everywhere", "what fills the output, and whether the kernel runs at all"),
    "order": Kind("the right ones at other places", "axes, strides, layouts, permutations; the order of operands"),
    "shifted": Kind("the right ones, shifted along an axis", "where a slice, a window or a padding begins"),
    "negated": Kind("with the other sign", "the order of the operands of a difference; a negation"),
    "wrapped": Kind("wrapped around at the ends of the codes", "saturation, before the numbers are made narrow"),
    "sided": Kind("off by a factor on one side of zero alone", "a slope, and what becomes of negative numbers"),
    "cut": Kind(
        "cut off where they need not be",
        "limits of an activation, narrow saturation, the last entry of a table, what pads a window's maximum",
    ),
    "uncut": Kind("not cut off where they must be", "an activation that is fused, its limits, the order of both"),
    "offset": _OFFSET,
    "offsets": _OFFSET,
    "scaled": _FACTOR,
    "scales": _FACTOR,
    "indices": Kind(
        "indices of other elements", "which of equal numbers is taken, the axis, and where counting begins"
    ),
    "places": Kind("at some indices of an axis alone", "padding, ends of loops, parameters per channel, the batch"),
}
"""By pattern (`judge.patterns`): what a headline says, and where such a fault usually stands."""
