"""`assay package`: one archive of a run, the same bytes for the same files."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import out, plain, today, usage_errors

PACKED, REFUSED = 0, 1


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@out("Write this archive; DIR.zip here if left out.")
def package(folder: Path, out: Path | None) -> None:
    """Make one archive of a results folder, for `assay verify` and `assay diff`.

    Exit codes: 0 packed (certified or not), 1 the folder's files contradict each other, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.record.certificate import verdict_text  # slow to load
        from npu_assay.conformance.verify.packing import pack

        target = out if out is not None else Path(f"{folder.resolve().name}.zip")
        packed = pack(folder, target, today())
    for problem in packed.verification.problems:
        click.echo(f"problem: {plain(problem)}")
    if packed.verification.problems:
        click.echo(f"{folder}: not packed")
        raise SystemExit(REFUSED)
    click.echo(f"{target}: {len(packed.files)} files, {packed.size} bytes, sha256 {packed.sha256}")
    verdict, certificate = packed.verification.verdict, packed.verification.certificate
    if verdict is not None and certificate is not None:
        click.echo(verdict_text(packed.verification.certified, verdict.counts, certificate.level))
    raise SystemExit(PACKED)
