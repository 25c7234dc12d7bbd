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
from npu_assay.conformance.cases.families.pooling import average, maximum
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import model
from npu_assay.conformance.programs.graph import Graph

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
        **average.FAMILIES,
        **maximum.FAMILIES,
        **resize.FAMILIES,
        **reduction.FAMILIES,
        **softmax.FAMILIES,
        **logic.FAMILIES,
        **selection.FAMILIES,
        **conversion.FAMILIES,
    }
)
BASELINES = tuple(name for name, family in FAMILIES.items() if family.plain is not None)
"""The operators that have a plain model in static int8."""


def baseline(name: str, limits: Limits | None = None) -> Graph:
    """The plain model of an operator in static int8. Raises KeyError for one that has none."""
    plain = FAMILIES[name].plain
    if plain is None:
        raise KeyError(name)
    return model(*plain(Limits() if limits is None else limits))
