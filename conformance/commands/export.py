"""`assay export`: the cases of a table as files that any toolchain can run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from npu_assay.conformance.commands.early_checks import tell_mistakes
from npu_assay.conformance.commands.shared import (
    Output,
    backend_argument,
    expression,
    plain,
    table_option,
    usage_errors,
)

FORMATS = ("onnx", "pt2", "tflite", "pte")


@click.command()
@backend_argument
@click.argument("folder", metavar="DIR", type=Output(is_folder=True))
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="onnx",
    show_default=True,
    help="Write the models in this format.",
)
@expression("Export only cases of an operator (cat), or whose id matches.")
@table_option
def export(backend: str, folder: Path, format_: str, expression: str | None, table: str | None) -> None:
    """Write the cases of BACKEND's table into the new folder DIR: models, inputs, expected outputs, a manifest.

    Exit codes: 0 written, 2 usage or data error, and then nothing is written.
    """
    tell_mistakes(backend, table, expression)
    with usage_errors():
        from npu_assay.conformance.interchange.export import Request  # help starts without
        from npu_assay.conformance.interchange.export import export as write

        manifest = write(Request(backend, format_, folder, expression, table))
    for code, count in sorted(Counter(one.code for one in manifest.left_out).items()):
        example = next(one for one in manifest.left_out if one.code == code)
        click.echo(f"left out, {code}: {count} cases, such as {plain(example.case)}: {plain(example.reason)}")
    click.echo(f"{folder}: {len(manifest.cases)} cases as {format_}, {len(manifest.left_out)} left out")
