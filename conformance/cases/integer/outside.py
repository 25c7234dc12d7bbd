"""Cases of operators that installed packages bring: what every row of integer hardware has, of their plain use."""

from __future__ import annotations

from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, rescaled
from npu_assay.conformance.cases.integer.spelling import INT8, INT16
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Draft
from npu_assay.reference.outside import outside_operators


def outside(name: str) -> Family:
    """The cases of an operator in int8 and int16. Raises KeyError for one that no package brings."""
    operator = outside_operators()[name]
    subject = Subject(operator.use, operator.shape, operator.shapes, open=None, deep=False)

    def cases(precision: str, limits: Limits) -> list[Draft]:
        if precision not in (INT8, INT16):
            raise KeyError(name)
        return [*everywhere(subject, precision, limits), *rescaled(subject, precision)]

    return cases
