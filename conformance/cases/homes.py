"""Uses of operators by their homes, in each precision.

A home says which tensors the operator takes and what they hold (`npu_assay.reference.operators`); here that becomes a
call in the precision of a row, which is asked what every other row is (`plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.drafts import FAR, CaseDraft
from npu_assay.conformance.cases.families import FAMILIES
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Q, quant, seeded, sizes_of
from npu_assay.conformance.cases.permitted import Shape, fitting
from npu_assay.conformance.cases.pieces.sizes import listed
from npu_assay.conformance.cases.pieces.spelling import (
    FLOATS,
    INT8,
    INT16,
    INTEGERS,
    STATIC,
    codes_quant,
    in_int8,
    integers,
)
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, NONE, SINGLE, Config, Subject
from npu_assay.conformance.cases.plain import CODES, Plain, asked
from npu_assay.conformance.cases.variants.thresholds import PAST_ELEMENTS, long_axis
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Value
from npu_assay.reference.operators import Call as HomeCall
from npu_assay.reference.operators import Operand, Operator, X
from npu_assay.reference.operators.home import REALS, TRUTHS, Range
from npu_assay.reference.operators.lookup import home

OTHER = quant(0.03125, -7)
SPREAD = 97  # how many numbers stand for a range: no size of a dimension divides it


def has_home(name: str, precision: str) -> bool:
    """Whether an operator's home makes cases in a precision."""
    own = home(name)
    if own is None or own.at is None:
        return False
    if precision in (*CODES, "fp32"):
        return precision != STATIC[0] or bool(own.values)
    return own.integers if precision == INTEGERS else own.half and precision == "fp16"


def has_domain(name: str, precision: str) -> bool:
    """Whether predicates say what is right for a row's cases in a precision."""
    own, family = home(name), FAMILIES.get(name)
    written = family is not None and family.maker(precision) is not None
    return own is not None and bool(own.values) and not written and has_home(name, precision)


def drafts(name: str, precision: str, limits: Limits) -> list[CaseDraft] | None:
    """A row's cases in one precision; None for an operator or a type that its home says nothing of."""
    own = home(name)
    if own is None or not has_home(name, precision):
        return None
    return asked(_plain(own, precision, limits), precision, limits)


def _plain(own: Operator, precision: str, limits: Limits) -> Plain:
    """Codes of 16 bits are made of those of 8, as all cases are."""
    written = INT8 if precision == INT16 else precision
    more = [(name, called(own, written, shape)) for name, shape in _shapes(own)]
    axes: tuple[tuple[str, str, Call], ...] = ()
    if own.values:
        axes, more = (*(("shape", *each) for each in more), *_axes(own, written), *_far(own, written, limits)), []
    if precision != "fp16":
        more.append((PAST_ELEMENTS, called(own, written, _large(own))))
    if own.with_indices:
        more.append(("indices", replace(called(own, written), outputs=2)))
    subject = Subject(
        in_int8(lambda shape: called(own, written, shape)),
        own.shape,
        single=own.shape if own.values else SINGLE,
        empty=(0, *own.shape[1:]),
        open=((0,), (2, 3)) if own.values else ((0,),) if own.elementwise else (),
        config=Config(own.config[0], FLOAT_STATIC, converts=own.config[1]) if own.config else NONE,
        deep=own.elementwise,
        elementwise=own.elementwise,
        reals=own.result == REALS,
    )
    return Plain(
        subject,
        (*more, *((name, called(own, written, at=at)) for name, at in own.spellings)),
        called(own, "fp32"),
        called(own, written, (0, *own.shape[1:])) if own.empty else None,
        own.moves,
        own.takes if own.bounded else None,
        own.takes is None,
        axes=axes,
    )


def _shapes(own: Operator) -> Iterator[tuple[str, Shape]]:
    """Other shapes, by their sizes; where predicates say what is right, the first of another rank by its rank."""
    ranks = {len(own.shape)}
    for shape in own.shapes:
        first = bool(own.values) and len(shape) not in ranks
        ranks.add(len(shape))
        yield f"rank_{len(shape)}" if first else f"shape_{sizes_of(shape)}", shape


def _axes(own: Operator, precision: str) -> Iterator[tuple[str, str, Call]]:
    """Another value of one argument at a time, by the argument and its value."""
    for place, (name, values) in enumerate(own.values.items(), 1):
        for value in values:
            at = partial(_with_value, own, place, name, value)
            yield name, f"{name}_{listed(value)}", called(own, precision, at=at)


