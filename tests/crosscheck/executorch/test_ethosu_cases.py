"""Our EthosUPartitioner tags every case of both tables as ExecuTorch's own does.

Where the two differ on purpose, the operator is in `ethosu_differences`, and the rest of the program must still agree.
That this can fail is shown with partitioners that lack one rule each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import pytest
from ethosu_graphs import U55, U85
from torch.export import ExportedProgram

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.ethosu.support import rules
from npu_assay.partitioners.ethosu.support.common import EVERY_NODE
from npu_assay.partitioners.ethosu.support.rule import Rule
from tests.crosscheck.executorch.agreement import Comparison
from tests.crosscheck.executorch.ethosu_differences import LISTED
from tests.crosscheck.executorch.ethosu_peer import compare, our_answer

TARGETS = {"ethos_u55@1.5": U55, "ethos_u85@1.5": U85}
TABLES = {name: load_table(name) for name in TARGETS}
ROWS = [(name, row.name) for name, table in TABLES.items() for row in table.every_row if row.precisions]


@cache
def by_row(name: str) -> Mapping[str, tuple[Case, ...]]:
    """The cases of a table."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases_for(TABLES[name]):
        found[case.row].append(case)
    return {row: tuple(cases) for row, cases in found.items()}


def program(case: Case, name: str) -> ExportedProgram:
    return build(case.graph, TABLES[name].preserve, TABLES[name].mark)


def comparison(case: Case, name: str) -> Comparison:
    return compare(program(case, name), TARGETS[name], LISTED)


@pytest.mark.long
@pytest.mark.sampled(40)
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_cases_are_tagged_alike(name: str, row: str) -> None:
    left = {case.id: comparison(case, name).left for case in by_row(name)[row]}
    assert left
    assert {case: nodes for case, nodes in left.items() if nodes} == {}


@pytest.mark.parametrize("name", TARGETS)
def test_every_case_is_of_a_row(name: str) -> None:
    assert by_row(name).keys() == {row for table, row in ROWS if table == name}


# ------------------------------------------------------------------------------------ with a rule less

LISTED_CODES = frozenset(one.name for one in LISTED)
"""What 1.5.1 does not ask: without such a rule the two agree. That each of them occurs is tested beside the list."""


def common_rules(operator: str) -> Iterator[Rule]:
    """The rules of an operator that 1.5.1 has as well."""
    found = (*rules.RULES[operator], *EVERY_NODE)
    return (rule for rule in dict.fromkeys(found) if rule.code not in LISTED_CODES)


def refused_by(name: str, row: str, rule: Rule) -> Case | None:
    """The first case of a row in which the rule refuses an operator that no other rule refuses."""
    for case in by_row(name)[row]:
        if case.expect == "reject" and case.reason == rule.code:
            codes = our_answer(program(case, name), TARGETS[name]).codes
            if {rule.code} in codes.values():
                return case
    return None


def tags(case: Case, name: str) -> Mapping[str, str]:
    return our_answer(program(case, name), TARGETS[name]).tags


def without(rule: Rule, operator: str, patch: pytest.MonkeyPatch) -> None:
    """Drop a rule of an operator."""
    found = dict(rules.RULES)
    found[operator] = tuple(one for one in found[operator] if one is not rule)
    patch.setattr(rules, "RULES", found)
    patch.setattr(rules, "EVERY_NODE", tuple(one for one in EVERY_NODE if one is not rule))


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", TARGETS)
def test_a_missing_rule_shows(name: str) -> None:
    """Wherever a partitioner that lacks it gives other tags."""
    hidden, seen = set[str](), set[str]()
    for row in TABLES[name].rows:
        for rule in common_rules(row.operator):
            case = refused_by(name, row.name, rule)
            if case is None:
                continue
            with pytest.MonkeyPatch.context() as patch:
                before = tags(case, name)
                without(rule, row.operator, patch)
                if tags(case, name) != before:
                    found = seen if comparison(case, name).left else hidden
                    found.add(f"{rule.code} of {row.name}")
    assert not hidden
    assert len(seen) > 150
