"""The cases that a search found for a row's own limits, kept between runs: an unchanged row is not searched again.

The search is long where limits are many, and what it finds depends on the row, the suite and torch alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

from npu_assay.conformance.cases.drafts import CaseDraft
from npu_assay.conformance.cases.witnesses import plain, read
from npu_assay.conformance.common.remembered import Remembered
from npu_assay.conformance.record.provenance import made_with

KIND: Final = "boundaries"
DRAFTS: Final = "drafts"
Drafts = tuple[CaseDraft, ...]


def remembered(where: str, asked: str, search: Callable[[], Drafts]) -> Drafts:
    """The drafts that `search` makes, or made in a run before.

    where: the row's name. asked: all that the row says, as text. What does not come back from a file as it was is
    searched every time.
    """
    kept = Remembered(KIND, where, {"asked": asked, **_made()})
    found = _drafts(kept.read(DRAFTS))
    if found is None:
        found = search()
        told = plain(found)
        with suppress(TypeError):  # of what JSON has not, as a package's own kind of value
            if repr(_drafts(json.loads(json.dumps(told)))) == repr(found):
                kept.write(DRAFTS, told)
    return found


_made = cache(made_with)  # every row asks for it


def _drafts(told: object) -> Drafts | None:
    try:
        found = read(told)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, tuple) and all(isinstance(each, CaseDraft) for each in found) else None
