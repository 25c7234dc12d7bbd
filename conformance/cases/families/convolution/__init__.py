"""Convolutions, in one dimension or more, transposed or not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from npu_assay.conformance.cases.drafts import CaseDraft
from npu_assay.conformance.cases.families.convolution.floats import float_convolution
from npu_assay.conformance.cases.families.convolution.integers import integer_convolution_cases
from npu_assay.conformance.cases.families.convolution.static import convolution, static_convolution_cases
from npu_assay.conformance.cases.families.convolution.transposed import static_transposed_cases
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import bare
from npu_assay.conformance.cases.pieces.spelling import CONVOLUTION


def _static(precision: str, limits: Limits) -> list[CaseDraft]:
    return [*static_convolution_cases(precision, limits), *static_transposed_cases(precision, limits)]


FAMILIES: Mapping[str, Family] = {
    "aten.conv1d.default": Family(floats=partial(float_convolution, 1), without=("dynamic_int4",)),
    "aten.conv2d.default": Family(floats=partial(float_convolution, 2), without=("dynamic_int4",)),
    CONVOLUTION: Family(plain=lambda limits: (convolution(), bare), static=_static, integers=integer_convolution_cases),
}
