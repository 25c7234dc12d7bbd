"""Cases that every row of a table with several number types has: options, types, sizes, contexts.

A `Subject` says how a row is used; `everywhere` makes what all rows share from it, in one precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Use,
    X,
    accepted,
    f32,
    inside,
    limit,
    model,
    outside,
    placed,
    sizes_of,
    step,
)
from npu_assay.conformance.cases.permitted import inner_ranks, sizes_of_rank
from npu_assay.conformance.cases.shared import float_neighbours
from npu_assay.conformance.cases.typed import contexts as surroundings
from npu_assay.conformance.cases.typed.spelling import FLOATS, IMAGE, activations, is_static, opened, retyped, with_x
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step

Family = Callable[[str, Limits], list[Draft]]
"""Makes a row's cases in one precision, with what the table says of its limits."""

PRECISIONS = ("FP32", "STATIC_QUANT", "DYNAMIC_QUANT")
FLOAT = ("FP32",)
FLOAT_STATIC = ("FP32", "STATIC_QUANT")
# Codes a multiple of 20 above the zero point 3: sums, products and means of them at scale 0.05 are on the grid,
# so that computing in floats and computing in integers agree.
TWENTIES = Fill("list", values=(23, -17, 43, 3, -37, 63, 23, -57, 83, -97))

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Subject:
    """How a row is used. `at` makes a use of a precision and a shape of `x`; `shape` is the usual one.

    config: the class that `configs` selects; supports: the config precisions that it has. empty: a shape
    without elements that torch takes; single: the smallest one. open: axes whose sizes may be open.
    integers: torch computes it on int32, too. as_float: a quantised use runs in floats when config_precisions
    names FP32 alone. product: it has quantised weights, so its activations must be quantised as well. converts:
    a quantised use is computed in floats between conversions, whatever the codes.
    """

    config: str
    at: Callable[[str, tuple[int, ...]], Use]
    supports: tuple[str, ...] = FLOAT
    shape: tuple[int, ...] = IMAGE
    single: tuple[int, ...] = (1, 1, 1, 1)
    empty: tuple[int, ...] = (0, 3, 4, 5)
    open: tuple[tuple[int, ...], ...] = ((0,), (0, 1, 2, 3))
    integers: bool = False
    as_float: bool = True
    product: bool = False
    converts: bool = False

    def use(self, precision: str) -> Use:
        """The usual use."""
        return self.at(precision, self.shape)


def everywhere(subject: Subject, precision: str, limits: Limits) -> list[Draft]:
    """What every row has: alone and among others."""
    u = subject.use(precision)
    return [
        *alone(subject, precision, limits),
        *number_types(subject, u, precision),
        *surroundings.contexts(u, precision),
        *quantised_neighbours(subject, u, precision),
        *(() if is_static(precision) and subject.converts else per_op_mode(u, precision)),
    ]


def alone(subject: Subject, precision: str, limits: Limits) -> list[Draft]:
    """Baseline, options and sizes."""
    u = subject.use(precision)
    return [
        accepted("baseline", model(u)),
        *config_precisions(subject, precision),
        *configs(subject, u),
        *sizes(subject, precision, limits),
        *open_sizes(subject, precision, limits),
    ]


# ------------------------------------------------------------------------------------ options


def with_options(draft: Draft, *options: tuple[str, Any]) -> Draft:
    """The draft with keyword arguments for the partitioner."""
    return replace(draft, options=options)


def config_precisions(subject: Subject, precision: str) -> Iterator[Draft]:
    """Each value alone, and all that its config does not support together.

    The released filter looks at what the operator's config supports, not at the numbers of the graph: an
    operator is left out when none of the named precisions is among those.
    """
    u = subject.use(precision)
    quiet = model(activations(u, fill=TWENTIES)) if is_static(precision) else model(u)
    refused = () if subject.as_float or precision in FLOATS else FLOAT
    others = tuple(name for name in PRECISIONS if name not in subject.supports)
    for name in _few(tuple(name for name in subject.supports if name not in refused), precision):
        yield with_options(limit("precision", label((name,)), quiet), ("config_precisions", (name,)))
    for name in refused:
        draft = replace(outside("precision", label((name,)), quiet), reason="static_weights")
        yield with_options(draft, ("config_precisions", (name,)))
    for names in _few((*((name,) for name in others), *([others] if len(others) > 1 else [])), precision):
        yield with_options(outside("precision", label(names), quiet), ("config_precisions", names))


def _few(choices: tuple[Any, ...], precision: str) -> tuple[Any, ...]:
    """Half precision differs from single precision in numbers only: one of each is enough."""
    return choices[:1] if precision == "fp16" else choices


def option_spellings(subject: Subject, precision: str) -> Iterator[Draft]:
    """Other ways to say which precisions and configs: not in a list, all of them, none of them."""
    graph, first = model(subject.use(precision)), subject.supports[0]
    yield with_options(inside("precision", f"{first.lower()}_without_a_list", graph), ("config_precisions", first))
    yield with_options(inside("precision", "all", graph), ("config_precisions", PRECISIONS))
    yield with_options(inside("precision", "empty_list", graph), ("config_precisions", ()))
    yield with_options(inside("configs", "own_and_another", graph), ("configs", (another(subject), subject.config)))
    yield with_options(inside("configs", "empty_list", graph), ("configs", ()))
    both = (("configs", (subject.config,)), ("config_precisions", (first,)), ("per_op_mode", True), ("verbose", True))
    yield with_options(inside("configs", "with_every_other_option", graph), *both)


