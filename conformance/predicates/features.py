"""The features of one application of an operator, by the names that predicates call them.

- An argument has the name that torch's schema gives it (`dim`, `alpha`, `keepdim`, `groups`, `weight`, `tensors`);
  `x` and `y` are the first two operands, `out` is the first result, and `value` the number beside the constraint.
- The features of an operand are in `operands`. A list of operands is a list of those; dimensions count from the front,
  also if a program counts them from the back.
- The features of all arguments together are in `derived`, those of the program around it in `surroundings`.
- Convolutions and pools have `kernel_h`, `kernel_w`, `stride_h`, `padding_w`, `dilation_h` and so on (`_d` for the
  depth of volumes; lines have only `_w`), and convolutions `in_channels` and `out_channels`. Adaptive pools have only
  kernels, the largest of their windows.
- `batch`, `channels`, `height` and `width` are the sizes of `x` as images have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from npu_assay.conformance.common.errors import nearest
from npu_assay.conformance.predicates.derived import DERIVED
from npu_assay.conformance.predicates.evaluation import Undefined
from npu_assay.conformance.predicates.grammar import VALUE, Predicate, PredicateError
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.predicates.outside import outside_features
from npu_assay.conformance.predicates.surroundings import SURROUNDINGS, Surroundings
from npu_assay.reference.outside import CONSTRAINTS, OutsideError

CONVOLUTIONS = frozenset({"aten.convolution.default", "aten.conv1d.default", "aten.conv2d.default"})
POOLS = frozenset(
    f"aten.{name}"
    for name in (
        *("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default", "max_pool1d.default"),
        *("max_pool2d.default", "max_pool2d_with_indices.default", "max_pool3d_with_indices.default"),
        "_adaptive_avg_pool2d.default",
    )
)
WINDOW = ("kernel", "stride", "padding", "dilation")
DIRECTIONS = ("d", "h", "w")
IMAGE: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"batch": (0, 1), "channels": (1, 2), "height": (-2, 4), "width": (-1, 3)}
)
"""Features that are sizes of `x`: the dimension, and the smallest rank at which it has that meaning."""
FILLED = "fill_value"
"""The argument that torch calls `value`, which in a predicate is the number beside the constraint."""
BUILT_IN = frozenset(
    (
        *("x", "y", "out", VALUE, FILLED, "in_channels", "out_channels", *IMAGE, *DERIVED, *SURROUNDINGS),
        *(f"{kind}_{direction}" for kind in WINDOW for direction in DIRECTIONS),
    )
)
"""The suite's names of features, in addition to those of arguments."""
DIMENSIONS = frozenset({"dim", "dims", "dimension", "dim0", "dim1", "start_dim", "end_dim"})


