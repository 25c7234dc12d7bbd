"""Constraints of the suite as predicates, for rows that combine them with constraints that the table defines.

In other rows they have cases written by hand (docs/constraints.md); in such rows the cases are generated. A constraint
that is not listed here has no predicate: a table that combines it with its own must define it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from npu_assay.conformance.predicates.grammar import parse_predicate
from npu_assay.conformance.predicates.own import Definition

NAMED: Mapping[str, str] = MappingProxyType(
    {
        "alpha": "alpha == value",
        "batch": "batch == value",
        "ceil_mode": "ceil_mode == value",
        "dilation": "dilation_h == value and dilation_w == value",
        "keepdim": "keepdim == value",
        "kernel_area": "kernel_h * kernel_w <= value",
        "kernel_height": "kernel_h <= value",
        "max_elements": "x.elements <= value",
        "max_input_rank": "x.rank <= value",
        "max_rank": "x.rank <= value",
        "min_rank": "x.rank >= value",
        "rank": "x.rank == value",
        "same_shape": "x.shape == y.shape",
        "stride_h": "stride_h in value",
    }
)
WHATEVER_SIZES = frozenset(
    {
        *("configs", "dtype", "mixed_dtype", "nonempty", "open_sizes", "per_tensor", "precision"),
        *("quantized", "quantized_inputs", "quantized_outputs", "rescale", "same_qparams", "static_bias"),
        *("static_shape", "static_weights", "unfused", "weight_axis", "weight_zero_point"),
    }
)
"""Constraints on dtypes, scales and constants, which do not depend on sizes and arguments."""


@cache
def named_definition(code: str) -> Definition | None:
    """The suite's constraint of this id as a predicate; None where it has no definition."""
    return Definition(code, parse_predicate(NAMED[code])) if code in NAMED else None
