"""Small pieces of text that several reports share."""

from __future__ import annotations

from collections.abc import Sequence

from npu_assay.conformance.report.findings import Finding
from npu_assay.conformance.report.traits import Trait

TRUST_MEANS = (
    "whoever ran it says so. To be signed, it needs 'assay attest', which 'assay verify --key' checks; "
    "to be reproduced, 'assay verify --rerun'"
)
"""What a self-declared certificate is, and what would make it more."""
LISTED = 4  # names before the rest is only counted


def counted(count: int, noun: str) -> str:
    """A number of things whose plural ends in s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def cases_text(count: int) -> str:
    """A number of cases."""
    return counted(count, "case")


def listed(names: Sequence[str], most: int = LISTED) -> str:
    """Some names, and how many there are beside them."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def trait_text(finding: Finding, trait: Trait) -> str:
    """How many failing cases have a trait, and how many passing ones: the fewer, the more the trait explains."""
    failing = len(finding.cases)
    share = f"all {failing}" if trait.failing == failing else f"{trait.failing} of {failing}"
    return f"{share} {trait.text}; {f'so do {trait.others}' if trait.others else 'none'} that pass"
