"""What the suite knows of an operator, in one place: its home.

A home is data. Nothing here imports torch, so that cases are made, and tables read, without it; the golden is named and
loaded by what judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

Shape = tuple[int, ...]
IMAGE: Shape = (1, 3, 4, 5)
GOLDENS, INTEGERS = "npu_assay.reference.golden", "npu_assay.reference.integer"
REALS, TRUTHS, INDICES = "reals", "truths", "indices"
JOINED, FIRST, TOTAL, FLOATING, BYTES = "joined", "first", "total", "floating", "bytes"
ANY = "any operator"


@dataclass(frozen=True)
class Operand:
    """A tensor that an operator is applied to.

    shape: None for that of the first operand, `X`. holds: "reals", "truths" (0 and 1) or "indices". constant: part of
    the model, as weights are. numbers: what it holds, again from the start when they run out; () for any.
    within: the smallest and largest real that it may hold; None for any.
    """

    name: str
    shape: Shape | None = None
    holds: str = REALS
    constant: bool = False
    numbers: tuple[float, ...] = ()
    within: tuple[float, float] | None = None


X = Operand("x")
"""The first operand, in the shape that is asked for."""


def real(name: str, shape: Shape, within: tuple[float, float] | None = None) -> Operand:
    """An input of real numbers."""
    return Operand(name, shape, within=within)


def weight(name: str, shape: Shape, within: tuple[float, float] | None = None) -> Operand:
    """A constant of real numbers."""
    return Operand(name, shape, constant=True, within=within)


def indices(name: str, shape: Shape, *numbers: int) -> Operand:
    """Whole numbers, repeated from the start when they run out."""
    return Operand(name, shape, INDICES, numbers=tuple(map(float, numbers)))


def truths(name: str, shape: Shape) -> Operand:
    """Ones and zeros in an order that no stride repeats."""
    return Operand(name, shape, TRUTHS, numbers=(1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0))


@dataclass(frozen=True)
class Call:
    """The arguments of one application: numbers, tuples for lists, `Operand`s for tensors."""

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


def call(*args: Any, **kwargs: Any) -> Call:
    """A call with these arguments."""
    return Call(args, tuple(kwargs.items()))


def alone(shape: Shape) -> Call:
    """The operator on `X` and nothing else."""
    return call(X)


def behind(*rest: Any, **kwargs: Any) -> Callable[[Shape], Call]:
    """The operator on `X` and these arguments, whatever the shape."""
    return lambda shape: call(X, *rest, **kwargs)


ONE_OPERATION = "reals:itself"
Range = tuple[float, float]


@dataclass(frozen=True)
class ByName:
    """A maker of functions for several operators: what a home names is `make` of its operator's name."""

    make: Callable[[str], Callable[..., Any]]


SCHEMES: Mapping[str, str] = MappingProxyType(
    {"tflite_double_round": "tflite", "tosa_single_round": "tosa", "xnnpack_fp32": "xnnpack"}
)
"""Rescale scheme -> the arithmetic that homes know it by."""


@lru_cache(maxsize=8192)
def loaded(named: str, package: str, operator: str = "") -> Callable[..., Any]:
    """The function that is named "module:function" of a package; for an operator, where one function serves several."""
    module, _, function = named.partition(":")
    found: Any = getattr(import_module(f"{package}.{module}"), function)
    made: Callable[..., Any] = found.make(operator) if isinstance(found, ByName) else found
    return made


@dataclass(frozen=True)
class Codes:
    """How the arithmetic of one rescale scheme computes an operator on codes.

    golden: "module:function" of `npu_assay.reference.integer`.
    error_bound: "module:function" of `npu_assay.reference.golden`: how far that is off before it rounds.
    operands: whether each tensor must be codes, in order, and no further one; (): all must.
    after: the operators that it is computed together with when it follows them, by the quantization of its own result;
        (ANY,) for all.
    """

    golden: str
    error_bound: str
    operands: tuple[bool, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schemes:
    """The integer golden in the arithmetic of each scheme; in words why there is none where there is none."""

    tflite: Codes | str
    tosa: Codes | str
    xnnpack: Codes | str


UNNAMED = "no table of this scheme names it in codes; where a backend takes it, the float golden judges it alone"
REAL = "its devices compute it on reals alone, which the float golden judges"
WHOLE = "it takes whole numbers, which no scheme rescales; they are compared as they are"
TRUE = "its results are truths, which no scheme rescales; codes are compared as `integer.tosa.run_plain` says"
NUMBERS_ALONE = Schemes(WHOLE, WHOLE, WHOLE)
TRUTHS_ALONE = Schemes(TRUE, TRUE, TRUE)
PICKED = "nothing is computed: numbers are picked, placed or compared, none is rounded"
NO_CODES = Schemes(UNNAMED, UNNAMED, UNNAMED)


@dataclass(frozen=True)
class Accuracy:
    """An error of at most `ulps` * |result| * the type's distance at 1, plus `absolute`."""

    ulps: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True)
