"""One operator application as lowering functions see it, whether on numbers or on codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import fx

from npu_assay.partitioners.exir.compiling import bind
from npu_assay.partitioners.xnnpack.lowering.context import Context, bounds, dtype_of
from npu_assay.partitioners.xnnpack.lowering.values import Value, id_of
from npu_assay.partitioners.xnnpack.xnn_model import PerTensor


@dataclass(frozen=True)
class Operation:
    """`node`, with the result's quantization when it is computed on codes, and the limits of what follows it.

    norm: the batch norm right after a product, which becomes part of it.
    """

    ctx: Context
    node: fx.Node
    quant: PerTensor | None = None
    limits: tuple[float, float] | None = None
    norm: fx.Node | None = None

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The operator's arguments by name."""
        return bind(self.node)

    def operand(self, source: Any) -> Value:
        """The value of a tensor argument: its codes if the operator is computed on codes."""
        return self.ctx.value(source, self.node) if self.quant is None else self.ctx.codes(source)

    @property
    def operands(self) -> list[Value]:
        """Every tensor argument, in order."""
        return [self.operand(source) for source in self.node.all_input_nodes]

    def id_of(self, value: Value, channels_last: bool = False) -> int:
        """A value's place in the subgraph, in a layout."""
        return id_of(self.ctx.model, value, channels_last)

    def emit(
        self,
        op: str,
        inputs: Sequence[int],
        options: Mapping[str, Any] = {},
        *,
        flags: int = 0,
        limits: tuple[float, float] | None = None,
    ) -> int:
        """A node whose result has the operation's type and quantization."""
        dtype = dtype_of(self.node) if self.quant is None else "qint8"
        return self.ctx.model.emit(op, inputs, dtype, self.quant, options, flags=flags, limits=limits)

    def moved(self, op: str, inputs: Sequence[int], options: Mapping[str, Any] = {}) -> int:
        """A node whose result has the first operand's type and quantization."""
        return self.ctx.model.emit(op, inputs, options=options)

    def result(self, made: int, channels_last: bool = False) -> Value:
        """The operation's result, which lies at `made`."""
        shape, open_axes = bounds(self.node)
        found = self.ctx.model.values[made]
        quant = found.quant if isinstance(found.quant, PerTensor) else None
        return Value(self.node.name, shape, found.dtype, quant, {channels_last: made}, open_axes=open_axes)
