"""Windows over images whose two axes differ in everything: sizes, kernels, strides, padding, dilation.

Whatever confuses the axes, or one argument with another, shows on one of these programs. Each list has another length,
so that combining the lists by position pairs every entry of one with many of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, accepted, valued
from npu_assay.conformance.cases.families.convolution.integers import Convolution, no_transposed
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import call, model, sizes_of
from npu_assay.conformance.cases.pieces.spelling import CONVOLUTION, INT8, INTEGERS, spelled
from npu_assay.conformance.cases.variants.windows import ADAPTIVE, AVERAGE, INDICES, MAXIMUM
from npu_assay.conformance.programs.graph import Graph

Pair = tuple[int, int]
SIZES: tuple[Pair, ...] = ((9, 7), (6, 11), (8, 13), (10, 5), (12, 7))
KERNELS: tuple[Pair, ...] = ((3, 2), (1, 4), (2, 1), (4, 3))
STRIDES: tuple[Pair, ...] = ((1, 2), (2, 1), (3, 2), (1, 1), (2, 3), (1, 3), (3, 1))
PADDING: tuple[Pair, ...] = ((0, 1), (1, 0), (2, 1))
DILATION: tuple[Pair, ...] = ((1, 1), (2, 1), (1, 3), (1, 2), (3, 2), (2, 3))
CHANNELS = (1, 3, 4, 6, 2)
GROUPS: tuple[tuple[int, int, int], ...] = ((3, 5, 1), (4, 6, 2), (3, 3, 3), (2, 6, 2), (6, 4, 2))
"""Inputs, outputs and groups of convolutions: none, some, a channel each, and several outputs of each."""
MANY, FEW = 21, 6


@dataclass(frozen=True)
class Window:
    """How a kernel moves over an image."""

    size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    @classmethod
    def number(cls, index: int) -> Window:
        """One of many, by position in the lists."""
        lists = (SIZES, KERNELS, STRIDES, PADDING, DILATION)
        size, kernel, stride, padding, dilation = (each[index % len(each)] for each in lists)
        spread = (min(d, (n - 1) // max(k - 1, 1)) for d, n, k in zip(dilation, size, kernel, strict=True))
        return cls(size, kernel, stride, padding, (next(spread), next(spread)))

    @property
    def pooled(self) -> Window:
        """Pools are padded by half of the window at most, and dilated where they do not step."""
        padding = min(self.padding[0], self.kernel[0] // 2), min(self.padding[1], self.kernel[1] // 2)
        stride = tuple(step if spread == 1 else 1 for step, spread in zip(self.stride, self.dilation, strict=True))
        return replace(self, padding=padding, stride=(stride[0], stride[1]))

    @property
    def reaches_beyond(self) -> bool:
        """Whether the last window, where sizes are rounded up, leaves an axis that is not padded."""
        each = zip(self.size, self.kernel, self.stride, self.padding, strict=True)
        return any(not pad and (size - kernel) % step for size, kernel, step, pad in each)

    @property
    def name(self) -> str:
        """What stands in the id of a case."""
        named = zip("ksp", (self.kernel, self.stride, self.padding), strict=True)
        return "_".join((sizes_of(self.size), *(f"{letter}{sizes_of(pair)}" for letter, pair in named)))


def windows(precision: str) -> Iterator[tuple[int, Window]]:
    """Numbered; of the other precisions, which move no differently, a few."""
    for index in range(MANY if precision == INT8 else FEW):
        yield index, Window.number(index)


def drafted(precision: str, variant: str, graph: Graph) -> CaseDraft:
    """In int8 a program that is accepted; in others the numbers alone are new."""
    return (accepted if precision == INT8 else valued)(f"window_{variant}", graph)


# ------------------------------------------------------------------------------------ convolutions


def convolutions(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Windows of one, two and three dimensions, in groups, with and without bias."""
    for index, w in windows(precision):
        inputs, outputs, groups = GROUPS[index % len(GROUPS)]
        shape, bias = (1 if index % 2 else 2, inputs, *w.size), index % 3 != 2
        found = Convolution(shape, w.kernel, outputs, w.stride, w.padding, w.dilation, groups=groups, bias=bias)
        name = f"{w.name}_d{sizes_of(w.dilation)}_g{groups}_of_{inputs}"
        yield drafted(precision, name, model(spelled(found.call(), precision)))
    yield from lines(precision)
    yield from volumes(precision, limits)
    if not no_transposed(precision, limits):
        yield from transposed(precision, limits)


def lines(precision: str) -> Iterator[CaseDraft]:
    """Windows of one dimension."""
    for index in range(6 if precision == INT8 else 2):
        w, (inputs, outputs, groups) = Window.number(index), GROUPS[index % len(GROUPS)]
        settings = ((pair[1],) for pair in (w.kernel, w.stride, w.padding, w.dilation))
        kernel, stride, padding, dilation = settings
        shape = (1 + index % 2, inputs, w.size[0] + 4)
        found = Convolution(shape, kernel, outputs, stride, padding, dilation, extra=(0,), groups=groups)
        name = f"line_{shape[2]}_k{kernel[0]}_s{stride[0]}_p{padding[0]}_d{dilation[0]}_g{groups}"
        yield drafted(precision, name, model(spelled(found.call(), precision)))


