"""TensorFlow Lite's int8 operators, as its reference kernels define them: codes in, codes out, in int64.

Functions take the codes first, then the operator's constants, and the quantizations of inputs and output (`Affine`).
Images are [N, H, W, C]. What a formula computes in float32 or float64 is said where it does. Operators that only
move codes need no arithmetic and are not here.
"""

from npu_assay.reference.arithmetic.tflite.elementwise import (
    abs_,
    add,
    exp,
    leaky_relu,
    log,
    logistic,
    mul,
    prelu,
    relu,
    requantize,
    sub,
    tanh,
)
from npu_assay.reference.arithmetic.tflite.linear import (
    batch_matmul,
    conv2d,
    fully_connected,
    mean,
    total,
    transpose_conv,
)
from npu_assay.reference.arithmetic.tflite.pooling import avg_pool2d, max_pool2d
from npu_assay.reference.arithmetic.tflite.resize import resize_bilinear, resize_nearest
from npu_assay.reference.arithmetic.tflite.softmax import OUTPUT, softmax

__all__ = [
    "OUTPUT",
    "abs_",
    "add",
    "avg_pool2d",
    "batch_matmul",
    "conv2d",
    "exp",
    "fully_connected",
    "leaky_relu",
    "log",
    "logistic",
    "max_pool2d",
    "mean",
    "mul",
    "prelu",
    "relu",
    "requantize",
    "resize_bilinear",
    "resize_nearest",
    "softmax",
    "sub",
    "tanh",
    "total",
    "transpose_conv",
]
