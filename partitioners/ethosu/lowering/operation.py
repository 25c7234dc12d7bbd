"""One operator application as lowering functions see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import fx

from npu_assay.partitioners.common.lowering import static_shape
from npu_assay.partitioners.ethosu.lowering.context import CODES, Context, checked
from npu_assay.partitioners.ethosu.lowering.model import ModelBuilder
from npu_assay.partitioners.ethosu.lowering.scaling import code_of
from npu_assay.partitioners.ethosu.lowering.values import DTYPES, PerChannel, Value, viewed
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES
from npu_assay.partitioners.exir.compiling import axis_of, bind, refusal, require
from npu_assay.partitioners.exir.layout import Layout, arranged, identity, inverse
from npu_assay.partitioners.exir.nodes import value as value_of
from npu_assay.partitioners.exir.qdq import QParams


@dataclass(frozen=True)
class Operation:
    """`node`, the quantization of its result when that is quantized, and the limits of an activation fused to it."""

    ctx: Context
    node: fx.Node
    quant: QParams | None = None
    limits: tuple[float, float] | None = None

    @property
    def model(self) -> ModelBuilder:
        """The graph that is being written."""
        return self.ctx.model

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The operator's arguments by name."""
        return bind(self.node)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the (first) result. Raises CompileError for open ones."""
        return static_shape(self.node)

    @property
    def dtype(self) -> str:
        """The device type of a result that is not quantized."""
        found = value_of(self.node)
        dtype = None if found is None else found.dtype
        self.require(dtype in DTYPES, "type of the result", dtype, "bool, int8, int16, int32, or quantized")
        assert dtype is not None
        return DTYPES[dtype]

    @cached_property
    def y(self) -> QParams:
        """The quantization of the result. Raises CompileError when it has none, or one that the device has not."""
        if self.quant is None:
            raise refusal(self.node, "result", "numbers without a quantize after them", "a quantized result")
        return checked(self.quant, self.node)

    def require(self, holds: bool, what: str, found: object, expected: object) -> None:
        """Raise the node's CompileError unless the condition holds."""
        require(holds, self.node, what, found, expected)

    # -- operands

    def operand(self, source: Any) -> Value:
        """The value of a tensor argument."""
        return self.ctx.value(source, self.node)

    @property
    def first(self) -> Value:
        """The value of the first argument."""
        return self.operand(self.node.args[0])

    def axis(self, dim: int, rank: int) -> int:
        """A dimension counted from the front."""
        return axis_of(self.node, dim, rank)

    def quant_of(self, value: Value) -> QParams:
        """The parameters of an operand that must be quantized, per tensor, in 8 or 16 bits."""
        found = value.quant
        if isinstance(found, PerChannel):
            raise refusal(self.node, "quantization of an operand", "a scale per channel", "one scale")
        if found is None or found.dtype == torch.int32:
            kind = value.dtype if found is None else "int32 codes"
            raise refusal(self.node, "operand", f"{value.name} ({kind})", "a tensor quantized in 8 or 16 bits")
        return found

    def tensor(self, value: Value, layout: Layout | None = None) -> str:
        """The value's device tensor in a layout (None: where it costs nothing)."""
        return value.tensor(self.model, layout)

    def together(self, values: Sequence[Value], rank: int | None = None) -> tuple[Layout, list[str]]:
        """Tensors of the result's rank in one layout: that of the operand with most elements."""
        rank = len(self.shape) if rank is None else rank
        views = [viewed(value, (1,) * (rank - value.rank) + value.shape) for value in values]
        computed = [view for view in views if view.data is None]
        layout = identity(rank)
        if computed:
            layout = max(computed, key=lambda view: (int(np.prod(view.shape)), view.home != identity(rank))).home
        return layout, [self.tensor(view, layout) for view in views]

    # -- writing

    def emit(self, code: str, inputs: Sequence[str], shape: Sequence[int], dtype: str, /, **attributes: Any) -> str:
        """Append an operator."""
        return self.model.emit(code, inputs, self.node.name, shape, dtype, attributes)

    def number(self, number: int, dtype: str, rank: int) -> str:
        """A constant of one element that broadcasts over tensors of a rank."""
        return self.model.constant(f"number_{number}", np.full((1,) * rank, number, NUMPY_TYPES[dtype]), dtype)

    def rescale(self, tensor: str, ratios: Sequence[float], dtype: str, zeros: tuple[int, int] = (0, 0)) -> str:
        """RESCALE; raises CompileError for a ratio out of range."""
        return self.ctx.rescale(tensor, tuple(ratios), dtype, self.node, zeros)

    def widened(self, tensor: str, quant: QParams, ratio: float) -> str:
        """Codes as int32 numbers in steps that are `ratio` times as fine."""
        return self.rescale(tensor, (ratio,), "INT32", (quant.zero_point, 0))

    def narrowed(self, tensor: str, ratios: Sequence[float], y: QParams | None = None) -> str:
        """Wide numbers as the result's codes, within the limits of the quantization and of a fused activation."""
        y = self.y if y is None else y
        made = self.rescale(tensor, ratios, CODES[y.dtype], (0, y.zero_point))
        if self.limits is None:
            return self.ctx.limited(made, y, self.node)
        return self.ctx.limited(made, y, self.node, *(code_of(limit, y) for limit in self.limits))

    def integers(self, tensor: str, dtype: str) -> str:
        """Plain integers in another dtype."""
        return self.model.cast(tensor, dtype, f"{self.node.name}_{dtype.lower()}")

    def slice(self, tensor: str, axis: int, start: int, size: int) -> str:
        """`size` neighbors along a device axis."""
        shape = self.model.shape(tensor)
        starts = [start if each == axis else 0 for each in range(len(shape))]
        sizes = [size if each == axis else length for each, length in enumerate(shape)]
        return self.model.slice(tensor, starts, sizes, f"{self.node.name}_part")

    # -- results

    def result(self, tensor: str, layout: Layout | None = None, *, quant: QParams | None = None) -> Value:
        """The operation's result, held in `layout` (None: torch's order); `quant` unless it is plain."""
        layout = identity(len(self.shape)) if layout is None else layout
        return Value(self.node.name, self.shape, self.model.dtype(tensor), quant, tensors={layout: tensor})

    def held(self, tensor: str, layout: Layout, quant: QParams | None) -> Value:
        """The value of a tensor of any shape in a layout, seen in the result's shape."""
        shape = arranged(self.model.shape(tensor), inverse(layout))
        whole = Value(self.node.name, shape, self.model.dtype(tensor), quant, tensors={layout: tensor})
        return viewed(whole, self.shape)


Lower = Callable[[Operation], Value]
