"""The catalogues of faults: every broken backend is noticed, by the checks that are there for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from inspect import getclosurevars
from types import SimpleNamespace

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.mutation.trial import ordered, trial
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CHECKS, COMPARED, CaseResult
from npu_assay.conformance.run.execution import Job, run_chunk
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table
from npu_assay.faults import Fault, listing
from npu_assay.faults.ethosu import LISTINGS
from npu_assay.faults.neutron import LISTING as OF_NEUTRON
from npu_assay.faults.neutron import LISTING_1_4 as OF_NEUTRON_1_4
from npu_assay.faults.rules import of_numbers
from npu_assay.faults.xnnpack import LISTING as OF_XNNPACK
from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.neutron import backend_1_4 as neutron_1_4
from npu_assay.partitioners.neutron.support.common import output_rank_at_most
from npu_assay.partitioners.xnnpack import backend as xnnpack

CATALOGUES = (
    (neutron, OF_NEUTRON.faults),
    (xnnpack, OF_XNNPACK.faults),
    (ethos_u55, LISTINGS[ethos_u55.name].faults),
    (ethos_u85, LISTINGS[ethos_u85.name].faults),
)
ALL = (
    (neutron, OF_NEUTRON),
    (neutron_1_4, OF_NEUTRON_1_4),
    (xnnpack, OF_XNNPACK),
    *((right, LISTINGS[right.name]) for right in (ethos_u55, ethos_u85)),
)
MADE = ("dropped", "implied", "misnamed")  # kinds of faults that are made for every rule
SHARE = 8  # of those, one in so many is tried here; `assay mutate` tries all


def _tried(faults: tuple[Fault, ...]) -> list[Fault]:
    listed = [one for one in faults if one.stage != "partitioner" or one.kind not in MADE]
    return listed + [fault for fault in faults if fault.kind in MADE and fault.stage == "partitioner"][::SHARE]


FAULTS = [
    (backend, fault)
    for backend, faults in CATALOGUES
    for fault in _tried(faults)
    if backend is not ethos_u85 or fault.name not in {one.name for one in LISTINGS[ethos_u55.name].faults}
]


@cache
def of(name: str) -> tuple[Table, tuple[Case, ...]]:
    table = load_table(name)
    return table, tuple(cases_for(table))


@pytest.mark.long
@pytest.mark.sampled(60)
@pytest.mark.parametrize(
    ("backend", "fault"), FAULTS, ids=lambda value: value.id if isinstance(value, Fault) else value.name
)
def test_every_fault_is_noticed(backend: Backend, fault: Fault) -> None:
    table, cases = of(backend.table)

    def right(case: Case) -> CaseResult:
        return run_case(case, backend, table)

    outcome = trial(fault, table, cases, right, limit=0)
    assert outcome.killed and not outcome.missed, outcome
    if fault.stage != "partitioner":
        assert "tag" not in outcome.checks, outcome


def test_the_numbers_of_rules_are_found_and_changed_only_while_a_fault_is_asked() -> None:
    rule = output_rank_at_most(5)
    made = list(of_numbers({"aten.abs.default": (rule,), "aten.neg.default": (rule,)}, {"aten.neg.default": "aten.n"}))
    assert [(kind, name, cases) for kind, name, cases, _ in made] == [
        (
            "off_by_one",
            f"limit_{how}_in_max_rank_of_aten.abs.default",
            ("aten.abs.default*/max_rank/", "aten.n*/max_rank/"),
        )
        for how in ("more", "less")
    ]
    seen = []
    watching = SimpleNamespace(
        partition=lambda program: seen.append(getclosurevars(rule.check).nonlocals["limit"]), ops_to_not_decompose=None
    )
    right = replace(neutron, partitioner=lambda: SimpleNamespace(**vars(watching)))
    for *_, how in made:
        how(right).partitioner().partition(None)
    assert [*seen, getclosurevars(rule.check).nonlocals["limit"]] == [6, 4, 5]


@pytest.mark.parametrize(("backend", "found"), ALL, ids=lambda value: getattr(value, "name", ""))
def test_every_fault_names_the_checks_that_are_there_for_what_it_breaks(
    backend: Backend, found: listing.Listing
) -> None:
    gates = {f"gate{number}" for number in range(1, 5)}
    for fault in found.derived:
        assert fault.checks and fault.checks <= {*CHECKS, *COMPARED}, fault.id
        if fault.stage == "partitioner":
            assert fault.checks == {"tag"} or fault.kind in listing.CHECKS, fault.id
        else:
            assert not fault.checks & {"tag", "reason", "delegates"}, fault.id
            assert fault.checks & gates or fault.kind in listing.CHECKS, fault.id
    named = Counter(check for fault in found.faults for check in fault.checks)
    assert named["tag"] >= 60 and named["reason"] >= (50 if backend is ethos_u85 else 20)


def test_every_check_that_faults_can_show_is_named_by_one() -> None:
    named = {check for _, found in ALL for fault in found.faults for check in fault.checks}
    assert named >= {
        "tag",
        "reason",
        "crash",
        "determinism",
        "delegates",
        "mutation",
        "shape",
        "finite",
        "not_constant",
    }
    assert named >= {f"gate{number}" for number in range(1, 5)}


@pytest.mark.parametrize(("backend", "found"), ALL, ids=lambda value: getattr(value, "name", ""))
def test_what_is_left_out_has_one_reason_and_is_derived(backend: Backend, found: listing.Listing) -> None:
    assert [fault.id for fault in found.derived if len(found.reasons(fault)) > 1] == []
    if backend is neutron_1_4:  # its lists are those of the release before
        return
    for patterns in (*found.left_out.values(), *found.kinds.values()):
        for pattern in patterns.split():
            known = LISTINGS.values() if backend in (ethos_u55, ethos_u85) else (found, OF_NEUTRON_1_4)
            assert any(fnmatchcase(f.name, pattern) for each in known for f in each.derived), pattern


LEFT_OUT = [(backend, fault) for backend, found in ALL for fault in found.derived if found.reasons(fault)]


@pytest.mark.long
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("backend", "fault"), LEFT_OUT, ids=lambda value: getattr(value, "id", value.name))
def test_what_is_left_out_is_noticed_by_nothing(backend: Backend, fault: Fault) -> None:
    table, cases = of(backend.table)
    shown = [case for case, _ in ordered(fault, cases, 0)][:30]
    assert {case.id: found.failures for case in shown if (found := run_case(case, fault.backend, table)).failures} == {}


@pytest.mark.parametrize(("backend", "faults"), CATALOGUES, ids=lambda value: getattr(value, "name", ""))
def test_a_catalogue_is_large_and_breaks_every_stage(backend: Backend, faults: tuple[Fault, ...]) -> None:
    assert len(faults) >= 150
    assert {fault.stage for fault in faults} == {"partitioner", "compiler", "device"}
    assert len({fault.id for fault in faults}) == len(faults)


@pytest.mark.long
@pytest.mark.parametrize(("backend", "faults"), CATALOGUES, ids=lambda value: getattr(value, "name", ""))
def test_every_fault_names_cases_that_exist(backend: Backend, faults: tuple[Fault, ...]) -> None:
    _, cases = of(backend.table)
    without = [fault.id for fault in faults if not any(named for _, named in ordered(fault, cases, 0))]
    assert without == []


@pytest.mark.long
@pytest.mark.parametrize("backend", [backend for backend, _ in CATALOGUES], ids=lambda backend: backend.name)
@pytest.mark.sampled(2)
def test_the_right_backend_passes_the_same_cases(backend: Backend) -> None:
    """A part of them here; the conformance suite runs all."""
    table, cases = of(backend.table)
    faults = next(faults for one, faults in CATALOGUES if one is backend)
    named = {case.id: case for fault in faults for case, _ in ordered(fault, cases, 0)}
    assert [name for name, case in list(named.items())[::40] if run_case(case, backend, table).status == "fail"] == []


@pytest.mark.parametrize(
    ("spec", "table", "case", "check"),
    [
        (
            "npu_assay.faults.xnnpack:half_up",
            "xnnpack@1.5",
            "aten.linear.default/static_int8/operator/value/ties",
            "gate1",
        ),
        (
            "npu_assay.faults.ethosu:alpha_of_all",
            "ethos_u55@1.5",
            "aten.add.Tensor/int8/alpha/outside/",
            "tag",
        ),
        (
            "npu_assay.faults.neutron:multiple_of_4",
            "neutron@1.3",
            "aten.mean.dim/channels_multiple_of/outside/",
            "tag",
        ),
    ],
)
def test_a_broken_backend_is_found_by_its_name(spec: str, table: str, case: str, check: str) -> None:
    """As `assay certify npu_assay.faults.xnnpack:half_up` finds it."""
    names = tuple(one.id for one in cases_for(load_table(table)) if one.id.startswith(case))
    found = {failure.check for result in run_chunk(Job(spec, table), names) for failure in result.failures}
    assert check in found
