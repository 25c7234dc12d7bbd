"""Errors of the suite's own, told from a backend's: who judges makes the program again, without a backend.

Nothing that a backend answers decides it.
"""

from __future__ import annotations

from npu_assay.conformance.common.describing import describe
from npu_assay.conformance.judge.numerics import golden
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.programs.seeds import redrawn
from npu_assay.conformance.table import Table
from npu_assay.partitioners.exir import run_program


def fault_of_program(case: Case, table: Table) -> str | None:
    """The error with which the suite makes a case's program and inputs, or torch runs it undelegated; None if none."""
    try:
        program = build(case.graph, table.preserve, table.mark)
        inputs = [model_inputs(redrawn(case.graph, number)) for number in range(3)]
        run_program(program, inputs[0])
    except Exception as error:  # noqa: BLE001  (whatever it is, it is the suite's)
        return _text("make the program", error)
    return None


def fault_of_golden(graph: Graph, scheme: str | None) -> str | None:
    """The error with which the suite computes what a program's outputs must be; None if there is none.

    scheme: the table's rescale scheme, in whose integers a program need not have a golden that a backend takes.
    """
    try:
        found = golden(graph)
        found.walk(None, delegated=False)
        found.walk(scheme, delegated=True)
    except Exception as error:  # noqa: BLE001  (as above)
        return _text("compute what it expects", error)
    return None


def _text(what: str, error: Exception) -> str:
    return f"the suite cannot {what}: {describe(error)}; nothing follows for the backend"
