"""Reasons that no partitioner gives: what was seen of a model's quantization; and what helps against some."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npu_assay.conformance.explain.cures import COPIES
from npu_assay.conformance.explain.record import Reason
from npu_assay.conformance.explain.training import CURE

NOT_QUANTIZED = Reason("not_quantized", "numbers are real", "this backend takes the operator in quantized models only")
LEFT_OUT = Reason(
    NOT_QUANTIZED.code,
    "its constants are real numbers",
    "this backend takes the operator with quantized constants only",
)
LEFT_ALONE = Reason("not_quantized", "", "this backend takes its operators in quantized form only")
SILENT = Reason("no_reason", "no tag", "the partitioner left the operator out and gave no reason")
A_CONSTANT, UNNAMED = "a constant", ("_tensor_constant", "lifted_tensor_", "_frozen_param")
"""What a constant is called that the user gave no name, and what names export and quantizers give those have."""
UNCODED = "quantized"
"""The code of operators whose operands or results are not quantized: what comes after codes is no cause."""
UNSUPPORTED = "unsupported"
"""The code of operators that no table row has."""
TRAINING = ("BatchNorm", "Dropout", "batch_norm", "dropout")
TRAINED = f"it does as in training: {CURE}"
HINTS: Mapping[str, str] = {
    NOT_QUANTIZED.sentence: "quantize the model: --calibrate FILE.npz, or --calibrate random",
    LEFT_OUT.sentence: "quantize it as the layers around it",
    LEFT_ALONE.sentence: "write it in operators that the quantizer knows (listed in docs/lowering.md)",
}
SHARED = f"the layer is called {{}} times with one bias, whose codes have the scale of one call: {COPIES}"
CONVERSION = re.compile(r"\b_to(_dim_order)?_copy\.default$")
"""Operators that convert a type, of the edge dialect and of ATen."""