@dataclass(frozen=True)
class Application:
    """One application: arguments by their names in torch's schema, and the results. Lists are tuples.

    Features that do not depend on `value` are computed once.
    """

    op: str
    arguments: Mapping[str, Any]
    results: tuple[Operand, ...]
    value: Any = None
    around: Surroundings | None = None
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def find(self, name: str) -> Any:
        """The feature of this name. Raises Undefined if the application lacks it."""
        own = name in self.arguments and name != VALUE  # which a pad's argument is called, too: FILLED is that one
        found = self.arguments[name] if own else self._derived(name)
        if found is None:
            raise Undefined(name)
        return self.from_the_front(found) if name in DIMENSIONS else found

    def with_value(self, value: Any) -> Application:
        """The same application, with the value of a constraint as the feature `value`."""
        return Application(self.op, self.arguments, self.results, value, self.around, self._kept)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Every tensor argument in the schema's order, those of lists one by one."""
        if "operands" not in self._kept:
            self._kept["operands"] = tuple(_operands(self.arguments.values()))
        found: tuple[Operand, ...] = self._kept["operands"]
        return found

    def _derived(self, name: str) -> Any:
        if name == VALUE:
            return self.value
        if name == FILLED:
            return self.arguments.get(VALUE)
        if name not in BUILT_IN and (brought := outside_features().get(name)) is not None:
            return brought.value(self)
        if name not in self._kept:
            self._kept[name] = self._worked_out(name)
        return self._kept[name]

    def _worked_out(self, name: str) -> Any:
        if name == "out":
            return self.results[0]
        if name in ("x", "y"):
            index = "xy".index(name)
            return self.operands[index] if index < len(self.operands) else None
        if name in DERIVED:
            return DERIVED[name](self)
        if name in SURROUNDINGS:
            return None if self.around is None else self.around.find(name)
        if name in IMAGE:
            index, least = IMAGE[name]
            shape = self.operands[0].shape if self.operands else ()
            return shape[index] if len(shape) >= least else None
        if name in ("in_channels", "out_channels") and self.op in CONVOLUTIONS:
            return (self.operands[0] if name == "in_channels" else self.results[0]).shape[1]
        kind, _, direction = name.partition("_")
        return self.window(kind, direction)

    def window(self, kind: str, direction: str) -> int | None:
        """The kernel, stride, padding or dilation in one direction; None if the operator has none."""
        if self.op not in CONVOLUTIONS | POOLS or kind not in WINDOW or direction not in DIRECTIONS:
            return None
        sizes = self._window(kind)
        place = DIRECTIONS.index(direction) - len(DIRECTIONS)
        return sizes[place] if -place <= len(sizes) else None

    def _window(self, kind: str) -> tuple[int, ...]:
        """The sizes of a window in all its directions; a pool without strides has its kernel's sizes as strides."""
        if kind == "kernel" and self.op in CONVOLUTIONS:
            shape: tuple[int, ...] = self.arguments["weight"].shape
            return shape[2:]
        if "adaptive" in self.op:
            sizes = zip(self.operands[0].shape[-2:], self.results[0].shape[-2:], strict=True)
            return tuple(largest_window(*each) for each in sizes) if kind == "kernel" else ()
        found = self.arguments.get("kernel_size" if kind == "kernel" else kind)
        if kind == "stride" and not found:
            return self._window("kernel")
        of_pool = next((int(count) for count in "123" if f"pool{count}d" in self.op), None)
        directions = len(self._window("kernel")) if of_pool is None else of_pool
        listed = found if isinstance(found, tuple) else (found,) if type(found) is int else ()
        return listed * directions if len(listed) == 1 else listed

    @property
    def counted_rank(self) -> int:
        """The rank that dims in arguments refer to: the result's if that has one more dimension, else the input's."""
        counted = self.results if "unsqueeze" in self.op else self.operands
        return counted[0].rank if counted else 0

    def from_the_front(self, found: Any) -> Any:
        """Negative dimensions as dimensions from the front."""
        if isinstance(found, tuple):
            return tuple(map(self.from_the_front, found))
        return found + self.counted_rank if found < 0 else found


def largest_window(size: int, outputs: int) -> int:
    """The most numbers that one of an adaptive pool's outputs averages; 0 where there are no outputs.

    As torch has it, output i averages those from floor(i * size / outputs) to ceil((i + 1) * size / outputs).
    """
    if outputs == 0:
        return 0
    whole, rest = divmod(size, outputs)
    return whole + (0 if rest == 0 else 1 if outputs % rest == 0 else 2)


def _operands(arguments: Any) -> Iterator[Operand]:
    for found in arguments:
        if isinstance(found, Operand):
            yield found
        elif isinstance(found, tuple):
            yield from _operands(found)


def known_names(application: Application) -> tuple[str, ...]:
    """Every name that a predicate about this operator may begin with."""
    windows = [f"{kind}_{direction}" for kind in WINDOW for direction in DIRECTIONS]
    of_windows = windows if application.op in CONVOLUTIONS | POOLS else []
    channels = ["in_channels", "out_channels"] if application.op in CONVOLUTIONS else []
    operands = ["x", "y"][: 1 + len(application.arguments)]
    return (
        *(*application.arguments, *operands, "out", VALUE, *IMAGE, *channels, *of_windows),
        *((FILLED,) if VALUE in application.arguments else ()),
        *(*DERIVED, *SURROUNDINGS, *outside_features()),
    )


def check_names(predicate: Predicate, application: Application) -> None:
    """Raise PredicateError, with the nearest name, for a name that no application of the operator has.

    Raises OutsideError for a package's feature whose name the suite uses already.
    """
    known = known_names(application)
    for name in predicate.bases:
        if name in outside_features() and (name in BUILT_IN or name in application.arguments):
            raise OutsideError(
                f"feature {name!r} of {CONSTRAINTS}: {application.op} has one of this name already, expected another"
            )
        if name not in known:
            near = nearest(name, known, len(known))
            raise PredicateError(f"unknown feature {name!r} of {application.op}{near}")
