"""Averages over windows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.common.rules import adaptive_windows
from npu_assay.partitioners.ethosu.rewriting.writer import Writer, shape

aten = torch.ops.aten
DIRECT_STRIDES = (1, 2, 3)


def avg_pool2d(
    w: Writer,
    input: fx.Node,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> fx.Node | None:
    """Padding that counts is padded first; another divisor is another factor; a lone window has stride 1."""
    kernel, wanted, pads = (_both(sizes) for sizes in (kernel_size, stride or kernel_size, padding))
    steps = [_step(*each) for each in zip(shape(input)[-2:], kernel, wanted, pads, strict=True)]
    counted = count_include_pad or divisor_override is not None
    padded = counted and any(pads)
    if not padded and divisor_override is None and steps == wanted:
        return None
    if padded:
        sizes = shape(input)[-2:]
        only_given = ceil_mode and divisor_override is None
        ends = [_end(*each, only_given) for each in zip(sizes, kernel, steps, pads, strict=True)]
        input = w.call(aten.pad.default, input, [pads[1], ends[1], pads[0], ends[0]], "constant", 0.0)
    found = w.call(aten.avg_pool2d.default, input, kernel, steps, [0, 0] if counted else pads, ceil_mode, False)
    count = kernel[0] * kernel[1]
    if divisor_override in (None, count):
        return found
    assert divisor_override is not None
    return w.call(aten.mul.Tensor, found, count / divisor_override)


def _both(sizes: Sequence[int]) -> list[int]:
    """Height and width of a size that may be given once."""
    return [sizes[0], sizes[-1]]


def _step(size: int, kernel: int, step: int, pad: int) -> int:
    """The stride, which says nothing where one window takes all: then 1 rather than one too large."""
    return 1 if step > max(DIRECT_STRIDES) and size + 2 * pad == kernel else step


def _end(size: int, kernel: int, step: int, pad: int, only_given: bool) -> int:
    """Padding at the far end that windows reach; only_given: no more than was asked for, which alone counts."""
    if not pad:
        return 0
    left = (size + 2 * pad - kernel) % step
    if not left:
        return pad
    return pad if only_given else max(pad - left, 0)


def adaptive_avg_pool2d(w: Writer, input: fx.Node, output_size: Sequence[int]) -> fx.Node:
    """One pool where windows are alike and close, else one for each window."""
    sizes, wanted = shape(input)[-2:], _both(output_size)
    steps = [size // count for size, count in zip(sizes, wanted, strict=True)]
    rests = [size % count for size, count in zip(sizes, wanted, strict=True)]
    if all(rest in (0, 1) for rest in rests) and all(step in DIRECT_STRIDES for step in steps):
        kernel = [step + rest for step, rest in zip(steps, rests, strict=True)]
        return _pool(w, input, kernel, steps)
    rows = []
    for top, bottom in adaptive_windows(sizes[0], wanted[0]):
        row = [
            _pool(w, _window(w, input, (top, bottom), (left, right)), [bottom - top, right - left], [1, 1])
            for left, right in adaptive_windows(sizes[1], wanted[1])
        ]
        rows.append(_joined(w, row, -1))
    return _joined(w, rows, -2)


def _pool(w: Writer, input: fx.Node, kernel: list[int], steps: list[int]) -> fx.Node:
    return w.call(aten.avg_pool2d.default, input, kernel, steps, [0, 0], False, False)


def _window(w: Writer, input: fx.Node, rows: tuple[int, int], columns: tuple[int, int]) -> fx.Node:
    rank = len(shape(input))
    strip = w.call(aten.slice_copy.Tensor, input, rank - 2, *rows)
    return w.call(aten.slice_copy.Tensor, strip, rank - 1, *columns)


def _joined(w: Writer, parts: list[fx.Node], dim: int) -> fx.Node:
    return parts[0] if len(parts) == 1 else w.call(aten.cat.default, parts, dim % len(shape(parts[0])))


def same_padding(
    w: Writer,
    input: fx.Node,
    weight: fx.Node,
    bias: fx.Node | None = None,
    stride: int | list[int] = 1,
    padding: str = "valid",
    dilation: int | list[int] = 1,
    groups: int = 1,
) -> fx.Node | None:
    """padding="same" where the two sides differ, as with even kernels: the larger one is a padding of its own."""
    target, kernel = w.node.target, shape(weight)[2:]
    assert isinstance(target, OpOverload)
    strides, steps = ([each] * len(kernel) if isinstance(each, int) else [*each] for each in (stride, dilation))
    totals = [step * (size - 1) for step, size in zip(steps, kernel, strict=True)]
    if padding != "same" or all(total % 2 == 0 for total in totals):
        return None
    more = [amount for total in reversed(totals) for amount in (0, total % 2)]
    padded, pads = w.call(aten.pad.default, input, more), [total // 2 for total in totals]
    return w.call(target.overloadpacket.default, padded, weight, bias, strides, pads, steps, groups)
