"""What the tables' cases are about: every operator, with every form of its arguments, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from npu_assay.conformance.fuzz.sketch import Kind, further
from npu_assay.conformance.programs.graph import Ref, Step, references
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

Known = Mapping[Ref, Kind]


def steps(table: str) -> Iterator[tuple[Step, Known]]:
    """Each operator with each form of its arguments once, and the kinds of what it is applied to."""
    seen = set()
    for case in all_cases(load_table(table)):
        known = further(case.graph.values, (), {})
        for step in case.graph.steps:
            if known is None or any(ref not in known for ref in references(step.args)):
                break
            form = (step.op, step.kwargs, tuple("ref" if isinstance(a, Ref) else repr(a) for a in step.args))
            if form not in seen:
                seen.add(form)
                yield replace(step, quant=None), known
            known = further((), (step,), known)
