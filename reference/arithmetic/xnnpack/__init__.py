"""XNNPACK's operators as its reference microkernels define them: `static` int8, `dynamic` int8, and `floats`.

Functions take the codes or reals first, then the operator's constants. Images are [N, H, W, C]. What a formula
computes in float32 is said where it does. Real kernels that approximate (exp, tanh, softmax) or sum in an order of the
processor's have no exact result: `npu_assay.reference.golden.accuracy_xnnpack` says how far they may be from it.
"""

from npu_assay.reference.arithmetic.xnnpack import dynamic, floats, static
from npu_assay.reference.arithmetic.xnnpack.dynamic import is_matrix_product
from npu_assay.reference.arithmetic.xnnpack.floats import flushed, quantize

__all__ = ["dynamic", "floats", "flushed", "is_matrix_product", "quantize", "static"]
