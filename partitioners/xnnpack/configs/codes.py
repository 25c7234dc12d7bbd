"""Configs of conversions between codes and numbers."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, QUANTIZE_PER_TENSOR
from npu_assay.partitioners.xnnpack.config import DYNAMIC, STATIC, PartitionerConfig
from npu_assay.partitioners.xnnpack.patterns import CHOOSE_QPARAMS_AFFINE, DEQUANTIZE_AFFINE, QUANTIZE_AFFINE
from npu_assay.partitioners.xnnpack.site import Site
from npu_assay.partitioners.xnnpack.support.common import CODES


class QuantizedPerTensorConfig(PartitionerConfig):
    """quantized_decomposed.quantize_per_tensor.default"""

    target = QUANTIZE_PER_TENSOR
    precisions = (STATIC,)
    common = CODES

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """The conversion alone."""
        return (site.node,)


class DeQuantizedPerTensorConfig(QuantizedPerTensorConfig):
    """quantized_decomposed.dequantize_per_tensor.default"""

    target = DEQUANTIZE_PER_TENSOR


class QuantizeAffineConfig(PartitionerConfig):
    """torchao.quantize_affine.default: not decomposed, for its products, and never delegated on its own"""

    target = QUANTIZE_AFFINE
    precisions = (DYNAMIC,)
    common = ()
    is_preserved = True

    def rejections(self, site: Site) -> tuple[Rejection, ...]:
        """None: the operator is always worth keeping."""
        return ()

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """Nothing."""
        return ()


class DeQuantizeAffineConfig(QuantizeAffineConfig):
    """torchao.dequantize_affine.default: not decomposed, for its products, and never delegated on its own"""

    target = DEQUANTIZE_AFFINE


class ChooseQParamsAffineConfig(QuantizeAffineConfig):
    """torchao.choose_qparams_affine.default: not decomposed, for its products, and never delegated on its own"""

    target = CHOOSE_QPARAMS_AFFINE
