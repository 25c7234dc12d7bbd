"""The float golden: what an operator's numbers must be, in float64, with a bound for every element.

`run` propagates bounds through an operator, `device` says how far a named integer arithmetic may be
from the real result before it rounds, and `quantised` rounds to an output's grid. Inputs that are
codes are exact, so after one operator the bound is half a step plus the error bound.
"""

from npu_assay.reference.golden.aten import bound, canonical
from npu_assay.reference.golden.bounded import ZERO, Bounded, GoldenError, values
from npu_assay.reference.golden.error_bound import ErrorBound, device, excess, on_grid, reciprocal_scale
from npu_assay.reference.golden.error_bound_tosa import is_looked_up, rounded_operands
from npu_assay.reference.golden.float32 import FORMATS, quantise_float32, run_float, run_float32, run_whole
from npu_assay.reference.golden.grid import (
    Codes,
    chosen_at_run_time,
    codes_at_run_time,
    dequantised,
    groupwise,
    legal_codes,
    quantised,
)
from npu_assay.reference.golden.operators import OPERATORS, dtype_rule, result_kind, run

__all__ = [
    "FORMATS",
    "OPERATORS",
    "ZERO",
    "Bounded",
    "Codes",
    "ErrorBound",
    "GoldenError",
    "bound",
    "canonical",
    "chosen_at_run_time",
    "codes_at_run_time",
    "dequantised",
    "device",
    "dtype_rule",
    "excess",
    "groupwise",
    "is_looked_up",
    "legal_codes",
    "on_grid",
    "quantise_float32",
    "quantised",
    "reciprocal_scale",
    "result_kind",
    "rounded_operands",
    "run",
    "run_float",
    "run_float32",
    "run_whole",
    "values",
]
