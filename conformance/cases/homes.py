"""Uses of operators by their homes, in each precision.

A home says which tensors the operator takes and what they hold (`npu_assay.reference.operators`); here that becomes a
call in the precision of a row, which is asked what every other row is (`plain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Q, quant, seeded, sizes_of
from npu_assay.conformance.cases.permitted import Shape, fitting
from npu_assay.conformance.cases.pieces.spelling import FLOATS, INT8, INT16, INTEGERS, codes_quant, in_int8, integers
from npu_assay.conformance.cases.pieces.subject import Subject
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
        return True
    return own.integers if precision == INTEGERS else own.half and precision == "fp16"


def drafts(name: str, precision: str, limits: Limits) -> list[CaseDraft] | None:
    """A row's cases in one precision; None for an operator or a type that its home says nothing of."""
    own = home(name)
    if own is None or not has_home(name, precision):
        return None
    return asked(_plain(own, precision), precision, limits)


def _plain(own: Operator, precision: str) -> Plain:
    """Codes of 16 bits are made of those of 8, as all cases are."""
    written = INT8 if precision == INT16 else precision
    more = [(f"shape_{sizes_of(shape)}", called(own, written, shape)) for shape in own.shapes]
    if precision != "fp16":
        more.append((PAST_ELEMENTS, called(own, written, _large(own))))
    if own.with_indices:
        more.append(("indices", replace(called(own, written), outputs=2)))
    subject = Subject(
        in_int8(lambda shape: called(own, written, shape)),
        own.shape,
        open=((0,),) if own.elementwise else (),
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
    )


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