def label(names: tuple[str, ...]) -> str:
    """Names in a case id."""
    return "_and_".join(name.lower() for name in names)


def configs(subject: Subject, u: Use) -> Iterator[Draft]:
    """The operator's own config alone, and only another one."""
    yield with_options(limit("configs", "own", model(u)), ("configs", (subject.config,)))
    yield with_options(outside("configs", "another", model(u)), ("configs", (another(subject),)))


def another(subject: Subject) -> str:
    """A config of some other operator."""
    return "CeilConfig" if subject.config != "CeilConfig" else "FloorConfig"


def per_op_mode(u: Use, precision: str) -> Iterator[Draft]:
    """One delegate for the whole model, or one for each operator (and each node that quantises for it)."""
    graph = model(u) if is_static(precision) else between_two_abs(u)
    inputs = sum(not value.constant for value in u.values)
    apart = inputs + 2 if is_static(precision) else 3
    if precision != "fp16":
        yield replace(placed("all_in_one_delegate", graph), delegates=1)
    draft = replace(placed("one_delegate_per_operator", graph), delegates=apart)
    yield with_options(draft, ("per_op_mode", True))


def between_two_abs(u: Use) -> Graph:
    """An abs in front of the operator and one behind it."""
    before = Step("before", "aten.abs.default", (X,), (), u.values[0].quant)
    after = Step("after", "aten.abs.default", (Ref(SUBJECT),), (), u.y)
    return Graph(u.values, (before, step(u, Ref("before")), after), (Ref("after"),))


# ------------------------------------------------------------------------------------ types


def number_types(subject: Subject, u: Use, precision: str) -> Iterator[Draft]:
    """The precision's own type; float64 and bfloat16, or codes of uint8, are outside."""
    if is_static(precision):
        unsigned = Quant(f32(0.05), 131, 0, 255, dtype="uint8")
        yield limit("dtype", "int8", model(with_x(u, fill=Fill("ramp"))))
        codes = model(activations(replace(u, y=unsigned), quant=unsigned))
        yield placed("uint8", codes) if subject.converts else outside("dtype", "uint8", codes)
    elif precision in FLOATS:
        yield limit("dtype", u.values[0].dtype, model(with_x(u, fill=surroundings.other_numbers(u.values[0].fill))))
        for dtype in _few(("bfloat16", "float64"), precision):
            yield outside("dtype", dtype, model(retyped(u, dtype)))
        if subject.integers and precision == "fp32":
            yield outside("dtype", "int32", model(retyped(u, "int32")))
    else:
        yield limit("dtype", "float32", model(with_x(u, fill=Fill("ramp"))))
        yield outside("dtype", "bfloat16", model(with_x(u, dtype="bfloat16")))


def quantised_neighbours(subject: Subject, u: Use, precision: str) -> Iterator[Draft]:
    """Dequantize and quantize nodes around an operator that computes in floats, and only on one side of another."""
    if precision == "fp32" and subject.supports == FLOAT:
        yield placed("between_dequantize_and_quantize", surroundings.between_codes(u))
    if is_static(precision):
        for variant, graph in float_neighbours(u):
            yield outside("quantized", variant, graph) if subject.product else placed(variant, graph)


# ------------------------------------------------------------------------------------ sizes


def sizes(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """One element and none; ranks up to the limit and one more."""
    yield limit("nonempty", f"shape_{sizes_of(subject.single)}", model(subject.at(precision, subject.single)))
    none = subject.at(precision, subject.empty)
    if none.dynamic is not None:  # torch takes the smallest and largest number of empty rows, not of an empty tensor
        none = replace(none, dynamic="per_token")
    yield outside("nonempty", f"shape_{sizes_of(subject.empty)}", model(none))
    if "max_rank" in limits:
        most = limits.number("max_rank", 6, 1, 16)
        yield limit("max_rank", f"rank_{most}", model(subject.at(precision, sizes_of_rank(most))))
        yield outside("max_rank", f"rank_{most + 1}", model(subject.at(precision, sizes_of_rank(most + 1))))
        for rank in inner_ranks(most):
            yield inside("max_rank", f"rank_{rank}", model(subject.at(precision, sizes_of_rank(rank))))


def open_sizes(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Sizes that are known only at run time."""
    u, limited = subject.use(precision), "open_sizes" in limits
    limits.fixed("open_sizes", 1)
    for axes in subject.open if limited or precision == "fp32" else subject.open[-1:]:
        variant, graph = f"open_axis_{'_and_'.join(map(str, axes))}", model(opened(u, axes))
        if not limited:
            yield accepted(variant, graph)
        else:
            yield limit("open_sizes", variant, graph) if len(axes) == 1 else outside("open_sizes", variant, graph)