def _far(own: Operator, precision: str, limits: Limits) -> Iterator[tuple[str, str, Call]]:
    """Calls at the sizes that limits tell, and one past them; names do not tell sizes, which change with limits."""
    if own.far is None:
        return
    for number, size in enumerate(limits.far):
        past = own.far(size + 1)
        for name, (shape, call) in own.far(size).items():
            axis = f"{FAR}{name}_{number}" if number else f"{FAR}{name}"
            yield axis, axis, called(own, precision, shape, partial(_always, call))
            yield axis, f"{axis}_past", called(own, precision, past[name][0], partial(_always, past[name][1]))


def _always(call: HomeCall, shape: Shape) -> HomeCall:
    return call


def _with_value(own: Operator, place: int, name: str, value: Any, shape: Shape) -> HomeCall:
    """The plain call with another value of an argument, by its name where the plain call leaves it out."""
    assert own.at is not None
    plain = own.at(shape)
    if place < len(plain.args):
        return replace(plain, args=(*plain.args[:place], value, *plain.args[place + 1 :]))
    return replace(plain, kwargs=(*(item for item in plain.kwargs if item[0] != name), (name, value)))


def _large(own: Operator) -> Shape:
    """A shape past the threshold, with an odd number of elements along the axis that grew."""
    if own.large:
        return own.large
    axis = max(len(own.shape) - 2, 0)
    return (*own.shape[:axis], long_axis(own.shape, axis), *own.shape[axis + 1 :])


# ------------------------------------------------------------------------------------ uses


def called(
    own: Operator, precision: str, shape: Shape | None = None, at: Callable[[Shape], HomeCall] | None = None
) -> Call:
    """One application in a precision: the plain one unless told otherwise. Raises KeyError where a home has none."""
    shape = own.shape if shape is None else shape
    at = own.at if at is None else at
    if at is None:
        raise KeyError(own.name)
    call = at(shape)
    operands = _operands((call.args, tuple(value for _, value in call.kwargs)))
    values = {operand.name: _value(own, operand, precision, shape) for operand in operands}
    x = values.pop(X.name)
    kwargs = tuple((name, _refs(value)) for name, value in call.kwargs)
    return Call(own.name, (x, *values.values()), _refs(call.args), _result(own, precision), kwargs)


def _operands(argument: Any) -> Iterator[Operand]:
    if isinstance(argument, Operand):
        yield argument
    elif isinstance(argument, tuple):
        for item in argument:
            yield from _operands(item)


def _refs(argument: Any) -> Any:
    if isinstance(argument, Operand):
        return Ref(argument.name)
    return tuple(map(_refs, argument)) if isinstance(argument, tuple) else argument


def _result(own: Operator, precision: str) -> Quant | None:
    if precision not in CODES or own.result != REALS:
        return None
    return codes_quant(precision, Q if own.gives is None else quant_of(own.gives))


def _value(own: Operator, operand: Operand, precision: str, shape: Shape) -> Value:
    sizes = shape if operand.shape is None else operand.shape
    if operand.holds != REALS:
        dtype = "bool" if operand.holds == TRUTHS else "int64"
        return Value(operand.name, sizes, None, Fill("list", values=operand.numbers), operand.constant, dtype)
    reals = _limits(own, operand)
    if precision in FLOATS:
        dtype = "float16" if precision == "fp16" else "float32"
        fill = seeded(operand.name) if reals is None else Fill("list", values=spread(*reals))
        return Value(operand.name, sizes, None, fill, operand.constant, dtype)
    if precision == INTEGERS:
        return integers(operand.name, sizes, constant=operand.constant)
    q = _quant(own, operand)
    fill = seeded(operand.name) if operand.within is None else Fill("list", values=codes_within(q, operand.within))
    return Value(operand.name, sizes, q, fill, operand.constant)


def _limits(own: Operator, operand: Operand) -> Range | None:
    """The reals that an operand may hold."""
    return own.takes if operand == X else operand.within


def _quant(own: Operator, operand: Operand) -> Quant:
    reals = _limits(own, operand)
    if reals is not None:
        return quant_of(reals)
    return Q if operand == X or own.moves else OTHER


def quant_of(reals: Range) -> Quant:
    """The int8 quantization of a range, with zero in it."""
    return fitting(min(reals[0], 0.0), max(reals[1], 0.0))


def spread(low: float, high: float) -> tuple[float, ...]:
    """Numbers all over a range, neighbors far apart."""
    return tuple(low + (high - low) * ((37 * index + 11) % SPREAD) / (SPREAD - 1) for index in range(SPREAD))


def codes_within(q: Quant, reals: Range) -> tuple[float, ...]:
    """int8 codes of such numbers."""
    assert isinstance(q.scale, float)
    return tuple(float(min(127, max(-128, round(each / q.scale) + q.zero_point))) for each in spread(*reals))
