"""`python -m npu_assay.conformance.covering.renew TABLE...`: look for the cases and proofs of a shipped table again.

Writes `cases/found/NAME.json`, which all releases of a table share: for each row in each precision, by its content,
the cases that were found, the proofs of what cannot be shown, and of a release that follows another the answers that
`cases.loosened` needs. Rows whose content is known already are left as they are, unless `--all` is given: then each is
searched by itself, and written where the search shows more than is known, or as much with fewer cases, or where known
cases are gone. Prints the numbers of each row.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from npu_assay.conformance.cases import cases_for, limits_of, within
from npu_assay.conformance.cases.family import STATIC_INT8
from npu_assay.conformance.cases.loosened import KEPT, kept
from npu_assay.conformance.cases.rows import drafts as row_drafts
from npu_assay.conformance.cases.witnesses import FOLDER, TURNED, changes, content_key, is_found, shipped
from npu_assay.conformance.covering.domain import Tried
from npu_assay.conformance.covering.looks import Look, Place, looks, places
from npu_assay.conformance.covering.proofs import searched
from npu_assay.conformance.predicates.definitions import Defined, defined
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import FOLDER as TABLES
from npu_assay.conformance.table import Table, load_table

WORDS = 90  # letters of a case's name that tell what was turned


def renewed(table: Table, again: bool, only: Sequence[str] = ()) -> dict[str, Any]:
    """What is found for every row in each precision, by content. only: names of rows, where others are left."""
    known = dict(shipped())
    looked, every = _written(table, only)
    there = Counter((case.row, case.precision) for case in cases_for(table) if is_found(case))
    here = {content_key(each, *place) for each in releases(table) for place in places(each)}
    found = {key: told for key, told in known.items() if key in here}
    for row, precision in places(table):
        key, place = content_key(table, row, precision), (row.name, precision)
        asked = not only or row.name in only or f"{row.name}/{precision}" in only
        if not asked or (key in known and not again):
            continue
        new = _searched(defined(table, row, precision), looked[place], every[place])
        found[key] = _fuller(new, known.get(key), there[place])
        write(table, found)  # a search that is stopped goes on
        print(f"{row.name} {precision or ''}: {_told(found[key])}", file=sys.stderr, flush=True)
    for key, answers in answers_of(table).items():
        found[key] = {**found[key], KEPT: answers}
    return found


def answers_of(table: Table) -> dict[str, dict[str, bool]]:
    """Which drafts outside of limits that are gone keep those that are left, by the content of a row that has some."""
    answers = dict[str, dict[str, bool]]()
    for row, precision in places(table):
        limits = limits_of(table, row, precision)
        drafts = within(limits, row_drafts(row, precision or STATIC_INT8, limits) or [])
        if told := kept(table, row, precision or STATIC_INT8, drafts):
            answers[content_key(table, row, precision)] = told
    return answers


def releases(table: Table) -> list[Table]:
    """Every shipped table of this name, by version."""
    return [load_table(path.stem) for path in sorted(TABLES.glob(f"{table.name}@*.toml"))]


def _written(table: Table, only: Sequence[str]) -> tuple[Mapping[Place, list[Look]], Mapping[Place, list[Case]]]:
    """The cases of a table that were not found by search, and what is said of them."""
    looked, every = defaultdict[Place, list[Look]](list), defaultdict[Place, list[Case]](list)
    cases = [case for case in cases_for(table) if not is_found(case)]
    if only:
        cases = [case for case in cases if any(each.startswith(case.row) for each in only)]
    for case in cases:
        every[case.row, case.precision].append(case)
    for look in looks(table, cases):
        looked[look.case.row, look.case.precision].append(look)
    return looked, every


def _searched(own: Sequence[Defined], found: Sequence[Look], every: Sequence[Case]) -> dict[str, Any]:
    """The cases that were found, as changes of their starts, and the proofs of what is left."""
    chosen, proofs = searched(own, found, every)
    names, cases = set[str](), {case.id: case for case in every}
    return {"cases": [_case(each, cases, names) for each in chosen], **proofs}


def _fuller(new: Mapping[str, Any], known: Mapping[str, Any] | None, there: int) -> Mapping[str, Any]:
    """What was found now, or what is known of a row if that shows as much, with no more cases, all of which are there.

    Of what an earlier search has shown, a later one in another order must not say that no program near shows it.
    """
    if known is None or there < len(known["cases"]):
        return new
    return min(known, new, key=lambda found: (_left(found), len(found["cases"])))


def _left(found: Mapping[str, Any]) -> int:
    """How many decisions and pairs no case shows."""
    return len(found["holes"]) + len(found["apart"])


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


def _told(found: Mapping[str, Any]) -> str:
    still = sum(not each["moved"] for each in (*found["holes"], *found["apart"]))
    return f"{len(found['cases'])} cases, {_left(found) - still} that no program near shows, {still} open"


def write(table: Table, found: Mapping[str, Any]) -> None:
    """One line for each row, so that changes can be read."""
    lines = [f"{json.dumps(key)}: {json.dumps(told, separators=(',', ':'))}" for key, told in found.items()]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{table.name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """The tables by name, `--all` to search known rows again, `--row=NAME` or `--row=NAME/TYPE` for one row alone."""
    only = [each.removeprefix("--row=") for each in arguments if each.startswith("--row=")]
    for name in (each for each in arguments if not each.startswith("--")):
        table = load_table(name)
        write(table, renewed(table, "--all" in arguments, only))


if __name__ == "__main__":
    main(sys.argv[1:])
