"""The application of an operator in a case's model: its operands, arguments and results, as torch has them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from npu_assay.conformance.common.memory import remember
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.predicates.operands import Numbers, Operand
from npu_assay.conformance.predicates.surroundings import Surroundings
from npu_assay.conformance.programs.build import REALS, materialise
from npu_assay.conformance.programs.edge_form import typed
from npu_assay.conformance.programs.graph import Graph, Ref, Step, Value, references
from npu_assay.partitioners.exir.ops import dim_order_format
from npu_assay.reference.golden.aten import COPY, aten, bound, canonical

SMALL = 2**21  # elements that a model may have if it is computed at once: on device meta, some of torch is slow
COMPUTED = 2**14  # elements up to which a model is computed; torch checks less of tensors without numbers
PIECES = 64  # that a tensor is split into at most: torch makes each
MOST = 2**24  # elements of a tensor that a case may have
GATHERED = 2**26  # elements that an operator may gather: Ethos-U's simulated device refuses more
TERMS = 2**31 // (255 * 127)  # products of 8-bit codes whose sum always has 32 bits
SIZES = 4096  # steps whose sizes are kept
_TAKEN = set[object]()  # kinds of models that device meta takes, which refuses types that the processor takes
_SIZES = dict[object, Mapping[Ref, Tensor] | Exception]()


class NoProgram(Exception):
    """Torch refuses the model, or it is too large."""


def application(
    graph: Graph, subject: str, options: Mapping[str, Any] = MappingProxyType({}), tried: bool = False
) -> Application:
    """The application that step `subject` is, with the sizes that torch computes. Raises NoProgram.

    options: the partitioner's options. tried: torch is known to accept the model, so only sizes are computed.
    """
    known, around = _tensors(graph, tried), Surroundings(graph, subject, options)
    step = next(step for step in graph.steps if step.name == subject)
    values = {value.name: value for value in graph.values}
    quants = {each.name: each.quant for each in graph.steps}

    def operand(ref: Ref) -> Operand:
        value = values.get(around.origin(ref))
        quant = quants[ref.name] if value is None else value.quant
        found = _operand(known[ref], quant, value is not None and value.constant)
        axis = around.channel_axis(ref, found.rank)
        if value is None:
            return replace(found, channel_axis=axis, open_axes=around.open_axes(ref.name))
        numbers = partial(_numbers, value) if value.constant else None
        inner = not value.constant
        return replace(found, channel_axis=axis, open_axes=value.dynamic, is_input=inner, numbers=numbers)

    arguments = bound(step.op, step.args, dict(step.kwargs))
    named = {name: _described(found, operand) for name, found in arguments.items()}
    results = tuple(operand(Ref(subject, index)) for index in range(step.outputs))
    return Application(step.op, named, results, around=around)


def _described(argument: Any, operand: Any) -> Any:
    if isinstance(argument, Ref):
        return operand(argument)
    if isinstance(argument, list | tuple):
        return tuple(_described(item, operand) for item in argument)
    return argument


def _operand(tensor: Tensor, quant: Any, constant: bool) -> Operand:
    shape = tuple(tensor.shape)
    if quant is None:
        dtype = str(tensor.dtype).removeprefix("torch.")
        return Operand(shape, dtype, constant, is_contiguous=tensor.is_contiguous())
    per_channel = isinstance(quant.scale, tuple)
    scale, scales = (None, quant.scale) if per_channel else (quant.scale, (quant.scale,))
    bits = 4 if quant.qmax - quant.qmin < 16 else None
    found = Operand(shape, quant.dtype, constant, scale, quant.zero_point, per_channel, True, bits, scales)
    laid = replace(found, scale_axis=quant.axis, group=quant.group, is_contiguous=tensor.is_contiguous())
    return replace(laid, codes=quant.qmax - quant.qmin + 1)


@remember(4096)
def _numbers(value: Value) -> Numbers:
    """What predicates ask about a constant's numbers; programs near each other share most constants."""
    codes, zero = materialise(value), 0 if value.quant is None else value.quant.zero_point
    least, most = (codes.min().item(), codes.max().item()) if codes.numel() else (0, 0)
    scale = value.quant.scale if value.quant is not None and isinstance(value.quant.scale, float) else 1.0
    rows = (codes if codes.is_floating_point() else codes.to(torch.int64)).sub(int(zero)).abs()
    rows = rows.flatten(1).sum(1) if rows.dim() > 1 else rows
    only = (least - zero) * scale if least == most else math.nan
    return Numbers(bool((codes == zero).any()), only, rows.max().item() if rows.numel() else 0)


