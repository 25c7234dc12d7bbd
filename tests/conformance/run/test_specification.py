"""The specification and the kernels of a device share no arithmetic: a line changed in a kernel fails gate 1.

Each fault is a line of a kernel's source, changed wherever the function is known by name, and the real backend runs
the cases of a row with it until one fails. Gate 1 compares with the exact golden, which the change must not reach.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
import textwrap
from types import FunctionType

import pytest
from changed_lines import Change, changes

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table


def changed(change: Change) -> tuple[FunctionType, FunctionType]:
    """The function, and what its source means with the change, in the same module."""
    module = importlib.import_module(change.module)
    function: FunctionType = operator.attrgetter(change.function)(module)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(change.old) >= 1, f"{change.function} has no {change.old!r}"
    names: dict[str, FunctionType] = {}
    scope = compile(
        "from __future__ import annotations\n" + source.replace(change.old, change.new), change.function, "exec"
    )
    exec(scope, vars(module), names)
    return function, names[function.__name__]


def replaced(function: FunctionType, wrong: FunctionType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a module, a class of it or a table of it knows the function."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("npu_assay."):
            continue
        for key, value in list(vars(module).items()):
            if value is function:
                monkeypatch.setattr(module, key, wrong)
            elif isinstance(value, dict):
                for entry in [entry for entry, item in value.items() if item is function]:
                    monkeypatch.setitem(value, entry, wrong)
            elif isinstance(value, type) and vars(value).get(function.__name__) is function:
                monkeypatch.setattr(value, function.__name__, wrong)


@pytest.mark.parametrize(
    "change", list(changes()), ids=lambda change: f"{change.backend.name}, {change.function}, {change.old}"
)
@pytest.mark.sampled(8)
def test_a_changed_line_of_a_kernel_fails_gate_1_or_its_bound(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    table = load_table(change.backend.table)
    function, wrong = changed(change)
    replaced(function, wrong, monkeypatch)
    accepted = [case for case in cases_for(table) if case.row == change.row and case.expect == "accept"]
    cases = [case for case in accepted if change.cases in case.id]
    assert cases
    results = (run_case(case, change.backend, table) for case in cases)
    # Sums of groups of 4-bit weights have a bound and no exact numbers: that is gate 3.
    assert any({"gate1", "gate3"} & {failure.check for failure in result.failures} for result in results)
