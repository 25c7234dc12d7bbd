"""The part of `assay verify` that checks a signature."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from npu_assay.conformance.commands.shared import plain
from npu_assay.conformance.commands.verify_options import Asked

if TYPE_CHECKING:
    from npu_assay.conformance.record.certificate import Certificate
    from npu_assay.conformance.record.names import Contents
    from npu_assay.conformance.verify.attestation import Checked
    from npu_assay.conformance.verify.signing import Verifier
    from npu_assay.conformance.verify.verification import Verification

FILES = 3  # differing files of a backend


def signed(contents: Contents, found: Verification, verifier: Verifier, asked: Asked) -> Checked:
    """Check the signature, and print what speaks against it and whether the backend that is here is the signed one."""
    from npu_assay.conformance.verify.attestation import Checked, check, check_all, read_attestation  # slow to load

    data = None if asked.attestation is None else read_attestation(asked.attestation)
    if found.certificate is None:
        return Checked(verifier.keyid, ("there is no certificate that it can be of",))
    if data is None:
        checked = check_all(contents, found.certificate, verifier)
    else:
        checked = check(contents, found.certificate, verifier, data)
    for problem in checked.problems:
        click.echo(f"problem: {plain(problem)}")
    if checked.problems:
        return checked
    here, same = _backend_here(found.certificate, asked.backend)
    required = asked.backend is not None
    click.echo(f"{'problem' if required and not same else 'note'}: {plain(here)}")
    return checked if same or not required else replace(checked, problems=(here,))


def _backend_here(certificate: Certificate, spec: str | None) -> tuple[str, bool]:
    """Whether the backend's files here are those of the certificate, in words and as an answer. Runs none of it."""
    from npu_assay.conformance.backend.installed import installed_sources  # slow to load
    from npu_assay.conformance.verify.rerun_sources import file_problems

    name = str(certificate.backend["spec"]) if spec is None else spec
    sources = installed_sources(name)
    if sources is None:
        return f"backend {name!r} is not here, so its files were not compared with the signed ones", False
    found = file_problems(sources, certificate)
    if not found:
        return f"all {len(sources)} files of backend {name!r} that are here are the signed ones", True
    rest = f"; and {len(found) - FILES} more" if len(found) > FILES else ""
    return (
        f"the files of backend {name!r} that are here are not the signed ones: {'; '.join(found[:FILES])}{rest}",
        False,
    )
