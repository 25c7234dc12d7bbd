"""What templates of reports share: text without control characters, and the words that they use."""

from __future__ import annotations

from typing import Any

from npu_assay.conformance.common.escaped import plain_lines, visible
from npu_assay.conformance.compare.drift_text import WORDS, counts_text, drift_markdown, place
from npu_assay.conformance.record.levels import JUDGED
from npu_assay.conformance.report.data import CHECKS
from npu_assay.conformance.report.words import (
    LISTED,
    TRUST_MEANS,
    cases_text,
    listed,
    runs_text,
    trait_text,
    variation_lines,
)


class Lines(str):
    """A text of several lines that a template writes as they are: code, or Markdown of our own."""

    __slots__ = ()


def shown(value: Any) -> Any:
    """What a template writes, without control characters; `safe` is for what this package made."""
    return plain_lines(value) if isinstance(value, Lines) else visible(value)


GLOBALS = {
    "cases_text": cases_text,
    "checks": CHECKS,
    "counts_text": counts_text,
    "drift_markdown": drift_markdown,
    "judged": JUDGED,
    "lines": Lines,
    "listed": listed,
    "listed_most": LISTED,
    "place": place,
    "runs_text": runs_text,
    "variation_lines": variation_lines,
    "trait_text": trait_text,
    "trust_means": TRUST_MEANS,
    "words": WORDS,
}
"""Names that every template knows."""
