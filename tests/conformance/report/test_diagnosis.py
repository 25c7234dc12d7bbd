"""The first finding of a run names the kind of a fault, its rule and its operators, and never another kind.

Every fault of the catalogues is tried on a few of the cases that show it. A fault of a partitioner must be told as
delegation, with its rule; one of a compiler or a device as an error in a stage, as a rounding, or as wrong numbers; and
where a pattern of wrong numbers is told, it must be one that this kind of fault can make: docs/lab/mutants.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.mutation.catalogue import catalogue_of, load_faults
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.report import symptoms
from npu_assay.conformance.report.findings import Finding, find
from npu_assay.conformance.report.other_names import RENAMED
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import Table, load_table
from npu_assay.faults import Fault
from npu_assay.partitioners.ethosu.support import rules as ethosu
from npu_assay.partitioners.neutron.support import rules as neutron
from npu_assay.partitioners.xnnpack import partitioner as xnnpack
from npu_assay.partitioners.xnnpack.configs import AbsConfig

TABLES = {"neutron": "neutron@1.3", "xnnpack": "xnnpack@1.5", "ethos-u85": "ethos_u85@1.5"}
FAILING, TRIED = 8, 300
"""So many failing cases are enough of a fault, and so many cases are tried."""
MADE = {
    "accumulator": {"wrapped", "offset", "cut", "places", "constant"},
    "attribute": {"shifted", "order", "sided", "scaled", "offset", "cut", "uncut", "places", "negated"},
    "axis": {"order", "places", "shifted", "scaled"},
    "bias": {"offset", "places"},
    "constant": {"constant"},
    "count": {"scaled", "offset", "places", "cut"},
    "function": {"sided", "uncut", "cut", "negated", "offset", "scaled"},
    "count_include_pad": {"places", "scaled"},
    "fused_activation": {"cut", "uncut", "constant"},
    "layout": {"order", "places", "shifted", "scaled", "offset", "indices"},
    "lut": {"cut", "uncut", "places", "offset", "scaled", "shifted"},
    "operands": {"order", "negated", "places"},
    "operator": {"cut", "uncut", "negated", "order", "scaled", "offset"},
    "padding": {"order", "places", "cut", "uncut", "shifted"},
    "per_channel": {"scaled", "places", "sided"},
    "precision": {"scaled", "offset"},
    "rounding": {"offset"},
    "saturation": {"wrapped", "cut", "uncut"},
    "scale": {"scaled", "offset"},
    "sizes": {"order", "places", "shifted", "scaled", "cut", "offset"},
    "ties": {"places", "indices"},
    "weights": {"scaled", "negated", "offset"},
    "zero_point": {"offset", "places"},
}
"""By kind of a fault of numbers, the patterns that it can make; those per index count as those of the whole."""


SHOWN_BY = {
    "unstable": ("Other tags, bytes or outputs", "Rejected for mood"),
    "refused": (symptoms.REFUSED, "An error"),
    "grouping": ("An error, ContractError", "Tagged", "Other tags", "Outputs of another"),
}
"""By kind of a fault that is no rule's and no number's, how its headline begins."""

OF_OPTIONS = {"wrong_default", "delegation"}
"""The kinds of a fault that may be told, without a rule, by how many delegates there are."""


def faults() -> Iterator[Any]:
    for name in TABLES:
        yield from ((name, fault) for fault in known(name))


@cache
def known(name: str) -> dict[str, Fault]:
    return {fault.id: fault for fault in load_faults(name, catalogue_of(load_backend(name), None))}


@cache
def table_and_cases(name: str) -> tuple[Table, dict[str, Case]]:
    table = load_table(TABLES[name])
    return table, {case.id: case for case in all_cases(table)}


def first(name: str, fault: Fault) -> Finding:
    """What stands first in the report of a run of some cases."""
    table, cases = table_and_cases(name)
    rows = {prefix.split("/")[0] for prefix in fault.cases}
    shown = [c for c in cases.values() if any(fnmatchcase(c.id, f"{prefix}*") for prefix in fault.cases)]
    others = [case for case in cases.values() if case.row in rows and case.expect == "accept"]
    results, failing = [], 0
    for case in list({case.id: case for case in (*shown, *others)}.values())[:TRIED]:
        results.append(run_case(case, fault.backend, table))
        failing += results[-1].status == "fail"
        if failing == FAILING:
            break
    assert failing, "no case shows it"
    return find(results, cases, set(), table)[0]


def named(fault: Fault, finding: Finding) -> bool:
    """Whether the headline is of the fault's kind."""
    what = finding.symptom.what
    if fault.kind in SHOWN_BY:
        return what.startswith(SHOWN_BY[fault.kind])
    if fault.stage == "partitioner":
        of_rules = ("Delegated, but the rule", "Rejected for", symptoms.ABSENT, "Tagged")
        renamed = fault.kind in ("misnamed", "implied") and what == RENAMED
        return renamed or what.startswith(of_rules) or (fault.kind in OF_OPTIONS and what == symptoms.GROUPED)
    if what.startswith(symptoms.REFUSED):
        return fault.stage == "compiler"
    if what.startswith("An error"):
        return "'compile'" in what or "'run'" in what or "'load'" in what
    told = [kind for kind in symptoms.KINDS if what == f"{symptoms.WRONG}, {symptoms.KINDS[kind].what}"]
    if told:
        return bool({kind.rstrip("s") for kind in told} & {kind.rstrip("s") for kind in MADE[fault.kind]})
    general = (
        symptoms.ROUNDED,
        symptoms.FAR,
        symptoms.UNCODED,
        "Outputs of another",
        "The runtime changes",
        "Processes",
    )
    return what.startswith(general)


