"""`assay drift`: where a backend's code and its table differ, from what a run recorded."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import plain, usage_errors

AGREE, DRIFT = 0, 1


@click.command()
@click.argument("folder", metavar="DIR|ARCHIVE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON, as in drift.json.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables as Markdown.")
@click.option("--document", is_flag=True, help="Compare the document with the backend, by operator and constraint.")
@click.option("--repro", metavar="CASE", help="Print a script that shows one case with torch and ExecuTorch alone.")
@click.option("--repros", is_flag=True, help="Write such a script for every case that drifts: DIR/repro/CASE.py.")
def drift(folder: Path, as_json: bool, as_markdown: bool, document: bool, repro: str | None, repros: bool) -> None:
    """Compare what the table promises with what the backend did, by operator and constraint.

    Rows, precisions and constraints that the vendor's document does not state are compared with the document, too.
    Everything is derived from results.jsonl again. Exit codes: 0 table and backend agree, 1 they differ, 2 nothing that
    a run wrote.
    """
    with usage_errors():
        from npu_assay.conformance.compare.drift import drift_text  # slow to load
        from npu_assay.conformance.compare.drift_run import read_drift
        from npu_assay.conformance.compare.drift_text import documented_lines, drift_markdown, lines

        if as_json + as_markdown + document + (repro is not None) + repros > 1:
            raise click.UsageError("expected one of --json, --markdown, --document, --repro and --repros")
        found = read_drift(folder)
        if repro is not None:
            from npu_assay.conformance.repro import script_of  # loads torch

            text = script_of(found, repro)
        elif repros:
            from npu_assay.conformance.repro import write_scripts  # loads torch

            text = write_scripts(found, folder)
        else:
            shown = documented_lines if document else lines
            text = drift_text(found) if as_json else drift_markdown(found) if as_markdown else "\n".join(shown(found))
    click.echo(text.rstrip("\n") if as_json or repro is not None else "\n".join(map(plain, text.split("\n"))))
    raise SystemExit(DRIFT if found.found else AGREE)
