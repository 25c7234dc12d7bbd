"""Every operator's family: one registry, whatever the precision."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from npu_assay.conformance.cases.families import (
    conversion,
    convolution,
    logic,
    padding,
    reduction,
    resize,
    selection,
    slicing,
    softmax,
)
from npu_assay.conformance.cases.families.elementwise import arithmetic, bounds, functions, prelu
from npu_assay.conformance.cases.families.layout import concatenation, copies, permutation, views
from npu_assay.conformance.cases.families.linear import linear, matrices
from npu_assay.conformance.cases.family import Family

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        **functions.FAMILIES,
        **bounds.FAMILIES,
        **prelu.FAMILIES,
        **arithmetic.FAMILIES,
        **convolution.FAMILIES,
        **linear.FAMILIES,
        **matrices.FAMILIES,
        **concatenation.FAMILIES,
        **copies.FAMILIES,
        **permutation.FAMILIES,
        **views.FAMILIES,
        **slicing.FAMILIES,
        **padding.FAMILIES,
        **resize.FAMILIES,
        **reduction.FAMILIES,
        **softmax.FAMILIES,
        **logic.FAMILIES,
        **selection.FAMILIES,
        **conversion.FAMILIES,
    }
)