class Kernels:
    """How far XNNPACK's real kernels may be from the exact result, in float32 and in float16."""

    fp32: Accuracy = Accuracy()
    fp16: Accuracy = Accuracy()


@dataclass(frozen=True)
class Operator:
    """An operator of torch, ATen's or of a library of somebody's own.

    name: `namespace.operator.overload`, as tables spell it.
    golden: the operator in float64 with bounds. It gets the arguments of the call, tensors as
        `npu_assay.reference.golden.Bounded`, and returns one, or a tuple of them. The suite's own are named,
        "module:function" of `npu_assay.reference.golden`, which imports torch. None: the operator itself, on the values
        and on the errors, as for all that picks, averages or moves numbers.
    at: the operator's arguments for an `X` of a shape; None where cases are written by hand. shape: the plain one.
        shapes: others, of other ranks and sizes.
    spellings: other arguments by name, for the plain shape.
    takes, gives: the reals that `X` and the result have, which quantizations are chosen for; None: about -6.5 to 6.2.
    bounded: whether `X` may hold no reals but those within `takes`.
    result: "reals", "truths" or "indices" (which nobody quantizes).
    with_indices: whether the second result is the indices of the first one's numbers, which nobody quantizes.
    moves: every element of the result is one of an operand's, or zero: nothing is rounded.
    compares: two operands on codes are compared at the smaller of their scales.
    on_grid: the result of codes is codes of the same step size, unless a number that is not 0 is among the arguments.
    schemes: the integer goldens; the suite's own operators have them, or say why not.
    dtype: what type the result has, unless it holds truths or indices: all operands' (JOINED), the first one's whatever
        else is given (FIRST), 64 bits for whole numbers (TOTAL), or float32 for these (FLOATING). BYTES: truths, which
        of uint8 are uint8.
    elementwise: the result has the shape of `X`, each element made of the one at its place.
    terms: how many numbers an element of the result adds up, "all" for those of the first operand, "module:function" of
        the goldens for what depends on operands; 0: IEEE floats compute it in one operation, correctly rounded.
    rounding: "module:function" of the goldens where `terms` do not tell how far float arithmetic may be off.
    ieee: "module:function" of `npu_assay.reference.integer` where floats have one result to the last bit though
        they are not computed in one operation.
    dynamic: the same where XNNPACK quantizes the first operand at run time.
    kernels: how far XNNPACK's kernels may be off besides.
    integers, half, empty: whether torch computes it on whole numbers, on float16, on no elements along axis 0.
    onnx: the ONNX operator that computes it, of its first argument or as "Kind(argument, argument)" of those; or
        "module:function" of `npu_assay.reference.onnx_forms`. without_onnx: why the second golden has none.
    onnx_in_part: where ONNX computes something else, and why.
    large: a shape of more than 4096 elements; (): the plain one, with the last axis but one as long as that takes.
    """

    name: str
    golden: Callable[..., Any] | str | None
    at: Callable[[Shape], Call] | None = alone
    shape: Shape = IMAGE
    shapes: tuple[Shape, ...] = ()
    spellings: tuple[tuple[str, Callable[[Shape], Call]], ...] = ()
    takes: Range | None = None
    gives: Range | None = None
    bounded: bool = False
    result: str = REALS
    with_indices: bool = False
    moves: bool = False
    compares: bool = False
    on_grid: bool = False
    schemes: Schemes | None = None
    dtype: str = JOINED
    elementwise: bool = False
    terms: int | str = 4
    rounding: str = ""
    ieee: str = ""
    dynamic: str = ""
    kernels: Kernels | None = None
    integers: bool = False
    half: bool = True
    empty: bool = True
    onnx: str = ""
    without_onnx: str = ""
    onnx_in_part: str = ""
    large: Shape = ()

    @cached_property
    def function(self) -> Callable[..., Any] | None:
        """The golden itself, loaded where it is only named."""
        if self.golden is None or callable(self.golden):
            return self.golden
        return loaded(self.golden, GOLDENS, self.name)

    def codes(self, scheme: str) -> Codes | None:
        """How the arithmetic of a rescale scheme computes it on codes; None where it does not."""
        found = None if self.schemes is None or scheme not in SCHEMES else getattr(self.schemes, SCHEMES[scheme])
        return found if isinstance(found, Codes) else None

    @property
    def exact_on_reals(self) -> str:
        """What computes floats to the last bit, where they have one result: as `ieee` says, or in one operation."""
        return self.ieee or (ONE_OPERATION if self.terms == 0 else "")

    @cached_property
    def whole(self) -> frozenset[int]:
        """The positions of arguments that are indices."""
        return self._places(INDICES)

    @cached_property
    def apart(self) -> frozenset[int]:
        """The positions of arguments that are indices or truths."""
        return self._places(INDICES, TRUTHS)

    def _places(self, *kinds: str) -> frozenset[int]:
        given = enumerate(() if self.at is None else self.at(self.shape).args)
        return frozenset(place for place, each in given if isinstance(each, Operand) and each.holds in kinds)


