"""Cases past the sizes at which kernels go another way: tables, tiles, vectors, blocks of channels, accumulators.

Each is the row's plain case with larger tensors, once for a threshold and a precision: what is shown is that the kernel
goes on as it began, and other cases show what it computes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, accepted, placed
from npu_assay.conformance.cases.kernels import AREA, HEIGHT
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value, renamed

ELEMENTS = 4096
CHANNELS = (16, 32)
SUMS = 65536
PAST_ELEMENTS = f"elements_past_{ELEMENTS}"
"""The thresholds: elements of a tensor, channels of an image or columns of a matrix, terms of a sum."""
MULTIPLES = ("channels_multiple_of", "matrix_dims_multiple_of")
LIMITED = ("max_size", "reduced_size", "summed_size")
POSITIONS, CHANNEL_LIMIT = "positions", "max_channels"
"""Constraints on what channels are multiples of, on how large sizes may be, on how many places have channels, and on
how many channels there are, which is less than the value."""
Axes = tuple[tuple[str, int], ...]
"""Axes of values that have one size: the value's name and the axis."""
LONG: Mapping[str, int] = MappingProxyType(
    {
        "aten._adaptive_avg_pool2d.default": 1,
        "aten.avg_pool1d.default": 2,
        "aten.bmm.default": 0,
        "aten.copy.default": 1,
        "aten.eye.default": 1,
        "aten.max_pool1d.default": 2,
        "aten.unfold_copy.default": 3,
    }
)
"""The axis along which an operator's input may be of any size, where that is not the last but one."""
FIXED = frozenset({"aten.as_strided_copy.default"})
"""Operators whose arguments state every size of their input."""
BY_CHANNEL = frozenset(
    f"aten.{name}"
    for name in (
        *("_adaptive_avg_pool2d.default", "avg_pool1d.default", "avg_pool2d.default", "max_pool1d.default"),
        *("max_pool2d.default", "max_pool2d_with_indices.default", "mean.dim", "prelu.default", "sum.dim_IntList"),
        *("upsample_bilinear2d.vec", "upsample_nearest2d.vec"),
    )
)
"""Operators on images whose axis 1 are channels, of the input and of what has as many."""
CONVOLUTIONS = frozenset({"aten.conv1d.default", "aten.conv2d.default", "aten.convolution.default"})
SUMMING = frozenset({"aten.mean.dim", "aten.sum.dim_IntList"})
SOFTMAXES = frozenset({"aten._log_softmax.default", "aten._softmax.default"})
WINDOWS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "aten._adaptive_avg_pool2d.default": (257, 256),
        "aten.avg_pool1d.default": (65537,),
        "aten.avg_pool2d.default": (257, 256),
    }
)
"""Pools that sum, and a window of more elements than the threshold."""
INTEGERS = ("", "int8", "static_int8")
"""The precisions of sums: those of float32 take a second in their golden and in the devices, and are short already."""


