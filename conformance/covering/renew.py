"""`python -m npu_assay.conformance.covering.renew TABLE...`: look for the cases and proofs of a shipped table again.

Writes `cases/found/NAME.json`, which all releases of a table share: for each row in each precision, by its content,
the cases that were found, the proofs of what cannot be shown, the verdicts that `cases.judged` needs, and of a release
that follows another the answers that `cases.loosened` needs. Rows whose content is known already are left as they are,
unless `--all` is given: then each is searched by itself, and written where the search shows more than is known, or as
much with fewer cases. Prints the numbers of each row.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from npu_assay.conformance.cases import cases_for, limits_of, of_domain, within
from npu_assay.conformance.cases.family import STATIC_INT8
from npu_assay.conformance.cases.judged import SAID, judged
from npu_assay.conformance.cases.loosened import KEPT, kept
from npu_assay.conformance.cases.rows import drafts as row_drafts
from npu_assay.conformance.cases.witnesses import FOLDER, content_key, is_found, shipped
from npu_assay.conformance.covering.atoms import Owed, owed
from npu_assay.conformance.covering.looks import Look, Place, looks, places
from npu_assay.conformance.covering.measure import measure
from npu_assay.conformance.covering.pairs import Pairing, pairings
from npu_assay.conformance.covering.proofs import searched
from npu_assay.conformance.covering.witnessed import as_data
from npu_assay.conformance.predicates.definitions import Defined, defined
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import FOLDER as TABLES
from npu_assay.conformance.table import Table, load_table


def renewed(table: Table, again: bool, only: Sequence[str] = ()) -> dict[str, Any]:
    """What is found for every row in each precision, by content. only: names of rows, where others are left."""
    known = dict(shipped())
    looked, every = _written(table, only)
    before = {(each.row, each.precision): _shown(each.owed, each.pairings) for each in measure(table, cases_for(table))}
    here = {content_key(each, *place) for each in releases(table) for place in places(each)}
    found = {key: told for key, told in known.items() if key in here}
    for row, precision in places(table):
        key, place = content_key(table, row, precision), (row.name, precision)
        asked = not only or row.name in only or f"{row.name}/{precision}" in only
        if not asked or (key in known and not again):
            continue
        new, shown = _searched(defined(table, row, precision), looked[place], every[place])
        if is_fuller(shown, len(new["cases"]), before[place], known.get(key)):
            found[key] = new
        write(table, found)  # a search that is stopped goes on
        print(f"{row.name} {precision or ''}: {_told(found[key])}", file=sys.stderr, flush=True)
    for name, answers in ((KEPT, answers_of(table)), (SAID, verdicts_of(table))):
        for key, answer in answers.items():
            found[key] = {**found[key], name: answer}
    return found


def verdicts_of(table: Table) -> dict[str, str]:
    """What the predicates say of the programs of each row whose operator has a domain, by content."""
    verdicts = dict[str, str]()
    for row, precision in places(table):
        limits, held = limits_of(table, row, precision), of_domain(table, row, precision or STATIC_INT8)
        if held:
            drafts = row_drafts(row, precision or STATIC_INT8, limits) or []
            verdicts[content_key(table, row, precision)] = judged(limits, held, drafts)[1]
    return verdicts


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


def _searched(own: Sequence[Defined], looked: Sequence[Look], every: Sequence[Case]) -> tuple[dict[str, Any], int]:
    """The plain data of a row's search, and how many decisions and pairs are shown with it."""
    chosen, proofs = searched(own, looked, every)
    seen = [*looked, *(each.look for each in chosen)]
    shown = _shown([each for constraint in own for each in owed(constraint, seen)], pairings(own, seen))
    return as_data(chosen, proofs, every), shown


def is_fuller(shown: int, cases: int, before: int, known: Mapping[str, Any] | None) -> bool:
    """Tell whether a search shows more than is known, or as much with fewer cases.

    Of what an earlier search has shown, a later one in another order must not say that no program near shows it.
    """
    return known is None or (shown, -cases) > (before, -len(known["cases"]))


def _shown(decisions: Iterable[Owed], together: Iterable[Pairing]) -> int:
    """How many decisions and pairs cases show. Of what they do not, another number may be owed by other cases."""
    return sum(each.shown is not None for each in decisions) + sum(each.shown is not None for each in together)


def _told(found: Mapping[str, Any]) -> str:
    still = sum(not each["moved"] for each in (*found["holes"], *found["apart"]))
    left = len(found["holes"]) + len(found["apart"])
    return f"{len(found['cases'])} cases, {left - still} that no program near shows, {still} open"


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
