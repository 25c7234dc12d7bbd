"""Cases that every row of a table for integer hardware has: sizes, contexts, quantisation on both sides.

A `Subject` says how a row is used, in int8; `everywhere` makes what all rows share from it, in one precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from npu_assay.conformance.cases.integer import contexts
from npu_assay.conformance.cases.integer.spelling import (
    IMAGE,
    INT16,
    INTEGERS,
    codes_quant,
    is_wide,
    other_type,
    spelled,
)
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Front,
    Q,
    Use,
    accepted,
    bare,
    behind_abs,
    inside,
    limit,
    model,
    outside,
    placed,
    quant,
    sizes_of,
    valued,
)
from npu_assay.conformance.cases.permitted import inner_ranks, sizes_of_rank
from npu_assay.conformance.cases.shared import FILLS, RESCALED, float_neighbours, more_contexts
from npu_assay.conformance.cases.typed.spelling import opened
from npu_assay.conformance.programs.checks import Refuses
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Value

Family = Callable[[str, Limits], list[Draft]]
"""Makes a row's cases in one precision, with what the table says of its limits."""

BITS, ZEROS = (1.0, 0.0, 0.0, 1.0, 1.0), (0.0,)
NEGATING = ("aten.neg.default",)
CAST = "dim_order_ops._to_dim_order_copy.default"
UNSIGNED = Quant(Q.scale, 131, 0, 255, dtype="uint8")
REALS = Fill("list", values=(0.25, 0.5, 0.125, 0.375, 0.75))


@dataclass(frozen=True)
class Subject:
    """How a row is used: `at` makes a use, in int8 or on plain integers, of a shape of `x`.

    shapes: others to try. open: the axes whose sizes may be open; None: there are none. deep: whether `at` takes any
    rank. elementwise: the output has the shape of `x`. plain: the result is no real number (a comparison's). idle:
    it computes nothing, and so stands behind an abs. unsigned: its operand must come from an abs.
    """

    at: Callable[[tuple[int, ...]], Use]
    shape: tuple[int, ...] = IMAGE
    shapes: tuple[tuple[int, ...], ...] = ()
    open: tuple[int, ...] | None = (0,)
    deep: bool = True
    elementwise: bool = False
    plain: bool = False
    idle: bool = False
    unsigned: bool = False

    @property
    def front(self) -> Front:
        """What stands in front of the operator."""
        return behind_abs if self.idle or self.unsigned else bare

    def use(self, precision: str, shape: tuple[int, ...] | None = None) -> Use:
        """The use in a precision, of the usual shape unless told otherwise."""
        return spelled(self.at(self.shape if shape is None else shape), precision)

    def model(self, u: Use) -> Graph:
        """The use as a model."""
        return model(u, self.front)


def everywhere(subject: Subject, precision: str, limits: Limits) -> list[Draft]:
    """What every row has."""
    return [
        *sizes(subject, precision, limits),
        *surroundings(subject, precision),
        *(additional_checks(subject.model(subject.use(precision))) if "additional_check" in limits else ()),
        *(on_integers(subject, limits) if precision == INTEGERS else quantisation(subject, precision, limits)),
        *fills(subject, precision),
    ]


