"""What an explanation says, as plain data: of a model and each backend, of every operator, of every cause.

`Explanation.as_json` is the content of `explain.json`; docs/explain.md describes its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

SCHEMA = 2
NO_FILE = "no program file"
"""Begins an error or a warning that says why there is none."""
T = TypeVar("T")


@dataclass(frozen=True)
class Reason:
    """Why a partitioner left an operator out: a code, what it found, the rule in words.

    follows: the operator without which there would be no such reason, "" for none.
    """

    code: str
    found: str
    sentence: str
    follows: str = ""


@dataclass(frozen=True)
class Operator:
    """One operator of the program that a partitioner got.

    name: of its node. module: path of the user's module, "" for the model itself. kind: that module's class.
    source: "file.py:12", code: the line there; "" where the program does not say. inputs: the operators, model inputs
    and constants that it takes. shape, dtype: of its (first) result. macs: multiply-accumulates. parameters: elements
    of the constants that it is the first to take. delegate: number of the delegate that has it, None for none. cause:
    index of the cause for which it is in none.
    """

    name: str
    operator: str
    module: str
    kind: str
    source: str
    code: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    macs: int
    parameters: int
    delegate: int | None
    reasons: tuple[Reason, ...]
    cause: int | None = None


@dataclass(frozen=True)
class Change:
    """What would have to be different for the backend to take an operator: "channels 12 -> 16".

    operator: the one that was changed.
    """

    operator: str
    text: str


@dataclass(frozen=True)
class Gain:
    """What a backend would take as well if causes were gone: operators, and their multiply-accumulates."""

    operators: int
    macs: int


@dataclass(frozen=True)
class Cause:
    """One root cause of operators that are not delegated, and all that follows from it.

    label: what the user wrote: a module ("Hardswish"), an operator ("gelu"), a line ("x * torch.sigmoid(x)"); times:
    how often that is left out. roots: the operators that it is about; follows: those that are left out because of them.
    macs, bytes: what these compute, and what would not have to cross a border of a delegate without the cause. also:
    other reasons that keep its roots out once this one is gone. alone: the gain if it is gone; together: if those
    before it are gone, too. hint: what to do, "" if unknown.
    """

    code: str
    found: str
    sentence: str
    label: str
    times: int
    roots: tuple[str, ...]
    follows: tuple[str, ...]
    macs: int
    bytes: int
    also: tuple[Reason, ...] = ()
    alone: Gain = Gain(0, 0)
    together: Gain = Gain(0, 0)
    hint: str = ""
    change: Change | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence} (found {self.found})"

    @property
    def operators(self) -> tuple[str, ...]:
        """All that are left out for it."""
        return (*self.roots, *self.follows)


@dataclass(frozen=True)
class Delegate:
    """A delegate: its blob in bytes, and the bytes that it takes and gives at every run."""

    backend: str
    blob: int
    takes: int
    gives: int


@dataclass(frozen=True)
class Comparison:
    """Two results of the model on the same inputs: `given` against `wanted`, over all outputs.

    sqnr: 10 * log10(power of the wanted / power of the difference), None where they are equal or nothing is wanted.
    cosine: of the angle between them. largest: largest difference. argmax: share of rows with the same largest
    element along the last axis, None where outputs have no such axis.
    """

    given: str
    wanted: str
    sqnr: float | None
    cosine: float | None
    largest: float
    argmax: float | None

    def __str__(self) -> str:
        ratio = "" if self.sqnr is None else f"{self.sqnr:.1f} dB, "
        found = f"{ratio}largest difference {self.largest:g}" if self.largest else "equal"
        return f"{self.given} against {self.wanted}: {found}"


@dataclass(frozen=True)
class Layer:
    """A layer of a quantized model by itself: the error that it adds, apart from what it inherits.

    name: of its node in the quantized program. operators: of the lowered program, those that compute it. effect: power
    of the model's results over what the layer's error makes of them, to first order, in dB; None where it has none, or
    torch has no derivative. own: power of its float64 golden on the inputs that it gets, over that of the difference,
    in dB, where every channel counts alike; None where they are equal. apart: largest distance, in codes, of the
    device's result from torch's on the same inputs; None where no code is compared. clipped: share of its results
    outside of the range of their codes. infinite: whether a constant of it holds infinities. cures: what is wrong with
    its quantization, and what would help.
    """

    name: str
    operator: str
    module: str
    kind: str
    source: str
    code: str
    operators: tuple[str, ...]
    effect: float | None
    own: float | None
    apart: int | None
    clipped: float
    infinite: bool
    cures: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """A model on one backend.

    quantized: whether the model was quantized for it here. error: why it was not lowered, or nothing ran; "" if it
    was. program, memory: bytes of the `.pte` file and of its planned arenas, None where there is none. layers: of a
    quantized model, those that add most error first. warnings: what its quantizer warned of, each kind once. silence:
    why the results carry nothing of the model, "" where they do.
    """

    backend: str
    quantized: bool
    operators: tuple[Operator, ...]
    causes: tuple[Cause, ...]
    delegates: tuple[Delegate, ...]
    program: int | None
    memory: int | None
    numbers: tuple[Comparison, ...]
    layers: tuple[Layer, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str = ""
    silence: str = ""

    @property
    def is_unknown(self) -> bool:
        """Whether there was no answer: its process gave none, or an error."""
        return bool(self.error) and not self.operators

    @property
    def taken(self) -> tuple[Operator, ...]:
        """The operators that are delegated."""
        return tuple(one for one in self.operators if one.delegate is not None)

    @property
    def macs(self) -> tuple[int, int]:
        """Multiply-accumulates that are delegated, and all."""
        return sum(one.macs for one in self.taken), sum(one.macs for one in self.operators)

    @property
    def parameters(self) -> tuple[int, int]:
        """Parameters that are delegated, and all."""
        return sum(one.parameters for one in self.taken), sum(one.parameters for one in self.operators)

    @property
    def share(self) -> float:
        """The share of multiply-accumulates that is delegated, of operators where there are none."""
        part, whole = self.macs
        if not whole:
            part, whole = len(self.taken), len(self.operators)
        return part / whole if whole else 0.0

    @property
    def no_file(self) -> str:
        """Why there is no `.pte` file, "" where there is one."""
        told = (each for each in (*self.warnings, *self.error.split("; ")) if each.startswith(NO_FILE))
        return "" if self.program is not None else next(told, self.error or NO_FILE)

    def short_of(self, share: float) -> str:
        """Why less is delegated than this share, in words; "" if it is not."""
        if self.is_unknown:
            return f"no share is known: {self.error.removeprefix(f'{self.backend}: ')}"
        if self.share >= share:
            return ""
        what = "multiply-accumulates" if self.macs[1] else "operators"
        return f"{100 * self.share:.4g} % of the {what} are delegated, expected at least {100 * share:.4g} %"


def nothing(backend: str, error: str, quantized: bool = False) -> Explained:
    """A backend of which nothing is known but why."""
    return Explained(backend, quantized, (), (), (), None, None, (), error=error)


@dataclass(frozen=True)
class Explanation:
    """A model on some backends."""

    model: str
    backends: tuple[Explained, ...]

    def as_json(self) -> dict[str, Any]:
        """The content of `explain.json`."""
        return {"schema": SCHEMA, **asdict(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Explanation:
        """The explanation that was written. Raises ValueError for anything else."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else type(data).__name__
            raise ValueError(f"explanation: found schema {found!r:.40}, expected {SCHEMA}")
        return _record(Explanation, {key: value for key, value in data.items() if key != "schema"}, "explanation")


def _read(kind: Any, data: Any, where: str) -> Any:
    """The value of an annotated type that JSON holds."""
    if get_origin(kind) in (Union, UnionType):
        if data is None:
            return None
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, data, where)
    if get_origin(kind) is tuple:
        if not isinstance(data, (list, tuple)):
            raise ValueError(f"{where}: expected a list, found {data!r:.40}")
        return tuple(_read(get_args(kind)[0], item, where) for item in data)
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ValueError(f"{where}: expected {kind.__name__}, found {data!r:.40}")
    return data


def _record(kind: type[T], data: Any, where: str) -> T:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # _read gives dataclasses only
    if not isinstance(data, dict) or set(data) != set(names):
        found = ", ".join(map(str, data)) if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"{where}: expected {', '.join(names)}, found {found:.200}")
    return kind(**{name: _read(hints[name], data[name], f"{where}.{name}") for name in names})
