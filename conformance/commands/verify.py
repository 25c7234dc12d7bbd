"""`assay verify`: the verdict of a run derived again, its cases run again, its signature checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from npu_assay.conformance.commands.completion import backends, tables
from npu_assay.conformance.commands.shared import (
    MOST,
    Seconds,
    level,
    out,
    place,
    placed,
    plain,
    today,
    usage_errors,
    workers_option,
)
from npu_assay.conformance.commands.verify_options import ALL, Asked
from npu_assay.conformance.common.memory import many_records
from npu_assay.conformance.record.levels import NUMBERS, reaches, unjudged

if TYPE_CHECKING:
    from npu_assay.conformance.verify.verification import Verification

CERTIFIED, NOT_CERTIFIED = 0, 1


class Cases(click.IntRange):
    """How many cases to run again: a number, or nothing for all."""

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Also says what to do when the folder stands where the number is expected."""
        if value == ALL:  # as an option without a value gives it, never a text
            return ALL
        if not str(value).isdecimal():
            self.fail(f"found {value!r}, expected a number or nothing: assay verify DIR --rerun [N]", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("folder", metavar="DIR|ARCHIVE", type=click.Path(path_type=Path))
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Check the signature of 'assay attest' by this public key, Ed25519 in PEM.",
)
@click.option(
    "--attestation",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read the signature from this file of 'assay attest'; from those in the folder if left out.",
)
@click.option(
    "--rerun",
    "cases",
    metavar="[N]",
    type=Cases(),
    is_flag=False,
    flag_value=ALL,
    help="Run all cases again, or N of them, drawn at random.",
)
@click.option(
    "--seed",
    metavar="SEED",
    type=click.IntRange(min=0),
    help="Draw random numbers from this seed; another than the certificate's compares verdicts, not bytes.",
)
@click.option(
    "--draw",
    metavar="SEED",
    type=click.IntRange(min=0),
    help="Choose the N cases by this seed; a random one if left out.",
)
@click.option(
    "--backend",
    metavar="BACKEND",
    shell_complete=backends,
    help="Run this backend; the one that the certificate names if left out.",
)
@click.option("--table", metavar="TABLE", shell_complete=tables, help="Expect a certificate of this table.")
@level("Expect a certificate of this level, or of a higher one: tags, compiles, runs, numbers.")
@workers_option
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(),
    help="Seconds of processor time per case; the certificate's if left out.",
)
@click.option(
    "--memory", metavar="MIB", type=click.IntRange(1, MOST), help="Mebibytes per case; the certificate's if left out."
)
@placed
@out("Write a record of the run, as JSON.")
def verify(
    folder: Path,
    key: Path | None,
    attestation: Path | None,
    cases: int | None,
    seed: int | None,
    draw: int | None,
    backend: str | None,
    table: str | None,
    level: str,
    workers: int | None,
    timeout: float | None,
    memory: int | None,
    out: Path | None,
    **where: Any,
) -> None:
    """Derive the verdict of a results folder, or of an archive of one, again: from its results and its table.

    --key also checks who signed it. --rerun also runs its cases again, and compares what they show with what is
    recorded; it loads the backend. A certificate of a lower level than numbers is taken with --level alone.

    Exit codes: 0 certified, and all that was asked for agrees; 1 not; 2 a usage or data error.
    """
    with many_records():  # modules are many, too
        from npu_assay.conformance.commands.verify_rerun import run_again
        from npu_assay.conformance.commands.verify_signature import signed as signed_by
        from npu_assay.conformance.debug.lazy_dynamo import postpone
        from npu_assay.conformance.record.names import ATTESTATION, STANDARD
        from npu_assay.conformance.record.read import read_contents
        from npu_assay.conformance.verify.signing import read_public_key
        from npu_assay.conformance.verify.verification import verify_contents

    if cases is None:  # no backend runs in this process
        postpone()
    with usage_errors():
        at = place(**where) if any(where.values()) else None
        asked = Asked(key, attestation, cases, seed, draw, backend, workers, timeout, memory, out, at)
        asked.check()
        verifier = None if key is None else read_public_key(key)
        contents, day = read_contents(folder), today()
        found = verify_contents(contents, day, table)
        _print_found(found)
        signed = None if verifier is None else signed_by(contents, found, verifier, asked)
        for name in (ATTESTATION, *STANDARD.values()):
            if verifier is None and name in contents.files:
                click.echo(f"note: {name} was not checked: --key FILE does")
        again = None
        if cases is not None and found.certificate is not None and not found.problems:
            again = run_again(contents, found.certificate, asked, day)
        elif cases is not None:
            click.echo("not run again: the record has problems")
    right = (
        found.certified
        and (found.certificate is not None and reaches(found.certificate.level, level))
        and (cases is None or (again is not None and again.reproduced))
        and (signed is None or not signed.problems)
    )
    _print_verdict(folder, found, right, level, [str(said) for said in (signed, again) if said is not None])
    raise SystemExit(CERTIFIED if right else NOT_CERTIFIED)


def _print_found(found: Verification) -> None:
    for note in found.notes:
        click.echo(f"note: {plain(note)}")
    for problem in found.problems:
        click.echo(f"problem: {plain(problem)}")


def _print_verdict(folder: Path, found: Verification, right: bool, asked: str, trust: list[str]) -> None:
    """Counts, what speaks against the verdict, and a last line: the verdict, what is waived, who says so."""
    from npu_assay.conformance.record.certificate import TRUST, verdict_text  # help starts without

    if found.verdict is not None:
        click.echo(", ".join(f"{count} {name}" for name, count in found.verdict.counts.items()))
        for objection in found.verdict.objections:
            click.echo(f"because: {plain(objection)}")
    counts = {} if found.verdict is None else found.verdict.counts
    said = [] if found.problems else trust or [TRUST]
    level = NUMBERS if found.certificate is None else found.certificate.level
    if not reaches(level, asked):
        click.echo(f"because: the certificate is of level {level}, expected {asked} (--level {level} asks for no more)")
    verdict = verdict_text(right, counts, level if reaches(level, asked) else asked)
    click.echo(f"{folder}: {', '.join([verdict, *said])}{unjudged(level)}")
