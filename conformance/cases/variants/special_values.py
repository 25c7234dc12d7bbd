"""NaN, infinities, zeros of both signs and numbers below the normal range, as values of every row that can have them.

Rows of floats get them as inputs and as constants, each kind in a case of its own; rows of codes get infinite and
tiny real numbers before their quantize node, which saturates. Operators that compute element by element take
them all, or all pairs of them; of others a few elements are special, so that most sums and windows have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, valued
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.programs.graph import Fill, Graph, Value

FLOATS = ("fp32", "fp16")
CODES = ("", "static_int8", "static_int8_per_channel", "int8", "int16")
INFINITY, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Kind:
    """One kind of special numbers. dense: by float type, for operators that go element by element.

    sparse: by place, for others; negative places count from the end. pairs: whether a pair belongs to the kind.
    """

    dense: Mapping[str, tuple[float, ...]]
    sparse: Mapping[int, float]
    pairs: Callable[[float, float], bool] = lambda a, b: True


SMALLEST = {"float32": (2.0**-126, 2.0**-149, 2.0**-127), "float16": (2.0**-14, 2.0**-24, 2.0**-15)}
"""The smallest normal number of a type, the smallest of all, and one between."""
LARGEST = {"float32": (2 - 2.0**-23) * 2.0**127, "float16": 65504.0}


def _small(dtype: str) -> tuple[float, ...]:
    return (0.0, -0.0, *(sign * size for size in SMALLEST[dtype] for sign in (1, -1)), 1.5, -2.5)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "nan": Kind(
            dict.fromkeys(LARGEST, (NAN, 0.0, -0.0, 1.5, -2.5, INFINITY, -INFINITY)),
            {6: NAN},
            lambda a, b: math.isnan(a) or math.isnan(b),
        ),
        "infinities": Kind(
            {d: (INFINITY, -INFINITY, 0.0, -0.0, 1.5, -2.5, most, -most) for d, most in LARGEST.items()},
            {1: INFINITY, -2: -INFINITY, -1: INFINITY},
        ),
        "zeros_and_subnormals": Kind({d: _small(d) for d in SMALLEST}, {}),
    }
)

PAIRED = frozenset(f"aten.{n}.Tensor" for n in ("add", "div", "eq", "ge", "gt", "le", "lt", "mul", "ne", "sub")) | {
    "aten.maximum.default",
    "aten.minimum.default",
}
"""Operators on two tensors, element by element."""
SINGLE = frozenset(
    f"aten.{name}"
    for name in (
        *("abs.default", "ceil.default", "clamp.default", "elu.default", "exp.default", "floor.default"),
        *("gelu.default", "hardswish.default", "hardtanh.default", "leaky_relu.default", "log.default", "neg.default"),
        *("pow.Tensor_Scalar", "prelu.default", "relu.default", "rsqrt.default", "sigmoid.default", "sqrt.default"),
        *("tanh.default", "cat.default", "constant_pad_nd.default", "permute_copy.default", "slice_copy.Tensor"),
        *("acos.default", "acosh.default", "asin.default", "asinh.default", "atan.default", "atanh.default"),
        *("cos.default", "cosh.default", "erf.default", "expm1.default", "hardsigmoid.default", "isinf.default"),
        *("isnan.default", "log10.default", "log1p.default", "log2.default", "reciprocal.default", "relu6.default"),
        *("round.default", "sign.default", "silu.default", "sin.default", "sinh.default", "trunc.default"),
    )
) | {"dim_order_ops._to_dim_order_copy.default", "quantized_decomposed.quantize_per_tensor.default"}
"""Operators each element of whose result is made of one element."""
SUMMING = frozenset(
    f"aten.{name}"
    for name in (
        *("_softmax.default", "addmm.default", "avg_pool2d.default", "bmm.default", "conv1d.default", "conv2d.default"),
        *("convolution.default", "linear.default", "max_pool2d.default", "mean.dim", "mm.default", "sum.dim_IntList"),
        *("amax.default", "amin.default"),
        "upsample_bilinear2d.vec",
    )
)
"""Operators each element of whose result is made of several."""
ORDINARY = (0.25, -0.5, 1.5, 0.375, -2.25, 3.0, -0.125)
"""What surrounds special numbers; their count divides no usual size."""

QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
PART_OF_THE_REALS = frozenset(
    f"aten.{name}"
    for name in (
        *("acos.default", "acosh.default", "asin.default", "atanh.default", "erfinv.default", "log.default"),
        *("log10.default", "log1p.default", "reciprocal.default", "rsqrt.default", "sqrt.default"),
        "pow.Tensor_Tensor",
    )
)
"""Operators whose cases on codes hold no others than those of numbers that they are defined for."""
SATURATING = (INFINITY, 0.5, -INFINITY, -0.75, 1e30, 1.25, -1e30, -0.0, 2.0**-149, 2.0, -(2.0**-127))


def special_values(precision: str, drafts: Sequence[CaseDraft]) -> Iterator[CaseDraft]:
    """A row's cases with special numbers in a precision ("" for none), from its plain program among the drafts."""
    plain = next((d.graph for d in drafts if _plain(d)), None)
    if plain is None or (len(plain.steps) != 1 and precision in FLOATS):
        return
    if precision in CODES:
        yield from _saturating(plain)
    elif precision in FLOATS and _op(plain) in SINGLE | PAIRED | SUMMING:
        yield from _on_floats(plain)


