"""`assay submit`: whether a folder of records is complete, before it is handed in."""

from __future__ import annotations

import json
from pathlib import Path

import click

from npu_assay.conformance.commands.shared import level, plain, today, usage_errors

COMPLETE, INCOMPLETE = 0, 1


@click.command()
@click.option(
    "--check",
    "folder",
    metavar="FOLDER",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Check this folder: records of 'assay certify', or archives of them, and public keys, NAME.pem.",
)
@level("Expect certificates of this level, or of a higher one: tags, compiles, runs, numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def submit(folder: Path, level: str, as_json: bool) -> None:
    """Check that a submission is complete: each record whole, certified by an unchanged suite on all cases, signed.

    Whether NAME owns the key of NAME.pem is for who receives it. Nothing is sent anywhere.

    Exit codes: 0 complete, 1 something is missing, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.verify.submission import check_submission  # help starts without

        records, problems = check_submission(folder, today(), level)
    if as_json:
        data = {"complete": not problems, "records": records, "problems": [one._asdict() for one in problems]}
        click.echo(json.dumps(data, indent=2, sort_keys=True))
    else:
        for problem in problems:
            click.echo(plain(str(problem)))
        for one in records:
            click.echo(plain(", ".join(f"{key} {value or 'nobody'}" for key, value in one.items())))
        click.echo(f"{folder}: {'not complete' if problems else 'complete'}")
    raise SystemExit(INCOMPLETE if problems else COMPLETE)
