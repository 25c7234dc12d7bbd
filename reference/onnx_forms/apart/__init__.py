"""Forms that only the second golden computes: several ONNX operators for what is one in ATen.

The numbers are at hand here (`onnx_node.Evaluated`). `assay export` has a form of its own for these operators, in which
ONNX keeps a constant in float32, or leaves them out.
"""
