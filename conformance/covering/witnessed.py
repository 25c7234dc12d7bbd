"""The cases that a search finds for a row, as plain data: each as changes of the case that it starts from.

For rows of shipped tables they are kept in `cases/found`; for a row of other content they are looked for when a run
starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from npu_assay.conformance.cases.witnesses import TURNED, changes
from npu_assay.conformance.covering.domain import Tried
from npu_assay.conformance.covering.looks import Look, looks
from npu_assay.conformance.covering.proofs import searched
from npu_assay.conformance.predicates.definitions import Defined, defined
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Row, Table

WORDS = 90  # letters of a case's name that tell what was turned
_KNOWN = dict[object, Mapping[str, Any]]()  # what was found in this process: a run asks more than once


def at_start(key: str, table: Table, row: Row, precision: str | None, cases: Sequence[Case]) -> Mapping[str, Any]:
    """What is found for a row of a content that no shipped table has. key: of the content."""
    asked = key, tuple(case.id for case in cases)
    if asked not in _KNOWN:
        _KNOWN[asked] = witnessed(defined(table, row, precision), list(looks(table, cases)), cases)
    return _KNOWN[asked]


def witnessed(own: Sequence[Defined], found: Sequence[Look], every: Sequence[Case]) -> dict[str, Any]:
    """The cases that were found, as changes of their starts, and the proofs of what is left."""
    return as_data(*searched(own, found, every), every)


def as_data(chosen: Sequence[Tried], proofs: Mapping[str, Any], every: Sequence[Case]) -> dict[str, Any]:
    """The plain data of a search: its programs as changes of those they start from, and its proofs.

    every: the cases of the row.
    """
    names, cases = set[str](), {case.id: case for case in every}
    return {"cases": [_case(each, cases, names) for each in chosen], **proofs}


def _case(found: Tried, cases: Mapping[str, Case], names: set[str]) -> dict[str, Any]:
    start, case = cases[found.start], found.look.case
    turns = "_and_".join(f"{name}_{_word(place)}" for name, place in found.turns) or "options"
    plain = re.sub(r"[^a-z0-9]+", "_", f"{start.id.rpartition('/')[2]}{TURNED}{turns[:WORDS]}".lower()).strip("_")
    name, number = plain, 1
    while name in names:
        number += 1
        name = f"{plain}_again_{number}"
    names.add(name)
    told: dict[str, Any] = {"start": _short(start), "variant": name, "changes": changes(start.graph, case.graph)}
    if case.options != start.options:
        told["options"] = _short(next(each for each in cases.values() if each.options == case.options))
    return told if case.reason is None else {**told, "reason": case.reason}


def _word(place: object) -> str:
    return str(place).replace("-", "minus_").replace("aten.", "").replace(".default", "")


def _short(case: Case) -> str:
    """The case's name without its row and precision."""
    return "/".join(case.id.split("/")[-3:])
