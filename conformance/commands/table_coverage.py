"""`assay table coverage`: how well the suite's cases show a table's limits."""

from __future__ import annotations

import json

import click

from npu_assay.conformance.commands.completion import tables
from npu_assay.conformance.commands.shared import plain, usage_errors


@click.command("coverage")
@click.argument("name", metavar="TABLE", shell_complete=tables)
@click.option("--pairs", is_flag=True, help="List also the limits that no accepted case reaches together.")
@click.option("--prove", is_flag=True, help="Search again for what shows the holes, and prove anew; takes minutes.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, with the cases that show it.")
def coverage(name: str, pairs: bool, prove: bool, as_json: bool) -> None:
    """Measure how well the suite's cases show the limits of a TABLE.

    MC/DC: every part of every constraint decides alone, for each feature in it and at the limit. 2-way: accepted cases
    have every two classes of two limits together. docs/predicates.md says what is counted. Also of how many plain
    programs each kind of variation is chosen, and of how many it is not (docs/variations.md). Exit codes: 0 measured,
    whatever is found, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.cases import cases_for  # loads torch
        from npu_assay.conformance.cases.variations import chosen_kinds
        from npu_assay.conformance.covering.measure import measure
        from npu_assay.conformance.covering.text import page
        from npu_assay.conformance.covering.text import plain as plain_data
        from npu_assay.conformance.table import load_table

        table = load_table(name)
        cases = cases_for(table)
        records, kinds = measure(table, cases, prove), chosen_kinds(cases, table)
    if as_json:
        click.echo(json.dumps(plain_data(table, records) | {"variations": kinds}, indent=2))
        return
    for line in page(table, records, pairs).splitlines():
        click.echo(plain(line))
    for kind, (asked, left) in kinds.items():
        click.echo(f"variations, chosen: {kind} of {asked} plain programs, and not of {left}")