@pytest.mark.long
@pytest.mark.sampled(40)
@pytest.mark.parametrize(("name", "fault"), list(faults()))
def test_the_first_finding_names_the_kind_and_the_place(name: str, fault: str) -> None:
    tried = known(name)[fault]
    finding = first(name, tried)
    assert named(tried, finding), finding.symptom.what
    rows = [prefix.split("/")[0] for prefix in tried.cases]
    assert all(any(fnmatchcase(row, known_row) for known_row in rows) for row, *_ in finding.where)
    of_options = tried.kind in OF_OPTIONS and finding.symptom.what == symptoms.GROUPED
    of_rule = tried.stage == "partitioner" and tried.kind not in SHOWN_BY and not of_options
    of_rule = of_rule and finding.symptom.what != RENAMED
    assert not of_rule or finding.symptom.rule, finding.symptom


def without(table: Any, name: str) -> AbstractContextManager[object]:
    return patch.dict(table, {key: row for key, row in table.items() if key != name}, clear=True)


@contextmanager
def xnnpack_without_abs() -> Iterator[None]:
    """As if no config were written of it: no caller can name it either."""
    right = xnnpack.by_target
    fewer = patch.object(xnnpack, "by_target", lambda every: right(each for each in every if each is not AbsConfig))
    with fewer, without(xnnpack.DEFAULT_TARGETS, "aten.abs.default"):
        yield


GONE: dict[str, tuple[str, Callable[[], AbstractContextManager[object]]]] = {
    "neutron": ("aten.mean.dim", lambda: without(neutron.RULES, "aten.mean.dim")),
    "ethos-u85": ("aten.mean.dim", lambda: without(ethosu.RULES, "aten.mean.dim")),
    "xnnpack": ("aten.abs.default", xnnpack_without_abs),
}
"""By backend, an operator that its partitioner no longer lists."""


@pytest.mark.parametrize("name", GONE)
def test_an_operator_that_the_partitioner_does_not_list_is_not_a_limit(name: str) -> None:
    table, cases = table_and_cases(name)
    row, removed = GONE[name]
    some = [case for case in cases.values() if case.row == row][:120]
    with removed():
        results = [run_case(case, load_backend(name), table) for case in some]
    finding = find(results, cases, set(), table)[0]
    assert finding.symptom.what == f"{symptoms.ABSENT} (unsupported), although the table lists it" and [
        each for each, *_ in finding.where
    ] == [row]
    assert finding.first in {case.id for case in some if case.expect == "accept"}
    assert Counter(case.expect for case in some)["accept"] <= len(finding.cases)


def test_one_delegated_case_or_a_constraint_as_the_reason_is_a_limit() -> None:
    """The same results, one by one made what a partitioner that knows the operator gives."""
    table, cases = table_and_cases("neutron")
    row, removed = GONE["neutron"]
    case = next(case for case in cases.values() if case.row == row and case.expect == "accept")
    with removed():
        gone = run_case(case, load_backend("neutron"), table)
    assert gone.reasons is not None
    known = replace(gone, reasons=(replace(gone.reasons[0], code="channels_multiple_of"),))
    taken = replace(gone, verdict="accept", status="pass", failures=())
    for results in ([known], [gone, known], [gone, taken]):
        what = {finding.symptom.what for finding in find(results, cases, set(), table)}
        assert what and all(each.startswith("Rejected for") for each in what)
    for one, reason in ((gone, "unsupported"), (replace(gone, reasons=None), "no reason given")):
        assert find([one], cases, set(), table)[0].symptom.what.startswith(f"{symptoms.ABSENT} ({reason}), ")