def sizes(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Baseline, other shapes, ranks up to the limit and one more, open sizes."""
    u = subject.use(precision)
    yield accepted("baseline", subject.model(u))
    for shape in subject.shapes:
        yield accepted(f"shape_{sizes_of(shape) or 'scalar'}", subject.model(subject.use(precision, shape)))
    if subject.deep:
        most = limits.number("max_rank", 6, 1, 16)
        yield limit("max_rank", f"rank_{most}", subject.model(subject.use(precision, sizes_of_rank(most))))
        yield outside("max_rank", f"rank_{most + 1}", subject.model(subject.use(precision, sizes_of_rank(most + 1))))
        for rank in inner_ranks(most):
            yield inside("max_rank", f"rank_{rank}", subject.model(subject.use(precision, sizes_of_rank(rank))))
    yield limit("static_shape", "known_sizes", subject.model(u))
    if subject.open is not None:
        wide_open = _opened(u, subject.open)
        yield outside("static_shape", f"open_axis_{'_and_'.join(map(str, subject.open))}", subject.model(wide_open))


def additional_checks(graph: Graph) -> Iterator[Draft]:
    """A user's own condition, which the operator meets or not."""
    for make, variant, step in ((limit, "refuses_another_step", "another"), (outside, "refuses_the_step", SUBJECT)):
        made = make("additional_check", variant, graph)
        yield replace(made, options=(("additional_checks", (Refuses(step),)),))


def _opened(u: Use, axes: tuple[int, ...]) -> Use:
    """The use with open sizes of `x`, and of the operands of its shape."""
    wide_open = opened(u, axes).values
    same = u.values[0].shape
    return replace(u, values=tuple(o if v.shape == same else v for v, o in zip(u.values, wide_open, strict=True)))


def surroundings(subject: Subject, precision: str) -> Iterator[Draft]:
    """Where the operator stands."""
    u, front = subject.use(precision), subject.front
    if subject.plain:
        if u.values[0].dtype != "bool":
            yield placed("input_shared_with_abs", contexts.input_shared(u, front))
    else:
        for name, graph in contexts.around(u, front).items():
            yield placed(name, graph)
    yield placed("used_twice", contexts.used_twice(u, front))
    if precision != INTEGERS and subject.front is bare:
        yield placed("behind_linear", contexts.behind_linear(u, precision))
        if len(u.values[0].shape) == 4:
            yield placed("behind_conv", contexts.behind_conv(u, precision))
            if subject.elementwise and not subject.plain:
                yield placed("before_conv", contexts.before_conv(u, precision))
    if precision != INTEGERS:
        yield from more_contexts(u, front)


# ------------------------------------------------------------------------------------ quantisation


def quantisation(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Codes on both sides, of one type, with usable parameters; real numbers anywhere are outside."""
    u, front = subject.use(precision), subject.front
    yield limit("quantized_inputs", "codes", subject.model(u))
    yield limit("dtype", "float32_between_codes", subject.model(u))
    near = dict(float_neighbours(with_reals(u)))
    floats = replace(u, values=tuple(_real(v) for v in u.values), y=None)
    yield outside("quantized_inputs", "float_input", near["float_input"])
    yield outside("dtype", "float64", model(_retyped(floats, "float64")))
    if subject.plain:
        yield limit("quantized", "codes", model(u))
        yield limit("quantized_outputs", "a_truth", model(u))
    else:
        yield limit("quantized", "marked", model(u, front, contexts.then_abs))
        yield outside("quantized", "float_model", model(floats))
        yield limit("quantized_outputs", "codes", model(u, front, contexts.then_abs))
        yield outside("quantized_outputs", "float_output", model(replace(u, y=None), front))
    yield limit("io_dtype", INT16 if is_wide(precision) else "int8", subject.model(u))
    unsigned = with_codes(u, UNSIGNED)
    yield outside("io_dtype", "uint8", subject.model(unsigned if subject.plain else replace(unsigned, y=UNSIGNED)))
    yield from parameters(subject, precision)
    if "per_tensor" in limits:
        yield limit("per_tensor", "one_scale", subject.model(u))
        if not u.values[0].constant:
            yield outside("per_tensor", "a_scale_for_each_index", model(with_scales(u)))
    if "mixed_dtype" in limits and not subject.plain:
        yield limit("mixed_dtype", "all_the_same", subject.model(u))
        yield outside("mixed_dtype", "output_of_another", subject.model(replace(u, y=other_type(precision))))


def _real(value: Value) -> Value:
    if value.quant is None:
        return value
    return replace(value, quant=None, fill=Fill("list", values=(2.0, 1.0, 3.0)) if value.constant else REALS)


def with_reals(u: Use) -> Use:
    """The use with small numbers in `x`, for when it is not quantised."""
    return replace(u, values=(replace(u.values[0], fill=REALS), *u.values[1:]))


def _retyped(u: Use, dtype: str) -> Use:
    return replace(u, values=tuple(replace(v, dtype=dtype) if v.dtype == "float32" else v for v in u.values))


def parameters(subject: Subject, precision: str) -> Iterator[Draft]:
    """Zero points at the ends of int8, 0 for int16; positive scales."""
    u = subject.use(precision)
    kept = (0,) if is_wide(precision) else (-128, 127)
    past = (1, -1) if is_wide(precision) else (128, -129)
    for zero in kept:
        yield limit("scalar_qparams", f"zero_point_{zero}".replace("-", "minus_"), subject.model(_zero(u, zero)))
    for zero in past:
        yield outside("scalar_qparams", f"zero_point_{zero}".replace("-", "minus_"), model(_zero(u, zero)))


def with_codes(u: Use, q: Quant) -> Use:
    """The use with this quantisation of every operand that has one and is no constant, and of the first."""
    first, *rest = u.values
    others = tuple(v if v.constant or v.quant is None else replace(v, quant=q) for v in rest)
    return replace(u, values=(replace(first, quant=q), *others))


def with_scales(u: Use) -> Use:
    """The use with a scale for each index of the last dimension of `x`."""
    x = u.values[0]
    assert x.quant is not None
    return replace(u, values=(replace(x, quant=scales_of(x.quant, len(x.shape) - 1, x.shape[-1])), *u.values[1:]))


def scales_of(q: Quant, axis: int, size: int) -> Quant:
    """The quantisation with larger and larger scales along a dimension of that size."""
    assert isinstance(q.scale, float)
    return replace(q, scale=tuple(q.scale * (1 + index / 8) for index in range(size)), axis=axis)


def _zero(u: Use, zero_point: int) -> Use:
    x = u.values[0]
    if x.quant is None:  # an operator of integers and truths, which nobody quantises
        raise KeyError(u.op)
    return replace(u, values=(replace(x, quant=replace(x.quant, zero_point=zero_point)), *u.values[1:]))


# ------------------------------------------------------------------------------------ integers


def on_integers(subject: Subject, limits: Limits) -> Iterator[Draft]:
    """Numbers of up to 32 bits, with a sign."""
    u = subject.use(INTEGERS)
    limited = tuple(v for v in u.values if not v.constant)
    yield limit("no_int64", limited[0].dtype, subject.model(u))
    yield outside("no_int64", "int64", subject.model(of_type(u, "int64")))
    code = "uint8" if "uint8" in limits else "code_dtype"
    if code in limits and u.op != CAST:
        limits.value(code, ())
        yield limit(code, f"plain_{limited[0].dtype}", subject.model(u))
        yield outside(code, "plain_uint8", subject.model(few(of_type(u, "uint8"))))


def of_type(u: Use, dtype: str) -> Use:
    """The use on plain numbers of a type."""
    return replace(u, values=tuple(replace(v, dtype=dtype) for v in u.values))


def few(u: Use) -> Use:
    """The use on 0 and 1 alone, and 0 for anything that is taken from them: no result needs a sign."""
    x, *others = u.values
    nothing = (replace(v, fill=Fill("zero")) for v in others)
    return replace(u, values=(replace(x, fill=Fill("list", values=ZEROS if u.op in NEGATING else BITS)), *nothing))


# ------------------------------------------------------------------------------------ numbers


def fills(subject: Subject, precision: str) -> Iterator[Draft]:
    """Uniform extremes, alternating extremes, a ramp; on plain integers a ramp."""
    u = subject.use(precision)
    for name, fill in FILLS if precision != INTEGERS else ():
        yield valued(name, subject.model(replace(u, values=(replace(u.values[0], fill=fill), *u.values[1:]))))
    if precision == INTEGERS:
        listed = (0.0, 1.0) if u.values[0].dtype == "bool" else (1.0, 0.0, 5.0, 2.0, 7.0, 3.0, 4.0)
        numbers = Fill("list", values=listed)
        yield valued(
            "few_numbers", subject.model(replace(u, values=(replace(u.values[0], fill=numbers), *u.values[1:])))
        )


def requantised(u: Use, x: Quant, y: Quant, precision: str) -> Use:
    """The use with quantisations that are given for int8."""
    return replace(
        u,
        values=(replace(u.values[0], quant=codes_quant(precision, x)), *u.values[1:]),
        y=codes_quant(precision, y),
    )


def rescaled(subject: Subject, precision: str) -> Iterator[Draft]:
    """Other parameters behind the operator than in front of it: finer, coarser, shifted."""
    u = subject.use(precision)
    for name, y in RESCALED:
        yield valued(f"scale_{name}", subject.model(requantised(u, Q, y, precision)))


# ------------------------------------------------------------------------------------ rescale


def ratio_limits(at: Callable[[float], Use], bits: int, front: Front = bare) -> Iterator[Draft]:
    """Ratios of scales just below 2 to the power of `bits`, which 32 bits hold, and that itself, which they do not."""
    yield limit("rescale", "largest_ratio", model(at(2.0**bits * (1 - 2.0**-20)), front))
    yield outside("rescale", "ratio_too_large", model(at(2.0**bits), front))


def moved_ratios(subject: Subject, precision: str) -> Iterator[Draft]:
    """Codes of 8 (16) bits that are rescaled as they are."""
    u = subject.use(precision)

    def at(ratio: float) -> Use:
        x = codes_quant(precision, quant(ratio))
        return replace(with_codes(u, x), y=codes_quant(precision, quant(1.0)))

    return ratio_limits(at, 14 if is_wide(precision) else 22, subject.front)
