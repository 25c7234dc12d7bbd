"""The integer arithmetic of TOSA 1.0 (PRO-INT with EXT-INT16), on torch tensors in TOSA's layout (NHWC).

Types: INT8, INT16, INT32 and BOOL are the torch types of those names, INT48 is int64. Every kernel is a factory:
parameters first, prepared once; the returned function works on tensors, which stay as they are. Accumulators of
products are floating-point numbers that hold exact integers; `rescale` takes them as they are, `integers` makes
INT32 or INT48 of them.

Rescales round once, ties towards plus infinity: the scheme "tosa_single_round" of `partitioners.common.rescale`. Where
TOSA calls a result unpredictable (an overflow, an index outside), kernels raise `Unpredictable`.

Source of all formulas: the operators' pseudo-code in the TOSA 1.0 specification.
"""

from npu_assay.partitioners.ethosu.kernels.numbers import Codes, Unpredictable, codes
from npu_assay.partitioners.ethosu.kernels.rescale import scale

__all__ = ["Codes", "Unpredictable", "codes", "scale"]
