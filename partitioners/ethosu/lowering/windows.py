"""Windows that move over images: where they start, and how the input must be padded or cut for the device."""

from __future__ import annotations

from collections.abc import Sequence

from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.values import Value, viewed
from npu_assay.partitioners.exir.layout import Layout


def channels_last(rank: int) -> Layout:
    """The device's order of the axes [N, C, ...] of an image."""
    return (0, *range(2, rank), 1)


NHWC = channels_last(4)


def spread(value: object, count: int) -> tuple[int, ...]:
    """`2` and `[2]` as (2, 2), when `count` numbers are asked for."""
    numbers = (value,) if isinstance(value, int) else tuple(value)  # type: ignore[arg-type]  # a list of int otherwise
    return numbers * count if len(numbers) == 1 else numbers


def as_image(value: Value) -> Value:
    """[C, H, W] as [1, C, H, W]; [N, C, H, W] as it is."""
    return viewed(value, (1, *value.shape)) if value.rank == 3 else value


def fitted(
    operation: Operation,
    tensor: str,
    outputs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    before: Sequence[int],
) -> tuple[str, tuple[int, ...]]:
    """A channels-last tensor whose padded size is exactly what the windows cover, and its (before, after) pads.

    The device requires that the last window ends at the padded size, so the elements after it are sliced off.
    """
    pads: list[int] = []
    for axis, (count, size, step, front) in enumerate(zip(outputs, kernel, stride, before, strict=True), start=1):
        length = operation.model.shape(tensor)[axis]
        behind = (count - 1) * step + size - length - front
        tensor = operation.slice(tensor, axis, 0, length + min(behind, 0))
        pads += [front, max(behind, 0)]
    return tensor, tuple(pads)