# ------------------------------------------------------------------------------------ sizes


def _tensors(graph: Graph, tried: bool) -> Mapping[Ref, Tensor]:
    """Every tensor of the model: on device meta, or zeros if they are small, as torch then checks more."""
    few = sum(_elements(value) for value in graph.values) <= COMPUTED
    kind = _kind(graph)
    if kind in _TAKEN and _bound(graph) <= SMALL:
        with suppress(NoProgram):
            return _computed(graph)
    try:
        found = _run(graph, "meta")
        _TAKEN.add(kind)
    except NotImplementedError:  # what has no sizes without numbers
        return _computed(graph)
    except NoProgram as refusal:
        if "device meta" not in str(refusal):  # what torch makes of a number has some
            raise
        return _computed(graph)
    few = few and not tried and all(tensor.numel() <= COMPUTED for tensor in found.values())
    return _computed(graph) if few else found


def _kind(graph: Graph) -> object:
    """All of a model but sizes and other numbers; device meta refuses some tensors that are empty."""
    values = tuple((_dtype(value), len(value.shape), 0 in value.shape, type(value)) for value in graph.values)
    return values, tuple((step.op, _kind_of(step.args), _kind_of(step.kwargs), step.outputs) for step in graph.steps)


def _kind_of(argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple(map(_kind_of, argument))
    return type(argument) if type(argument) in (int, float) else argument


def _bound(graph: Graph) -> float:
    """More elements than any step can make of its operands: every one with every other, as often as numbers say."""
    most = math.prod(max(math.prod(value.shape), 1) for value in graph.values)
    return most * math.prod(1 + abs(n) for step in graph.steps for n in _numbers_of((step.args, step.kwargs)))


def _numbers_of(argument: Any) -> Iterator[float]:
    if isinstance(argument, tuple):
        for item in argument:
            yield from _numbers_of(item)
    elif isinstance(argument, int | float):
        yield argument


def runs(graph: Graph) -> bool:
    """Whether torch accepts the model with numbers, of any size: on device meta it checks less."""
    try:
        _computed(graph)
    except NoProgram:
        return False
    return True


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: tensors are small, and others would spend five times as long waiting."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _computed(graph: Graph) -> Mapping[Ref, Tensor]:
    try:
        with one_thread():
            return _run(graph, "cpu")
    except NotImplementedError as error:
        raise NoProgram(str(error)) from error


def _run(graph: Graph, device: str) -> Mapping[Ref, Tensor]:
    zeros = _blank if device == "meta" else torch.zeros
    with torch.no_grad():
        found = {Ref(value.name): zeros(value.shape, dtype=_dtype(value), device=device) for value in graph.values}
        for step in graph.steps:
            made = _results(step, found) if device != "meta" else _sized(step, found)
            found |= {ref: tensor for ref, tensor in made.items() if ref not in found}
    return found


_blank = lru_cache(SIZES)(torch.empty)


def _sized(step: Step, known: Mapping[Ref, Tensor]) -> Mapping[Ref, Tensor]:
    """The results of a step on device meta, cached: similar programs have the same steps."""
    taken = (*references(step.args), *(ref for _, item in step.kwargs for ref in references(item)))
    sizes = tuple((tuple(known[ref].shape), known[ref].stride(), known[ref].dtype) for ref in taken)
    asked = (step.name, step.op, repr(step.args), repr(step.kwargs), step.outputs, sizes)
    if asked not in _SIZES:
        if len(_SIZES) >= SIZES:
            _SIZES.clear()
        try:
            with torch.device("meta"):  # for what makes a tensor of numbers alone
                _SIZES[asked] = _results(step, known)
        except (NoProgram, NotImplementedError) as refusal:
            _SIZES[asked] = refusal
    found = _SIZES[asked]
    if isinstance(found, Exception):
        raise found.with_traceback(None)
    return found


def _elements(value: Value) -> int:
    count = math.prod(value.shape)
    if count > MOST or any(size < 0 for size in value.shape):
        raise NoProgram(value.name)
    return count


def _dtype(value: Value) -> torch.dtype:
    return torch.float32 if value.quant is not None else REALS[value.dtype]


def _results(step: Step, known: Mapping[Ref, Tensor]) -> Mapping[Ref, Tensor]:
    args = [_handed(item, known) for item in step.args]
    with suppress(AttributeError, TypeError):  # of operands that a search left out, which torch refuses itself
        _check_size(step.op, args)
    kwargs = {name: _handed(item, known) for name, item in step.kwargs}
    if not [*references((step.args, step.kwargs))]:
        _check_made(step.op, args, kwargs)
    try:
        made = aten(canonical(step.op))(*args, **kwargs)
    except NotImplementedError:
        raise
    except Exception as error:  # torch's kernels refuse with whatever they like, assertions among it
        raise NoProgram(f"{step.op}: {error}") from error
    if canonical(step.op) == COPY:  # which torch knows by another name, with the type that it converts to
        made = made.to(kwargs.get("dtype") or made.dtype)
    _check_order(step.op, kwargs.get("dim_order"), args)
    listed = made if isinstance(made, tuple | list) else (made,)
    if len(listed) < step.outputs or any(each.numel() > MOST for each in listed):
        raise NoProgram(step.op)
    if "split" in step.op and len(listed) != step.outputs:
        raise NoProgram(f"{step.op}: found {len(listed)} results, expected {step.outputs}")
    return {Ref(step.name, index): tensor for index, tensor in enumerate(listed)}


def _check_order(op: str, order: list[int] | None, args: Sequence[Any]) -> None:
    """Raise NoProgram for an order of other dimensions than the operand's."""
    try:
        dim_order_format(order, 0 if order is None else args[0].dim())
    except ValueError as error:
        raise NoProgram(f"{op}: {error}") from error


def _check_size(op: str, args: Sequence[Any]) -> None:
    """Raise NoProgram for what torch would compute, but no case should be."""
    if "split" in op and type(args[1]) is int and max(args[0].shape, default=0) > args[1] * PIECES:
        raise NoProgram(f"{op}: found more than {PIECES} pieces, expected fewer")
    if op != "aten.convolution.default":
        return
    if args[6] and args[0].shape[1:2] != args[1].shape[:1]:  # torch asks only with numbers
        raise NoProgram(f"{op}: transposed, found weights of other channels than the input")
    if _gathered(args[0].shape, args[1].shape, *args[3:]) > GATHERED:
        raise NoProgram(f"{op}: found windows or a padded input of more than {GATHERED} elements, expected fewer")
    if _terms(args[1].shape, *args[6:7]) > TERMS:
        raise NoProgram(f"{op}: found sums of more than {TERMS} products, expected fewer")


def _check_made(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise NoProgram for more numbers than a case should have, before torch makes them of none: on meta, too."""
    count = 0
    with suppress(Exception), FakeTensorMode():  # what torch refuses, it says itself
        count = aten(canonical(op))(*args, **kwargs).numel()
    if count > MOST:
        raise NoProgram(op)


def _terms(weight: Sequence[int], transposed: bool = False) -> int:
    """How many products a convolution adds for one number of its result; torch refuses weights of other ranks."""
    return math.prod(size for axis, size in enumerate(weight) if axis != int(transposed))


def _gathered(
    sizes: Sequence[int],
    weight: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool = False,
    _: Sequence[int] = (),
    groups: int = 1,
) -> int:
    """The most elements that kernels and devices make of a convolution's input: with its padding, or of its windows.

    A transposed one makes them of each pixel, and puts them together. One number may stand for every axis. What torch
    refuses, as weights of another rank, makes none.
    """
    if len(sizes) != len(weight) or len(sizes) < 3 or min(stride, default=0) < 1:
        return 0
    batch, image, kernel = sizes[0], sizes[2:], weight[2:]
    steps, pads, gaps = ([*each] * (len(image) // max(1, len(each))) for each in (stride, padding, dilation))
    if transposed:
        outputs, whole = weight[1] * groups, [(n - 1) * s + k for n, s, k in zip(image, steps, kernel, strict=False)]
        return batch * outputs * max(math.prod(image) * math.prod(kernel), math.prod(whole))
    padded = [n + 2 * pad for n, pad in zip(image, pads, strict=False)]
    places = [
        max(n - gap * (k - 1) - 1, -s) // s + 1 for n, gap, k, s in zip(padded, gaps, kernel, steps, strict=False)
    ]
    return batch * max(math.prod(padded) * max(sizes[1], weight[0]), math.prod(places) * math.prod(weight[1:]))


def _handed(argument: Any, known: Mapping[Ref, Tensor]) -> Any:
    if isinstance(argument, Ref):
        return known[argument]
    if isinstance(argument, tuple):
        return [_handed(item, known) for item in argument]
    return typed(argument)
