"""What a float node of the program is on the device: codes, their quantization, and the layouts they exist in."""

from __future__ import annotations

from dataclasses import dataclass

from npu_assay.partitioners.common.lowering import Array, LaidOut
from npu_assay.partitioners.exir.layout import Layout
from npu_assay.partitioners.neutron.lowering.model import ModelBuilder
from npu_assay.partitioners.neutron.lowering.quantization import Quantisation


@dataclass(eq=False)
class Value(LaidOut[ModelBuilder, int]):
    """A quantized value."""

    quantisation: Quantisation

    def constant(self, model: ModelBuilder, data: Array, layout: Layout) -> int:
        """The tensor of a constant, the axis of its scales counted on the device."""
        quantisation = self.quantisation
        if quantisation.per_channel:
            quantisation = quantisation.moved(layout.index(quantisation.axis))
        return model.constant(self.name, data, quantisation)
