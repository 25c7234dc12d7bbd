"""Rules of pooling."""

from __future__ import annotations

import torch
from torch import fx

from npu_assay.partitioners.common.rules import adaptive_windows, pool_kernel, pool_padding, pool_stride
from npu_assay.partitioners.ethosu.support import linear
from npu_assay.partitioners.ethosu.support.common import MAX_SIDE, MAX_SIZE, MAX_STRIDE, dtype_of
from npu_assay.partitioners.ethosu.support.linear import on_u55
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import argument, operand, pair, shape, size_text, type_text
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.rules import rule

MAX_KERNEL_HEIGHT = 256
MAX_PADDED_KERNEL = 8


def dilation(node: fx.Node) -> tuple[int, int]:
    """The dilation of max pools; 1 for average pools."""
    return (pair(argument(node, 4, "dilation")) or (1, 1)) if "max_pool" in target_name(node.target) else (1, 1)


def window_text(node: fx.Node) -> str:
    """The window as messages print it."""
    return f"kernel {size_text(pool_kernel(node))}, stride {size_text(pool_stride(node))}"


@rule("dilation_stride")
def dilation_stride(node: fx.Node, context: Context) -> str | None:
    """where the dilation is not 1, the stride must be 1 or the output a single pixel"""
    # Dilated max pools are taken apart into pools of every so many-th pixel.
    if shape(node)[-2:] == (1, 1):
        return None
    for step, spread in zip(pool_stride(node), dilation(node), strict=True):
        if spread > 1 and step != 1:
            return f"dilation {dilation(node)}, stride {pool_stride(node)}"
    return None


@rule("indices_unused")
def indices_unused(node: fx.Node, context: Context) -> str | None:
    """the index output must have no consumer"""
    # MAX_POOL2D has no indices.
    for user in node.users:
        if user.args[1] != 0:
            return f"{user.name} selects the indices"
    return None


@on_u55
@rule("kernel_height", MAX_KERNEL_HEIGHT)
def kernel_height(node: fx.Node, context: Context) -> str | None:
    """the kernel height must be at most {value}"""
    # 1.5.1 looks at the width.
    return None if pool_kernel(node)[0] <= MAX_KERNEL_HEIGHT else window_text(node)


@on_u55
@rule("kernel_area", MAX_SIZE)
def kernel_area(node: fx.Node, context: Context) -> str | None:
    """kernel height * width must be at most {value}"""
    return None if pool_kernel(node)[0] * pool_kernel(node)[1] <= MAX_SIZE else window_text(node)


@rule("window_side", MAX_SIDE)
def window_side(node: fx.Node, context: Context) -> str | None:
    """kernel and stride must be at most {value} in height and width"""
    # TOSA's level 8K, which Vela documents.
    return None if max(*pool_kernel(node), *pool_stride(node)) <= MAX_SIDE else window_text(node)


@on_u55
@rule("stride")
def stride(node: fx.Node, context: Context) -> str | None:
    """the stride must be 1 to 3"""
    return None if max(pool_stride(node)) <= MAX_STRIDE else window_text(node)


@on_u55
@rule("stride_or_window")
def stride_or_window(node: fx.Node, context: Context) -> str | None:
    """the stride must be 1 to 3 or, without padding, dilation and ceil_mode, the window"""
    # Windows side by side are reduced one dimension after the other.
    fine = max(pool_stride(node)) <= MAX_STRIDE or _is_side_by_side(node)
    return None if fine else window_text(node)


def _is_side_by_side(node: fx.Node) -> bool:
    """Whether the windows tile the image, and what they are reshaped to is within the device's limits."""
    sizes = shape(operand(node))[-3:]
    (height, width), ceil_mode = pool_kernel(node), bool(argument(node, 5, "ceil_mode", False))
    if pool_stride(node) != (height, width) or pool_padding(node) != (0, 0) or dilation(node) != (1, 1) or ceil_mode:
        return False
    if sizes[1] < height or sizes[2] < width or max(height, width) > MAX_KERNEL_HEIGHT:
        return False
    rows, columns = sizes[1] // height, sizes[2] // width
    return max(sizes[0], rows * columns * height) <= MAX_SIZE


