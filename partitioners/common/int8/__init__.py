"""Integer kernels with the semantics of TensorFlow Lite's int8 reference kernels.

NHWC int8 torch tensors. Every kernel is a factory: parameters first, checked and prepared once; it
returns a function on tensors that never changes its inputs.
"""
