"""What ATen operators are in ONNX: one map, by which the second golden computes and `assay export` writes models.

Each form says an operator in ONNX's own, with the arguments as ONNX wants them, to whoever writes it (`site.Site`).
What is wrong in a form and right in the golden, or the reverse, makes the two goldens disagree. A form refuses what
ONNX has no form for; where ONNX has nothing at all, the operator's home says so. Forms in `apart` are the second
golden's alone.
"""