@on_u55
@rule("dilated_size", MAX_SIZE)
def dilated_size(node: fx.Node, context: Context) -> str | None:
    """with dilation, a row may have at most {value} numbers, every so many-th column of all images as many pixels"""
    # Every so many-th row or pixel becomes an image of its own by a transposition, which Vela limits.
    gaps, (batch, channels) = dilation(node), (1, *shape(operand(node))[:-2])[-2:]
    windows = zip(pool_kernel(node), pool_stride(node), gaps, shape(node)[-2:], strict=True)
    rows, columns = ((count - 1) * step // gap + window for window, step, gap, count in windows)
    pixels = batch * rows * gaps[0] * columns
    row = columns * gaps[1] * channels
    largest = max(row if gaps[0] > 1 else 0, pixels if gaps[1] > 1 else 0)
    return None if largest <= MAX_SIZE else f"{largest} in pieces of {rows}x{columns}"


@on_u55
@rule("batch")
def single_image(node: fx.Node, context: Context) -> str | None:
    """the batch size must be 1"""
    sizes = shape(operand(node))
    return f"batch size {sizes[0]}" if len(sizes) == 4 and sizes[0] != 1 else None


@on_u55
@rule("padded_kernel", MAX_PADDED_KERNEL)
def padded_kernel(node: fx.Node, context: Context) -> str | None:
    """with padding, the kernel must be at most {value} in height and width"""
    # Of average pools that leave the padding out of the average; otherwise it is added before.
    if max(pool_kernel(node)) <= MAX_PADDED_KERNEL or not any(tosa_padding(node)):
        return None
    return f"{window_text(node)}, padding {tosa_padding(node)}"


@on_u55
@rule("divided_window", f"({linear.MAX_KERNEL_HEIGHT}, {linear.MAX_KERNEL_AREA})")
def divided_window(node: fx.Node, context: Context) -> str | None:
    """with divisor_override, height and height * width of the window must be at most {value}"""
    # Of average pools: with a divisor of its own, a pool is a convolution with weights of 1.
    (height, width), divisor = pool_kernel(node), argument(node, 6, "divisor_override")
    fits = height <= linear.MAX_KERNEL_HEIGHT and height * width <= linear.MAX_KERNEL_AREA
    return None if divisor is None or fits else f"{window_text(node)}, divisor {divisor}"


def tosa_padding(node: fx.Node) -> tuple[int, ...]:
    """Rows and columns that AVG_POOL2D adds itself: top, bottom, left, right. Negative ones are cut off before."""
    if argument(node, 5, "count_include_pad", True) or argument(node, 6, "divisor_override") is not None:
        return (0, 0, 0, 0)
    before, after = shape(operand(node))[-2:], shape(node)[-2:]
    found: list[int] = []
    for size, out, window, step, pad in zip(
        before, after, pool_kernel(node), pool_stride(node), pool_padding(node), strict=True
    ):
        found += [pad, (out - 1) * step - size + window - pad]
    return tuple(found)


def largest_window(node: fx.Node) -> tuple[int, int]:
    """Height and width of the largest window of an adaptive pool."""
    pairs = zip(shape(operand(node))[-2:], shape(node)[-2:], strict=True)
    height, width = (max((e - s for s, e in adaptive_windows(*pair)), default=1) for pair in pairs)
    return height, width


@on_u55
@rule("kernel_height", MAX_KERNEL_HEIGHT)
def adaptive_height(node: fx.Node, context: Context) -> str | None:
    """the kernel height must be at most {value}"""
    height, width = largest_window(node)
    return None if height <= MAX_KERNEL_HEIGHT else f"window {height}x{width}"


@on_u55
@rule("kernel_area", MAX_SIZE)
def adaptive_area(node: fx.Node, context: Context) -> str | None:
    """kernel height * width must be at most {value}"""
    height, width = largest_window(node)
    return None if height * width <= MAX_SIZE else f"window {height}x{width}"


@rule("window_side", MAX_SIDE)
def adaptive_side(node: fx.Node, context: Context) -> str | None:
    """kernel and stride must be at most {value} in height and width"""
    height, width = largest_window(node)
    return None if max(height, width) <= MAX_SIDE else f"window {height}x{width}"


@rule("code_dtype")
def pooled_dtype(node: fx.Node, context: Context) -> str | None:
    """the values must be int8 or int16, or quantized so"""
    found = dtype_of(node.all_input_nodes[0])
    return None if found in (torch.int8, torch.int16, torch.float32, torch.float16) else type_text(found)