def volumes(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Windows of three dimensions; where kernels must be flat, of planes, which may be more than one step apart."""
    flat = "kernel_depth" in limits
    for index in range(6 if precision == INT8 else 2):
        w, (inputs, outputs, groups) = Window.number(index), GROUPS[index % 2]
        depth = (1, 1, 0, 1) if flat or index % 3 == 0 else (2 + index % 2, 1 + index % 2, index % 2, 1 + index % 3)
        size, kernel = (4 + index % 2, *w.size), (depth[0], *w.kernel)
        stride, padding, dilation = ((n, *p) for n, p in zip(depth[1:], (w.stride, w.padding, w.dilation), strict=True))
        shape = (1, inputs, *size)
        found = Convolution(shape, kernel, outputs, stride, padding, dilation, extra=(0, 0, 0), groups=groups)
        name = f"volume_{w.name}_d{sizes_of(w.dilation)}_deep{'_'.join(map(str, depth))}_g{groups}"
        yield drafted(precision, name, model(spelled(found.call(), precision)))


def transposed(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Strides, and what is added after, of both axes; Ethos-U55 steps by 1x1 or 2x2."""
    steps = ((1, 1), (2, 2)) if "transposed_stride" in limits else ((2, 3), (3, 2), (1, 3), (3, 1), (1, 2))
    channels = ((3, 5, 1), (4, 6, 2), (2, 7, 1))
    for index in range(10 if precision == INT8 else 3):
        w, stride = Window.number(index), steps[index % len(steps)]
        kernel = tuple(max(size, step) for size, step in zip(w.kernel, stride, strict=True))
        padding = tuple(min(pad, size - 1) for pad, size in zip(w.padding, kernel, strict=True))
        extra = tuple(min(step - 1, (index + at) % 2) for at, step in enumerate(stride))
        inputs, outputs, groups = channels[0 if precision != INT8 else index % len(channels)]
        if groups > 1 and ("u55" in limits.where or precision != INT8):
            inputs, outputs, groups = channels[0]
        shape = (1 + index % 2, inputs, *w.size)
        found = Convolution(
            shape, kernel, outputs, stride, padding, transposed=True, extra=extra, groups=groups, bias=index % 3 != 0
        )
        name = f"transposed_{sizes_of(w.size)}_k{sizes_of(kernel)}_s{sizes_of(stride)}_p{sizes_of(padding)}"
        name = f"{name}_e{sizes_of(extra)}_g{groups}"
        yield drafted(precision, name, model(spelled(found.call(), precision)))


# ------------------------------------------------------------------------------------ pools


def _image(index: int, w: Window, limits: Limits) -> tuple[int, ...]:
    """With several images where they may be, and now and then without their dimension."""
    shape = (CHANNELS[index % len(CHANNELS)], *w.size)
    return shape if index % 4 == 3 else (1 if "batch" in limits or index % 2 else 2, *shape)


def averages(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Padding that counts and that does not, sizes rounded up and down, divisors."""
    for index, w in ((index, replace(each, dilation=(1, 1)).pooled) for index, each in windows(precision)):
        counted, divisor = bool(index // 2 % 2), (None, None, 7)[index % 3]
        ceil = bool(index % 2) and not w.reaches_beyond  # onnx.reference averages what is not there
        args = (w.kernel, w.stride, w.padding, ceil, counted, divisor)
        name = f"{w.name}{'_ceil' * ceil}{'_counted' * counted}{'' if divisor is None else f'_by_{divisor}'}"
        graph = model(spelled(call(AVERAGE, _image(index, w, limits), *args), precision))
        yield drafted(precision, name, graph)
    negative = call(AVERAGE, (1, 3, 9, 7), (3, 2), (2, 3), (0, 1), False, True, -5)
    yield drafted(precision, "by_minus_5", model(spelled(negative, precision)))


def maxima(op: str, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Dilated or not, sizes rounded up and down."""
    for index, w in ((index, each.pooled) for index, each in windows(precision)):
        ceil = bool(index % 2)
        args = (w.kernel, w.stride, w.padding, w.dilation, ceil)
        name = f"{w.name}_d{sizes_of(w.dilation)}{'_ceil' * ceil}"
        yield drafted(precision, name, model(spelled(call(op, _image(index, w, limits), *args), precision)))
    for index, (kernel, size) in enumerate(
        (((4, 5), (9, 11)), ((5, 4), (10, 13)), ((4, 1), (9, 3)), ((2, 6), (5, 18)))
    ):
        shape = (1, CHANNELS[index + 1], *size)
        yield drafted(
            precision, f"tiles_{sizes_of(kernel)}", model(spelled(call(op, shape, kernel, kernel), precision))
        )


def adaptive(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Windows that are alike, that overlap, and that differ; of all sizes along either axis."""
    counts = ((2, 3), (3, 2), (5, 4), (1, 5), (4, 1), (7, 3), (6, 7))
    for index in range(14 if precision == INT8 else 4):
        w, count = Window.number(index), counts[index % len(counts)]
        shape = _image(index, w, limits)
        graph = model(spelled(call(ADAPTIVE, shape, count), precision))
        yield drafted(precision, f"{sizes_of(shape)}_to_{sizes_of(count)}", graph)


FAMILIES: Mapping[str, Any] = {
    CONVOLUTION: convolutions,
    AVERAGE: averages,
    ADAPTIVE: adaptive,
    MAXIMUM: partial(maxima, MAXIMUM),
    INDICES: partial(maxima, INDICES),
}


def swept(row: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """The row's windows; none for plain integers and for rows without windows."""
    return list(FAMILIES[row](precision, limits)) if row in FAMILIES and precision != INTEGERS else []
