"""Small pieces of text that several reports share."""

from __future__ import annotations

from collections.abc import Sequence

from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.programs.seeds import ONE_IN, is_first, is_thorough, runs_once
from npu_assay.conformance.programs.variation_names import asked
from npu_assay.conformance.record.levels import COMPILES, RUNS, reaches
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.report.findings import Finding
from npu_assay.conformance.report.traits import Trait

TRUST_MEANS = (
    "whoever ran it says so. To be signed, it needs 'assay attest', which 'assay verify --key' checks; "
    "to be reproduced, 'assay verify --rerun'"
)
"""What a self-declared certificate is, and what would make it more."""


def runs_text(results: Sequence[CaseResult], level: str) -> str:
    """How often programs ran, and which ones more often than others; or that none did."""
    if not reaches(level, COMPILES):
        return "A partitioner was asked about each program, and another one about the same."
    if not reaches(level, RUNS):
        return "What a partitioner took was compiled, and compiled again."
    ran = [result for result in results if result.partitions and not runs_once(result.case, result.side)]
    anew = sum(is_thorough(result.case, result.side) for result in ran)
    first = sum(is_first(result.case, result.side) for result in ran)
    return (
        "A program with delegates is loaded once and runs on its inputs, on two others, and on its own again. Of "
        f"{counted(len(ran), 'case')} with delegates, {anew} (the first of each operator and precision, and one in "
        f"{ONE_IN} of the others) also run on the other inputs as they are loaded anew; {first} (the first ones) also "
        "in turn with another program, and in a process that compiled nothing. Variations run once."
    )


def variation_lines(results: Sequence[CaseResult]) -> list[tuple[str, str]]:
    """By kind of variation, how many were asked, and of how many of all plain programs."""
    plain = sum("/operator/accept/" in result.case for result in results)
    counts = asked(result.case for result in results).items()
    return [(kind, f"{n}, of {of} of {plain} plain programs") for kind, (n, of) in counts]


LISTED = 4  # names before the rest is only counted


def trait_text(finding: Finding, trait: Trait) -> str:
    """How many failing cases have a trait, and how many passing ones: the fewer, the more the trait explains."""
    failing = len(finding.cases)
    share = f"all {failing}" if trait.failing == failing else f"{trait.failing} of {failing}"
    return f"{share} {trait.text}; {f'so do {trait.others}' if trait.others else 'none'} that pass"
