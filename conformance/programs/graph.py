"""A case's program as plain data: values, and the operator applications between them.

Everything else about a case is derived from this record: the edge program (`programs`), the
exact-integer golden and the float golden (`numerics`). It holds no tensors, so a case can be
hashed, printed, compared and sent to another process; `materialise` makes the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from npu_assay.conformance.common.memory import keep


@dataclass(frozen=True)
class Quant:
    """Affine quantization: real = scale * (code - zero_point), codes within [qmin, qmax].

    `axis` None is per-tensor and `scale` a number; otherwise `scale` holds one number per index of
    that axis and the zero point is the same for all of them. With `group` (axis 0 of a matrix only) every
    `group` neighbors along the last axis share a scale: `scale` holds them row by row.
    """

    scale: float | tuple[float, ...]
    zero_point: int = 0
    qmin: int = -128
    qmax: int = 127
    axis: int | None = None
    dtype: str = "int8"
    group: int | None = None


@dataclass(frozen=True)
class Fill:
    """How a value's numbers are made: codes for a quantized value, reals for a float one.

    kind: "random" (full range, from `seed`), "all_codes" (qmin..qmax, repeated), "ramp" (one step
    per element, wrapping), "one_hot" (qmax at flat index `index`, zero point elsewhere), "min",
    "max", "zero" (the zero point), "alternating" (qmin, qmax, ...), "list" (`values`, repeated), "reals" (a quantized
    input gets `values`, repeated, as real numbers, and is the codes nearest to them: infinities saturate), "open"
    (there are none yet).
    """

    kind: str = "random"
    seed: int = 0
    index: int = 0
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Value:
    """A model input or a constant. `quant` None means plain numbers of type `dtype`.

    A quantized value is dequantized to float32. `dynamic` are the axes whose size the program leaves open
    (`shape` has the sizes that the case runs with).
    """

    name: str
    shape: tuple[int, ...]
    quant: Quant | None
    fill: Fill = Fill()
    constant: bool = False
    dtype: str = "float32"
    dynamic: tuple[int, ...] = ()


@dataclass(frozen=True)
class ChannelsLast(Value):
    """A model input of four dimensions whose channels lie next to each other in memory."""


@dataclass(frozen=True)
class Ref:
    """Refers to a value or to output `index` of a step, inside a step's arguments."""

    name: str
    index: int = 0


@keep(4096)
def references(argument: Any) -> tuple[Ref, ...]:
    """Every reference inside an argument, in order."""
    if isinstance(argument, Ref):
        return (argument,)
    if isinstance(argument, tuple):
        return tuple(ref for item in argument for ref in references(item))
    return ()


def substitute(argument: Any, found: Callable[[Ref], Any]) -> Any:
    """An argument with what is found for each reference in its place."""
    if isinstance(argument, Ref):
        return found(argument)
    return tuple(substitute(item, found) for item in argument) if isinstance(argument, tuple) else argument


def renamed(argument: Any, names: Mapping[str, str]) -> Any:
    """An argument with its references to some names as references to others."""
    return substitute(argument, lambda ref: Ref(names.get(ref.name, ref.name), ref.index))


@dataclass(frozen=True)
class Step:
    """One operator application, spelled as in ATen (`op` is a name as tables have it).

    Arguments are constants, tuples (for lists) and `Ref`; a memory format is its name in torch
    ("contiguous_format"). `quant` is the output's quantization (per channel only in programs that no device takes);
    None leaves the output float, unquantized: an activation fused after it, or a float model.
    A step with several outputs has one quantization for all of them.
    `dynamic` quantizes the first operand, a real number, on the way in, with parameters chosen at run time:
    "per_tensor" (one scale for all of it) or "per_token" (one per row of the last axis).
    """

    name: str
    op: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    quant: Quant | None = None
    outputs: int = 1
    dynamic: str | None = None


@dataclass(frozen=True)
class LayerInParts(Step):
    """A `torch.nn.Linear` on matrices that dequantizes its weights itself, in the parts that `to_edge` makes of it.

    Weights of torchao's `quantize_` give such a program: transposition, product and dequantize node all come from one
    module, as their metadata says.
    """


@dataclass(frozen=True)
class Graph:
    """Values, then steps in execution order, then what the model returns.

    Raises ValueError for two of one name: a reference would mean the later one.
    """

    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Ref, ...]

    def __post_init__(self) -> None:
        names = [*(value.name for value in self.values), *(step.name for step in self.steps)]
        if len(set(names)) < len(names):
            twice = next(name for index, name in enumerate(names) if name in names[:index])
            raise ValueError(f"two parts of a graph are called {twice!r}")

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the model is given."""
        return tuple(value for value in self.values if not value.constant)


@dataclass(frozen=True)
class Case:
    """One question to a backend: what becomes of step `subject` of `graph`?

    id: "<row>/<constraint>/<side>/<variant>", unique within a table; with a precision, that stands after the row.
    side: "accept", "at_limit", "outside" (one step past the limit), "context" or "value".
    expect: "accept", "reject" or "unspecified"; `reason` is the constraint's code for "reject".
    precision: the one that the case is about, of those that its row lists; None when it lists none.
    options: keyword arguments for the backend's partitioner. delegates: how many there are, where that is promised.
    """

    id: str
    row: str
    constraint: str
    side: str
    expect: str
    reason: str | None
    graph: Graph
    subject: str
    precision: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    delegates: int | None = None
