"""The catalogues of faults: every broken backend is noticed, by the checks that are there for it."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from inspect import getclosurevars
from types import SimpleNamespace

import pytest

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.mutation.trial import ordered, trial
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import CHECKS, COMPARED
from npu_assay.conformance.run.execution import Job, run_chunk
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table
from npu_assay.faults import Fault, ethosu, listing, neutron, xnnpack
from npu_assay.faults.rules import of_numbers
from npu_assay.partitioners.neutron.support.common import output_rank_at_most

NEUTRON = {"neutron": neutron.LISTING, "neutron-1.4": neutron.LISTING_1_4}
LISTINGS = {**NEUTRON, "xnnpack": xnnpack.LISTING, **ethosu.LISTINGS}
MADE = ("dropped", "implied", "misnamed")  # kinds of faults that are made for every rule
SHARE = 8  # of those, one in so many is tried here; `assay mutate` tries all
U55 = {fault.name for fault in LISTINGS["ethos-u55"].faults}  # so those of ethos-u85 are not tried again
EVERY = {(name, one.id): one for name, found in LISTINGS.items() for one in found.derived}


def _tried(name: str, faults: tuple[Fault, ...]) -> list[tuple[str, str]]:
    made = [one for one in faults if one.kind in MADE]
    found = [one for one in faults if one.kind not in MADE] + made[::SHARE]
    return [(name, one.id) for one in found if name != "ethos-u85" or one.name not in U55]


@cache
def of(name: str) -> tuple[Table, tuple[Case, ...]]:
    table = load_table(load_backend(name).table)
    return table, tuple(cases_for(table))


@pytest.mark.long
@pytest.mark.sampled(60)
@pytest.mark.parametrize(("name", "fault"), [one for each in LISTINGS for one in _tried(each, LISTINGS[each].faults)])
def test_every_fault_is_noticed(name: str, fault: str) -> None:
    tried, (table, cases), backend = EVERY[name, fault], of(name), load_backend(name)
    outcome = trial(tried, table, cases, lambda case: run_case(case, backend, table), limit=0)
    assert outcome.killed and not outcome.missed, outcome
    if tried.stage != "partitioner":
        assert "tag" not in outcome.checks, outcome


@pytest.mark.parametrize("name", LISTINGS)
def test_every_fault_names_the_checks_that_are_there_for_what_it_breaks(name: str) -> None:
    gates, delegation = {f"gate{number}" for number in range(1, 5)}, {"tag", "reason", "delegates"}
    for fault in LISTINGS[name].derived:
        assert fault.checks and fault.checks <= {*CHECKS, *COMPARED}, fault.id
        if fault.kind not in listing.CHECKS:
            assert fault.checks & gates if fault.stage != "partitioner" else fault.checks == {"tag"}, fault.id
        assert fault.stage == "partitioner" or not fault.checks & delegation, fault.id


def test_every_check_that_faults_can_show_is_named_by_one() -> None:
    named = {check for found in LISTINGS.values() for fault in found.faults for check in fault.checks}
    assert named >= {"tag", "reason", "crash", "determinism", "delegates"}
    assert named >= {"mutation", "shape", "finite", "not_constant"}
    assert named >= {f"gate{number}" for number in range(1, 5)}


@pytest.mark.parametrize("name", LISTINGS)
def test_what_is_left_out_has_one_reason_and_is_derived(name: str) -> None:
    found = LISTINGS[name]
    assert [fault.id for fault in found.derived if len(found.reasons(fault)) > 1] == []
    known = {fault.name for each, fault in EVERY.items() if each[0].split("-")[0] == name.split("-")[0]}
    patterns = " ".join((*found.left_out.values(), *found.kinds.values())).split()
    assert [each for each in patterns if not any(fnmatchcase(one, each) for one in known)] == []


LEFT_OUT = [key for key, fault in EVERY.items() if LISTINGS[key[0]].reasons(fault)]


@pytest.mark.long
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "fault"), LEFT_OUT)
def test_what_is_left_out_is_noticed_by_nothing(name: str, fault: str) -> None:
    tried, (table, cases) = EVERY[name, fault], of(name)
    shown = [case for case, _ in ordered(tried, cases, 0)][:30]
    assert [found.case for case in shown if (found := run_case(case, tried.backend, table)).failures] == []


def test_the_numbers_of_rules_are_found_and_changed_only_while_a_fault_is_asked() -> None:
    rule = output_rank_at_most(5)
    made = list(of_numbers({"aten.abs.default": (rule,), "aten.neg.default": (rule,)}, {"aten.neg.default": "aten.n"}))
    groups = ("max_rank", "operator/accept")
    cases = tuple(f"{row}*/{group}/" for row in ("aten.abs.default", "aten.n") for group in groups)
    assert [(kind, name, shown) for kind, name, shown, _ in made] == [
        ("off_by_one", f"limit_{how}_in_max_rank_of_aten.abs.default", cases) for how in ("more", "less")
    ]
    seen = []
    watching = SimpleNamespace(
        partition=lambda program: seen.append(getclosurevars(rule.check).nonlocals["limit"]), ops_to_not_decompose=None
    )
    right = replace(load_backend("neutron"), partitioner=lambda: SimpleNamespace(**vars(watching)))
    for *_, how in made:
        how(right).partitioner().partition(None)
    assert [*seen, getclosurevars(rule.check).nonlocals["limit"]] == [6, 4, 5]


@pytest.mark.parametrize("name", [name for name in LISTINGS if name != "neutron-1.4"])
def test_a_catalogue_is_large_and_breaks_every_stage(name: str) -> None:
    faults = LISTINGS[name].faults
    assert len(faults) >= 150
    assert {fault.stage for fault in faults} == {"partitioner", "compiler", "device"}
    assert len({fault.id for fault in faults}) == len(faults)


@pytest.mark.long
@pytest.mark.parametrize("name", LISTINGS)
def test_every_fault_names_cases_that_exist(name: str) -> None:
    _, cases = of(name)
    faults = LISTINGS[name].faults
    assert [fault.id for fault in faults if not any(named for _, named in ordered(fault, cases, 0))] == []


@pytest.mark.long
@pytest.mark.parametrize("name", LISTINGS)
@pytest.mark.sampled(2)
def test_the_right_backend_passes_the_same_cases(name: str) -> None:
    """A part of them here; the conformance suite runs all."""
    (table, cases), backend = of(name), load_backend(name)
    named = {case.id: case for fault in LISTINGS[name].faults for case, _ in ordered(fault, cases, 0)}
    assert [name for name, case in list(named.items())[::40] if run_case(case, backend, table).status == "fail"] == []


@pytest.mark.parametrize(
    ("spec", "table", "case", "check"),
    [
        ("xnnpack:half_up", "xnnpack@1.5", "aten.linear.default/static_int8/operator/value/ties", "gate1"),
        ("ethosu:alpha_of_all", "ethos_u55@1.5", "aten.add.Tensor/int8/alpha/outside/", "tag"),
        ("neutron:multiple_of_4", "neutron@1.3", "aten.mean.dim/channels_multiple_of/outside/", "tag"),
    ],
)
def test_a_broken_backend_is_found_by_its_name(spec: str, table: str, case: str, check: str) -> None:
    names = tuple(one.id for one in cases_for(load_table(table)) if one.id.startswith(case))
    results = run_chunk(Job(f"npu_assay.faults.{spec}", table), names)
    assert check in {failure.check for result in results for failure in result.failures}