def _plain(draft: CaseDraft) -> bool:
    return (draft.constraint, draft.side, draft.variant) == (OPERATOR, "accept", "baseline")


def _op(graph: Graph) -> str:
    return next(step.op for step in graph.steps if step.name == SUBJECT)


def _on_floats(plain: Graph) -> Iterator[CaseDraft]:
    """Each kind as inputs, and as constants where there are any."""
    for name, kind in KINDS.items():
        if not (name == "nan" and _op(plain) == QUANTIZE):  # torch leaves open which code NaN becomes
            for constant, label in ((False, name), (True, f"constants_{name}")):
                graph = _with(plain, kind, constant)
                if graph != plain:
                    yield valued(label, graph)


def _with(plain: Graph, kind: Kind, constant: bool) -> Graph:
    """The program with numbers of a kind in its inputs, or in its constants, of floats."""
    op, chosen = _op(plain), [v for v in plain.values if _holds_floats(v) and v.constant == constant]
    lists = {}
    for index, value in enumerate(chosen):
        if op in PAIRED and len(chosen) == 2:
            lists[value.name] = tuple(pair[index] for pair in _pairs(kind, value.dtype))
        elif op in SUMMING and kind.sparse:
            lists[value.name] = _sparse(value, kind, index)
        else:
            lists[value.name] = kind.dense[value.dtype]
            if op in SUMMING:  # else a sum may begin below the normal range, where kernels differ
                lists[value.name] = tuple(n for n in lists[value.name] if abs(n) != SMALLEST[value.dtype][0])
    values = (replace(v, fill=Fill("list", values=lists[v.name])) if v.name in lists else v for v in plain.values)
    return replace(plain, values=tuple(values))


def _holds_floats(value: Value) -> bool:
    return value.quant is None and value.dtype in LARGEST and math.prod(value.shape) > 0


def _pairs(kind: Kind, dtype: str) -> list[tuple[float, float]]:
    numbers = kind.dense[dtype]
    return [(a, b) for a in numbers for b in numbers if kind.pairs(a, b)]


def _sparse(value: Value, kind: Kind, shift: int) -> tuple[float, ...]:
    """Ordinary numbers with special ones at a few places, in further operands at others."""
    count = math.prod(value.shape)
    numbers = [ORDINARY[index % len(ORDINARY)] for index in range(count)]
    for place, number in kind.sparse.items():
        numbers[(place + 5 * shift) % count] = number
    return tuple(numbers)


def _saturating(plain: Graph) -> Iterator[CaseDraft]:
    """Real numbers before quantize nodes: infinite, beyond every range, below the normal one."""
    if _op(plain) in PART_OF_THE_REALS:
        return
    x = next((v for v in plain.values if not v.constant), None)
    if x is None or x.quant is None or x.quant.axis is not None or x.fill.kind == "list":
        return
    values = (replace(v, fill=Fill("reals", values=SATURATING)) if v is x else v for v in plain.values)
    yield valued("saturating_inputs", replace(plain, values=tuple(values)))
