"""`assay attest`: a certificate as a signed statement."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import out, plain, today, usage_errors
from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.record.names import STANDARD

ATTESTED, REFUSED = 0, 1


@click.command()
@click.argument("folder", metavar="DIR|ARCHIVE", type=click.Path(path_type=Path))
@click.option(
    "--key",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="Sign with this private key, Ed25519 in PEM without a password (openssl genpkey -algorithm ed25519).",
)
@out("Write the attestation here; to DIR/attestation.json if left out, which 'assay package' packs.")
@click.option(
    "--predicate",
    "kinds",
    metavar="KIND",
    type=click.Choice(list(STANDARD)),
    multiple=True,
    help="Sign a statement for other tools beside it: test-result of in-toto, or vsa of SLSA. Can be given again.",
)
def attest(folder: Path, key: Path, out: Path | None, kinds: tuple[str, ...]) -> None:
    """Sign the certificate of a results folder, or of an archive of one: an in-toto statement in a DSSE envelope.

    Its subjects are the run's files and all files that the backend is made of. Who has the public key checks it with
    'assay verify --key'. Another key's signature is added to those that stand there, also in the statements for other
    tools, which are files beside it.

    Exit codes: 0 signed (certified or not), 1 the folder's files contradict each other, 2 usage or data error.
    """
    with usage_errors():
        from npu_assay.conformance.record.certificate import verdict_text  # help starts without
        from npu_assay.conformance.record.read import read_contents
        from npu_assay.conformance.verify.attestation import attest as write
        from npu_assay.conformance.verify.attestation import target_of
        from npu_assay.conformance.verify.signing import read_private_key
        from npu_assay.conformance.verify.verification import verify_contents

        signer = read_private_key(key)
        contents = read_contents(folder)
        target = target_of(folder, out)
        found = verify_contents(contents, today())
        for problem in found.problems:
            click.echo(f"problem: {plain(problem)}")
        if found.problems or found.certificate is None or found.verdict is None:
            click.echo(f"{folder}: not signed")
            raise SystemExit(REFUSED)
        envelopes = write(contents, found.certificate, signer, target, kinds)
    for path, envelope in envelopes.items():
        click.echo(f"{path}: {counted(len(envelope.signatures), 'signature')}, the last by {signer.verifier.keyid}")
    click.echo(verdict_text(found.certified, found.verdict.counts, found.certificate.level))
    raise SystemExit(ATTESTED)
