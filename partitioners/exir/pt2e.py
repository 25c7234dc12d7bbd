"""What the quantizers use of torchao, which the extra `quantize` installs: the one place that imports it.

Without torchao, importing this raises one ModuleNotFoundError that names the extra.
"""

from __future__ import annotations

try:
    from torchao.quantization.pt2e import (
        HistogramObserver,
        MinMaxObserver,
        PerChannelMinMaxObserver,
        PlaceholderObserver,
    )
    from torchao.quantization.pt2e.quantizer import (
        DerivedQuantizationSpec,
        FixedQParamsQuantizationSpec,
        QuantizationAnnotation,
        QuantizationSpec,
        QuantizationSpecBase,
        Quantizer,
        SharedQuantizationSpec,
    )
except ModuleNotFoundError as error:
    if error.name != "torchao":
        raise
    message = "a quantizer needs torchao, which is not installed; expected: pip install 'npu-assay[quantize]'"
    raise ModuleNotFoundError(message, name="torchao") from None

__all__ = [
    "DerivedQuantizationSpec",
    "FixedQParamsQuantizationSpec",
    "HistogramObserver",
    "MinMaxObserver",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "QuantizationAnnotation",
    "QuantizationSpec",
    "QuantizationSpecBase",
    "Quantizer",
    "SharedQuantizationSpec",
]