# ------------------------------------------------------------------------------------ short forms


def written(name: str, golden: str | None, **more: Any) -> Operator:
    """An operator whose cases are written by hand."""
    return Operator(name, golden, None, **more)


def tflite(golden: str, error_bound: str = "error_bound:one_ratio", **more: Any) -> Codes:
    """TensorFlow Lite's arithmetic; each operand's code is rescaled by a ratio of its own, unless told otherwise."""
    return Codes(golden, error_bound, **more)


def tosa(golden: str, error_bound: str = "error_bound_tosa:rescaled", **more: Any) -> Codes:
    """TOSA's arithmetic; one rescale, unless told otherwise."""
    return Codes(golden, error_bound, **more)


def xnnpack(golden: str, error_bound: str = "error_bound_xnnpack:unchanged", **more: Any) -> Codes:
    """XNNPACK's static int8; nothing is rounded but the result, unless told otherwise."""
    return Codes(golden, error_bound, **more)


LINES: tuple[Shape, ...] = ((7,), (3, 5), (2, 3, 4), (2, 3, 2, 3, 2))


def function(name: str, golden: str, *rest: Any, **more: Any) -> Operator:
    """A function of each number, with the further arguments `rest`."""
    return Operator(name, golden, behind(*rest), shapes=LINES, elementwise=True, schemes=NO_CODES, **more)


def over(name: str, golden: str | None, *rest: Any, **more: Any) -> Operator:
    """An operator over axes of an image."""
    return Operator(name, golden, behind(*rest), terms="all", schemes=NO_CODES, **more)


def moving(name: str, *rest: Any, integers: bool = True, schemes: Schemes = NO_CODES, **more: Any) -> Operator:
    """One tensor's numbers at other places."""
    return Operator(name, None, behind(*rest), moves=True, integers=integers, schemes=schemes, **more)


MOVED = Codes("layout:moved", "error_bound:one_ratio", after=(ANY,))
"""TFLite's own operator on the codes, with the quantization of its result for what stands before."""
MOVED_CODES = Schemes(MOVED, Codes("tosa:moved", "error_bound_tosa:rescaled"), UNNAMED)


def moved(
    name: str,
    golden: str | None = None,
    *,
    tosa: Codes | str = MOVED_CODES.tosa,
    xnnpack: Codes | str = UNNAMED,
    ieee: str = "reals:itself",
    **more: Any,
) -> Operator:
    """An operator that moves numbers, on codes as on reals, whose cases are written by hand."""
    schemes = Schemes(MOVED, tosa, xnnpack)
    return written(name, golden, schemes=schemes, moves=True, ieee=ieee, **more)
