"""The counts at the head of the page: how many cases of each operator, precision and constraint fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from npu_assay.conformance.record.results import NOT_PASSED, CaseResult

SHOWN = 6
"""Lines of each list: all three fit on one screen."""
KEYS = {"operator": "row", "precision": "precision", "constraint": "constraint"}
"""The page's filters, and what they are of a result."""
Count = tuple[str, int, int]
"""A name, its cases that fail or are undecided, not waived, and all its cases."""


def summary(results: Sequence[CaseResult], waived: set[str]) -> Iterator[tuple[str, Sequence[Count], str]]:
    """The counts by each of KEYS that has names, most failing first, and what is not shown, in words."""
    failing = [r for r in results if r.status in NOT_PASSED and r.case not in waived]
    for key, name in KEYS.items():
        cases, bad = (Counter[str](getattr(result, name) for result in group) for group in (results, failing))
        found = sorted(((each, bad[each], count) for each, count in cases.items()), key=lambda x: (-x[1], -x[2], x[0]))
        if any(cases):
            yield key, found[:SHOWN], _rest(found[SHOWN:])


def _rest(hidden: Sequence[Count]) -> str:
    failing = sum(bad > 0 for _, bad, _ in hidden)
    return f"and {len(hidden)} more, {failing or 'none'} with failures" if hidden else ""


def cases_link(**filters: str | int) -> str:
    """A link that shows the cases that these filters leave: `#cases?operator=aten.abs.default&status=fail`."""
    return f"#cases?{urlencode({key: value for key, value in filters.items() if value != ''})}"
