"""Kernels with the arithmetic of XNNPACK: static int8, dynamic int8, 4-bit groupwise weights, float32, float16.

Images are NHWC. Every kernel is a factory: parameters first, checked and prepared once; it returns a function
on tensors of any fitting shape that never changes its inputs.

    elementwise   add, sub, mul, clamp: codes to codes
    linear        linear, conv2d, transpose_conv2d: codes to codes
    pooling       max_pool2d, and the mean of codes over an image
    convert       quantize, dequantize: between reals and codes
    dynamic       linear, conv2d, transpose_conv2d, groupwise_linear: reals that are quantized per row on the way in
    float32       kernels on real numbers, with XNNPACK's formulas; `activation` has exp, tanh, gelu and their like
"""
