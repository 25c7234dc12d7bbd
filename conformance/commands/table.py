"""`assay table`: check, compare, print, rewrite and import tables."""

from __future__ import annotations

import json
from pathlib import Path

import click

from npu_assay.conformance.commands.completion import tables
from npu_assay.conformance.commands.help_texts import Commands
from npu_assay.conformance.commands.shared import out, plain, usage_errors, write_file
from npu_assay.conformance.commands.table_coverage import coverage
from npu_assay.conformance.common.escaped import counted

CLEAN, FOUND = 0, 1


@click.group(cls=Commands)
def table() -> None:
    """Work on operator support tables.

    TABLE is the name of a table that ships with the suite (neutron@1.3), or a file.
    """


table.add_command(coverage)


@table.command()
@click.argument("names", metavar="TABLE...", nargs=-1, required=True, shell_complete=tables)
def lint(names: tuple[str, ...]) -> None:
    """List everything in a TABLE that keeps rows from being certified, or that no case checks.

    Exit codes: 0 nothing found, 1 something, 2 a table that cannot be read.
    """
    found = 0
    with usage_errors():
        from npu_assay.conformance.table import load_table  # help starts without
        from npu_assay.conformance.table.lint import findings

        for name in names:
            for finding in findings(load_table(name)):
                click.echo(f"{name}: {plain(finding)}")
                found += 1
    click.echo(counted(found, "finding"))
    raise SystemExit(FOUND if found else CLEAN)


@table.command("diff")
@click.argument("a", metavar="TABLE", shell_complete=tables)
@click.argument("b", metavar="TABLE", shell_complete=tables)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--page", is_flag=True, help="Print Markdown for readers: what B takes and excludes of what A does.")
@click.option(
    "--documents", is_flag=True, help="Compare published tables, files or folders of them, as they are printed."
)
def diff_(a: str, b: str, as_json: bool, page: bool, documents: bool) -> None:
    """Show what changed from one TABLE to another: rows, precisions, constraints, definitions.

    With --documents: rows, precisions and sentences of what a vendor publishes, and no decision of this project.

    Exit codes: 0 the same, 1 different, 2 one of them cannot be read.
    """
    with usage_errors():
        from npu_assay.conformance.common.errors import UsageError  # help starts without
        from npu_assay.conformance.table import load_table  # help starts without
        from npu_assay.conformance.table.changes import changes

        if page and (as_json or documents):
            raise UsageError(f"--{'json' if as_json else 'documents'} and --page: found both, expected one of them")
        if documents:
            from npu_assay.conformance.table.published.documents import document_changes  # help starts without

            found = document_changes(Path(a), Path(b))
        else:
            tables = load_table(a), load_table(b)
            found = changes(*tables)
        if page:
            from npu_assay.conformance.compare.releases import page as written  # help starts without

            click.echo(written(*tables), nl=False)
            raise SystemExit(FOUND if found else CLEAN)
    if as_json:
        click.echo(json.dumps([vars(change) for change in found], indent=2))
    else:
        for change in found:
            click.echo(plain(str(change)))
        click.echo(counted(len(found), "difference"))
    raise SystemExit(FOUND if found else CLEAN)


@table.command()
@click.argument("name", metavar="TABLE", shell_complete=tables)
@out("Write the page there.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def reference(name: str, out: Path | None, force: bool) -> None:
    """Print a TABLE as a page of Markdown: every row, its constraints in words, how many cases each has.

    Exit codes: 0 written, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.table import load_table  # help starts without
        from npu_assay.conformance.table.reference import page

        _written(page(load_table(name)), out, force)


@table.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def upgrade(files: tuple[Path, ...]) -> None:
    """Rewrite a table's FILE in the newest schema; comments and order stay.

    Exit codes: 0 every FILE has it, 2 one of them cannot be read or written.
    """
    with usage_errors():
        from npu_assay.conformance.table.upgrade import NEWEST, upgrade  # help starts without

        for file in files:
            done = upgrade(file)
            click.echo(f"{file}: {'now' if done else 'already'} schema {NEWEST}")


@table.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", required=True, help="Call the table so, like my_npu.")
@click.option("--version", "release", default="0.1", show_default=True, help="Give the table this version.")
@click.option("--backend-id", metavar="ID", help="Use this name of the compiler; NAME followed by Backend if left out.")
@out("Write the table there.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.option("--strict", is_flag=True, help="End with 1 where something was not read or left out.")
def import_(
    file: Path, name: str, release: str, backend_id: str | None, out: Path | None, force: bool, strict: bool
) -> None:
    """Make a table of a published one: FILE is CSV, Markdown, xlsx, or the text of a web page, with headings.

    What could not be read of a constraint is kept and marked `unchecked`. That and everything that is not in the table
    is listed. 'assay table lint' says what is left to do. Exit codes: 0 written, 1 written with something in that list,
    with --strict alone, 2 usage or data error, and then nothing is written.
    """
    with usage_errors():
        from npu_assay.conformance.table import read_table  # help starts without
        from npu_assay.conformance.table.published import imported, read_file

        identity = backend_id or "".join(part.capitalize() for part in name.split("_")) + "Backend"
        made = imported(read_file(file), name, release, identity, f"imported from {file.name}")
        read_table(made.text.encode(), file.name)
        _written(made.text, out, force)
    lost = [*made.unread, *made.left]
    for each in lost:
        click.echo(plain(f"{file.name}: {each}"), err=True)
    read, unread = counted(made.predicates, "predicate"), counted(len(made.unread), "text")
    click.echo(f"{read} read; {unread} not read, {len(made.left)} left out", err=True)
    raise SystemExit(FOUND if strict and lost else CLEAN)


def _written(text: str, out: Path | None, force: bool) -> None:
    from npu_assay.conformance.common.errors import UsageError  # help starts without

    if out is None:
        click.echo(text, nl=False)
        return
    if out.exists() and not force:
        raise UsageError(f"{out}: it exists already, expected a new file (--force writes over it)")
    write_file(out, text.encode())
    click.echo(out)
