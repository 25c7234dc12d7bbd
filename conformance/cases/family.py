"""A family: the cases of an operator, in every precision that they are written for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npu_assay.conformance.cases.drafts import CaseDraft
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.table import INTEGER_PRECISIONS

Maker = Callable[[str, Limits], list[CaseDraft]]
"""Makes a row's cases in a precision, with what the table says of its limits."""
STATIC_INT8 = ""
"""The precision of a row that names none: int8, computed between dequantize and quantize nodes."""


@dataclass(frozen=True)
class Family:
    """The cases of one operator: a maker for each kind of precision, None where it knows nothing of the kind.

    static: static int8, of which a row says nothing. floats: floats, and codes with scales in the program or from run
    time. integers: codes and integers of hardware that computes on nothing else. plain: the plain application of
    static int8. without: precisions that it knows nothing of, though it knows others of their kind.
    """

    static: Maker | None = None
    floats: Maker | None = None
    integers: Maker | None = None
    plain: Callable[[Limits], Placed] | None = None
    without: tuple[str, ...] = ()

    def maker(self, precision: str) -> Maker | None:
        """What makes the cases in a precision, None where nothing does."""
        if precision in self.without:
            return None
        if precision == STATIC_INT8:
            return self.static
        return self.integers if precision in INTEGER_PRECISIONS else self.floats
