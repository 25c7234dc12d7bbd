"""`assay show`: a table, one operator of it, or one case."""

from __future__ import annotations

import click

from npu_assay.conformance.commands.completion import operators
from npu_assay.conformance.commands.early_checks import tell_mistakes
from npu_assay.conformance.commands.shared import backend_argument, table_option, usage_errors


@click.command()
@backend_argument
@click.argument("operator", required=False, shell_complete=operators)
@table_option
def show(backend: str, operator: str | None, table: str | None) -> None:
    """Show one OPERATOR of a table: its row, its constraints in words, its cases. Without one, list them all.

    OPERATOR is a row's name, or a short one: cat, softmax, conv2d. Given a case's whole id instead, show its program,
    where each operator runs, and the backend's outputs beside what is expected; the case runs in this process. Exit
    codes: 0 shown, whatever the outputs are, 2 usage or data error.
    """
    if operator is not None and "/" in operator:
        tell_mistakes(backend, table, operator)
        from npu_assay.conformance.debug.lazy_dynamo import postpone  # help starts without

        postpone()  # before anything that makes fake tensors is loaded
        from npu_assay.conformance.commands.debugging import show_case

        show_case(backend, table, operator)
        return
    from npu_assay.conformance.report.listing import table_text  # help starts without

    with usage_errors():
        click.echo(table_text(backend, operator, table))
