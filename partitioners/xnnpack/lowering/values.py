"""What a node of the program is in the subgraph: numbers or codes, and the layouts they exist in."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from npu_assay.partitioners.xnnpack.lowering.model import ModelBuilder, Shape
from npu_assay.partitioners.xnnpack.xnn_model import Array, PerTensor

DTYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "qint8"}

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)


@dataclass(eq=False)
class Value:
    """A value of torch shape `shape` (upper bounds) and type `dtype`, a name of the format.

    Codes ("qint8") have a `quant`. `ids` holds the subgraph's value in torch's axis order (key False) and
    channels-last (key True), the first one made being its home. A constant has `data` instead, and is written
    in the layouts that consumers ask for. `open_axes` are those whose size the program leaves open.
    """

    name: str
    shape: Shape
    dtype: str
    quant: PerTensor | None = None
    ids: dict[bool, int] = field(default_factory=dict)
    data: torch.Tensor | None = None
    open_axes: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_channels_last(self) -> bool:
        """Whether the value was made channels-last."""
        return bool(self.ids) and next(iter(self.ids))

    @property
    def is_single(self) -> bool:
        """Whether it has one element, which fits any layout."""
        return not self.open_axes and all(size == 1 for size in self.shape)


def id_of(model: ModelBuilder, value: Value, channels_last: bool = False) -> int:
    """The value in a layout, transposed when it does not exist there yet."""
    if channels_last not in value.ids:
        value.ids[channels_last] = _made(model, value, channels_last)
    return value.ids[channels_last]


def _made(model: ModelBuilder, value: Value, channels_last: bool) -> int:
    if value.data is not None:
        data = value.data.permute(TO_NHWC) if channels_last else value.data
        return model.add(value.dtype, tuple(data.shape), value.quant, array_of(data))
    perm = TO_NHWC if channels_last else TO_NCHW
    return model.emit("StaticTranspose", [value.ids[not channels_last]], options={"perm": perm})


def array_of(tensor: torch.Tensor) -> Array:
    """A constant's numbers as the format stores them: bfloat16 as their bits, scalars with one axis."""
    whole = tensor.detach().cpu().contiguous()
    array: Array = (whole.view(torch.int16) if whole.dtype == torch.bfloat16 else whole).numpy()
    array = array.view(np.uint16) if whole.dtype == torch.bfloat16 else array
    return array.reshape(array.shape or (1,))
