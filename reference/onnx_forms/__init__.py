"""Operators by ONNX: each form makes an ONNX operator of the same meaning, with the arguments as ONNX wants them.

Where one takes several, they are computed on the way in float64 by `onnx.reference`. What is wrong in a form and right
in the golden, or the reverse, makes the two disagree. A form is None where ONNX computes something else; where it has
nothing at all, the operator's home says so.
"""