def past_thresholds(precision: str, first: bool, limits: Limits, drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """A row's cases past every threshold in a precision ("" for none), beside the drafts that it has.

    first: whether this is the first of the row's precisions. In others the channels are not tried, and nothing is in
    those that share their kernels with another: weights per channel, and half precision.
    """
    plain = next(
        (d.graph for d in drafts if (d.constraint, d.side, d.variant) == (OPERATOR, "accept", "baseline")), None
    )
    if plain is None or not any(not value.constant and value.shape for value in plain.values):
        return
    if precision == "fp16" or precision.endswith("_per_channel"):
        return
    if not any(d.variant == PAST_ELEMENTS for d in drafts):
        yield from _elements(limits, plain)
    if first:
        yield from _channels(limits, plain)
        if not any(len(d.graph.outputs) > 1 for d in drafts if d.expect == "accept"):
            yield placed("two_results", twice(plain))
    if precision in INTEGERS:
        yield from _sums(limits, plain)


def _elements(limits: Limits, plain: Graph) -> Iterator[CaseDraft]:
    """More elements than the threshold, an odd number of them along one axis."""
    op, shape = _subject(plain).op, _first(plain).shape
    if op in FIXED:
        return
    usual = len(shape) - 1 if op in CONVOLUTIONS else max(len(shape) - 2, 0)
    axis = min(LONG.get(op, usual), len(shape) - 1)
    size = long_axis(shape, axis)
    yield from _permitted(limits, accepted(PAST_ELEMENTS, grown(plain, alike(plain, axis), size)))


def long_axis(shape: Sequence[int], axis: int) -> int:
    """The least odd size of an axis that takes a tensor of this shape past the threshold of elements."""
    least = ELEMENTS // (math.prod(shape) // shape[axis]) + 1
    return least + 1 - least % 2


def _channels(limits: Limits, plain: Graph) -> Iterator[CaseDraft]:
    """The smallest numbers of channels past each threshold that the row permits."""
    axes = (*terms(plain), *results(plain)) or channels(plain)
    for size in dict.fromkeys(_past(limits, threshold) for threshold in CHANNELS if axes):
        yield from _permitted(limits, accepted(f"channels_{size}", grown(plain, axes, size)))


def _sums(limits: Limits, plain: Graph) -> Iterator[CaseDraft]:
    """Sums of more terms than the threshold, of one row alone where there may be several."""
    step, x = _subject(plain), _first(plain)
    if step.op in SUMMING:
        axis = _reduced(step, len(x.shape))[-1]
        others = math.prod(x.shape[a] for a in _reduced(step, len(x.shape)) if a != axis)
        size = SUMS // others + 1
        many = filled(grown(plain, ((x.name, axis),), size), Fill("max"))
        yield from _permitted(limits, accepted(f"sums_past_{SUMS}", many))
    elif step.op in SOFTMAXES:
        axis, size = int(step.args[1]) % len(x.shape), _past(limits, SUMS)
        long = filled(grown(_alone(plain, axis), ((x.name, axis),), size), Fill("one_hot"))
        if size < limits.values.get(CHANNEL_LIMIT, size + 1):
            yield from _permitted(limits, accepted(f"sums_past_{SUMS}", long))
    elif step.op in WINDOWS and _permits(limits, WINDOWS[step.op]):
        yield from _permitted(limits, accepted(f"sums_past_{SUMS}", filled(_one_window(plain), Fill("max"))))
    elif step.op in CONVOLUTIONS and (axes := terms(plain)):
        kernel = next(v for v in plain.values if v.name == axes[1][0]).shape[2:]
        size = _past(limits, SUMS // math.prod(kernel))
        one = coarser(_sized(grown(plain, axes, size), kernel), math.sqrt(size / x.shape[1]))
        yield from _permitted(limits, accepted(f"sums_of_{size * math.prod(kernel)}", one))
    elif axes := terms(plain):
        size = _past(limits, SUMS)
        one = grown(grown(plain, axes, size), _outermost(step, x), 1)
        many = coarser(one, math.sqrt(size / x.shape[-1]))
        if size <= limits.values.get(CHANNEL_LIMIT, size):  # whose own case at the limit has as many terms, less one
            yield from _permitted(limits, accepted(f"sums_of_{size}", many))


def _permits(limits: Limits, window: tuple[int, ...]) -> bool:
    """Whether the row takes a kernel of this size."""
    sizes = {HEIGHT: window[0], AREA: math.prod(window)}
    return all(size <= limits.values.get(code, size) for code, size in sizes.items())


def _alone(graph: Graph, axis: int) -> Graph:
    """The graph with size 1 of all other axes of its input."""
    x = _first(graph)
    shape = tuple(size if index == axis else 1 for index, size in enumerate(x.shape))
    return _with_input(graph, replace(x, shape=shape))


def _sized(graph: Graph, spatial: tuple[int, ...]) -> Graph:
    """The graph with these last sizes of its input."""
    x = _first(graph)
    return _with_input(graph, replace(x, shape=(*x.shape[: -len(spatial)], *spatial)))


def _one_window(graph: Graph) -> Graph:
    """The pool of an image, or a line, that is one window as large as stands in `WINDOWS`."""
    step = _subject(graph)
    window = WINDOWS[step.op]
    ones = (1,) * len(window)
    args = (ones,) if "adaptive" in step.op else (window, ones)
    pool = replace(step, args=(step.args[0], *args), kwargs=())
    steps = tuple(pool if s is step else s for s in graph.steps)
    return _sized(replace(graph, steps=steps), window)


def _with_input(graph: Graph, x: Value) -> Graph:
    return replace(graph, values=tuple(x if v.name == x.name else v for v in graph.values))


def _outermost(step: Step, x: Value) -> Axes:
    """The axes of rows or matrices of a product: of its input, and of both operands of a product of batches."""
    names = [argument.name for argument in step.args if isinstance(argument, Ref)]
    return tuple((name, 0) for name in (names if step.op == "aten.bmm.default" else [x.name]) if len(x.shape) > 1)


def _past(limits: Limits, threshold: int) -> int:
    """The smallest permitted number past a threshold."""
    m = max(value for code in MULTIPLES if type(value := limits.values.get(code, 1)) is int)
    return (threshold // m + 1) * m


def _permitted(limits: Limits, draft: CaseDraft) -> Iterator[CaseDraft]:
    """The draft, unless the row may have a constraint on sizes that it breaks: its elements all count for one."""
    shape = _first(draft.graph).shape
    sizes = {**dict.fromkeys(LIMITED, math.prod(shape)), POSITIONS: math.prod(shape) // (shape[1:2] or (1,))[0]}
    found = ((size, limits.values.get(code, size)) for code, size in sizes.items())
    if all(size <= (min(most) if isinstance(most, tuple) else most) for size, most in found):
        yield draft


# ------------------------------------------------------------------------------------ ranks

RANKS = ("max_rank", "max_input_rank")
RANK = re.compile(r"rank_(\d+)")


def with_new_ranks(first: bool, drafts: Sequence[CaseDraft]) -> list[CaseDraft]:
    """The drafts, but of those about a rank inside the limit only one for each rank that no other accepted one has.

    first: whether this is the first of the row's precisions; in others there are none.
    """
    others = (draft.graph for draft in drafts if draft.expect == "accept" and not _rank(draft))
    known = {len(value.shape) for graph in others for value in graph.values if not value.constant}
    return [draft for draft in drafts if not _rank(draft) or (first and _rank(draft) not in known)]


def _rank(draft: CaseDraft) -> int:
    """The rank of a draft about a rank inside the limit; else 0."""
    inner = draft.constraint in RANKS and draft.side == "accept"
    found = RANK.fullmatch(draft.variant) if inner else None
    return 0 if found is None else int(found[1])


# ------------------------------------------------------------------------------------ axes


def alike(graph: Graph, axis: int) -> Axes:
    """That axis of the first input, and of all that has its shape or, unless it is constant, its size there."""
    x = _first(graph)
    return tuple((value.name, axis) for value in graph.values if value.shape == x.shape or _extends(value, x, axis))


def _extends(value: Value, x: Value, axis: int) -> bool:
    return not value.constant and len(value.shape) == len(x.shape) and value.shape[axis] == x.shape[axis]


def channels(graph: Graph) -> Axes:
    """The channels of an image, of which slopes may be a vector; nothing for other operators."""
    step, x = _subject(graph), _first(graph)
    if step.op not in BY_CHANNEL or len(x.shape) < 3 or 1 in _reduced(step, len(x.shape)):
        return ()
    vectors = ((v.name, 0) for v in graph.values if v.constant and v.shape == x.shape[1:2])
    return (*alike(graph, 1), *vectors)


def terms(graph: Graph) -> Axes:
    """The axes along which a product sums: of its input and its weights; nothing for other operators."""
    match _operands(graph):
        case ("aten.linear.default", (x, w, *_)):
            return ((x, len(_first(graph).shape) - 1), (w, 1))
        case ("aten.mm.default", (x, w)) | ("aten.addmm.default", (_, x, w)):
            return ((x, 1), (w, 0))
        case ("aten.bmm.default", (x, w)):
            return ((x, 2), (w, 1))
        case (op, (x, w, *_)) if op in CONVOLUTIONS and _plain_convolution(graph):
            return ((x, 1), (w, 1))
    return ()


def results(graph: Graph) -> Axes:
    """The axes of a product's weights and bias that are columns or channels of its result."""
    match _operands(graph):
        case (op, (_, w, *bias)) if op in {"aten.linear.default", *CONVOLUTIONS} and terms(graph):
            return ((w, 0), *((b, 0) for b in bias))
        case ("aten.mm.default", (_, w)):
            return ((w, 1),)
        case ("aten.addmm.default", (bias, _, w)):
            return ((w, 1), (bias, 0))
        case ("aten.bmm.default", (_, w)):
            return ((w, 2),)
    return ()


def _plain_convolution(graph: Graph) -> bool:
    """Not transposed, and in one group: the last argument is 1 and no flag is set."""
    args = _subject(graph).args
    return args[-1] == 1 and not any(argument is True for argument in args)


def _operands(graph: Graph) -> tuple[str, tuple[str, ...]]:
    """The subject's operator and the names of its operands, in order; none unless all are values of the program."""
    step, known = _subject(graph), {value.name for value in graph.values}
    names = tuple(argument.name for argument in step.args if isinstance(argument, Ref))
    return step.op, names if known.issuperset(names) else ()


def _reduced(step: Step, rank: int) -> tuple[int, ...]:
    """The axes that a reduction takes together, smallest first; none for other operators."""
    if step.op not in SUMMING:
        return ()
    named = step.args[1] if len(step.args) > 1 else None
    dims = named if isinstance(named, tuple) else (named,) if isinstance(named, int) else tuple(range(rank))
    return tuple(sorted(dim % rank for dim in dims))


# ------------------------------------------------------------------------------------ graphs


def grown(graph: Graph, axes: Axes, size: int) -> Graph:
    """The graph with that size of those axes; scales along them are repeated."""
    found = {value.name: value for value in graph.values}
    for name, axis in axes:
        value = found[name]
        shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
        found[name] = replace(value, shape=shape, quant=_repeated(value.quant, axis, size))
    return replace(graph, values=tuple(found.values()))


def _repeated(quant: Quant | None, axis: int, size: int) -> Quant | None:
    if quant is None or quant.axis != axis or not isinstance(quant.scale, tuple):
        return quant
    scales = quant.scale * math.ceil(size / len(quant.scale))
    return replace(quant, scale=scales[:size])


def coarser(graph: Graph, factor: float) -> Graph:
    """The graph with a larger scale of the subject's result, where it has one: for sums of more terms."""
    steps = (replace(s, quant=_times(s.quant, factor)) if s.name == SUBJECT else s for s in graph.steps)
    return replace(graph, steps=tuple(steps))


def _times(quant: Quant | None, factor: float) -> Quant | None:
    if quant is None or isinstance(quant.scale, tuple):
        return quant
    return replace(quant, scale=quant.scale * 2.0 ** round(math.log2(factor)))


def filled(graph: Graph, fill: Fill) -> Graph:
    """The graph with other numbers in its first input."""
    return _with_input(graph, replace(_first(graph), fill=fill))


def twice(graph: Graph) -> Graph:
    """The model beside itself on other numbers: two results, of which either may be taken for the other."""
    names = (*(value.name for value in graph.values), *(step.name for step in graph.steps))
    second = {name: f"second_{name}" for name in names}
    others = tuple(_second(value) for value in graph.values)
    steps = tuple(replace(s, name=second[s.name], args=renamed(s.args, second)) for s in graph.steps)
    outputs = tuple(Ref(second[ref.name], ref.index) for ref in graph.outputs)
    return Graph((*graph.values, *others), (*graph.steps, *steps), (*graph.outputs, *outputs))


def _second(value: Value) -> Value:
    fill = value.fill if value.constant else replace(value.fill, seed=value.fill.seed + 1)
    return replace(value, name=f"second_{value.name}", fill=fill)


def _subject(graph: Graph) -> Step:
    return next(step for step in graph.steps if step.name == SUBJECT)


def _first(graph: Graph) -> Value:
    return next(value for value in graph.values if not value.constant)
