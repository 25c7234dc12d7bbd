"""The table that an explanation begins with, and the modules of a model with how much of each is delegated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from npu_assay.conformance.explain.record import Comparison, Explained, Explanation, Operator

MODEL = "(model)"
NO_ANSWER = "no answer"


def summary_rows(explanation: Explanation) -> Iterator[tuple[str, ...]]:
    """What is told of every backend, a line each: its name, then one cell for each backend."""
    for number, (name, tell) in enumerate(ROWS):
        unknown = "-" if number else NO_ANSWER
        yield (name, *(unknown if one.is_unknown else tell(one) for one in explanation.backends))
    yield from number_rows(explanation)


def number_rows(explanation: Explanation) -> Iterator[tuple[str, ...]]:
    """The lines of these that compare results; of equal ones no second line."""
    pairs = dict.fromkeys((each.given, each.wanted) for one in explanation.backends for each in one.numbers)
    for given, wanted in pairs:
        found = [_pair(one.numbers, given, wanted) for one in explanation.backends]
        yield (f"{given} against {wanted}", *map(_compared, found))
        if any(each is not None and each.argmax is not None and each.largest for each in found):
            yield (f"same argmax, {given} and {wanted}", *map(_same_argmax, found))


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" if part != whole else f"all {whole:,}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _of(part: int, whole: int) -> str:
    return f"{_percent(part, whole)} of {whole:,}" if whole else "none"


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


ROWS: tuple[tuple[str, Callable[[Explained], str]], ...] = (
    ("operators delegated", lambda one: _share(len(one.taken), len(one.operators))),
    ("multiply-accumulates", lambda one: _of(*one.macs)),
    ("parameters", lambda one: _percent(*one.parameters)),
    ("delegates", lambda one: str(len(one.delegates))),
    ("bytes over their borders", lambda one: _number(sum(each.takes + each.gives for each in one.delegates))),
    ("program, bytes", lambda one: _number(one.program)),
    ("planned memory, bytes", lambda one: _number(one.memory)),
)


def _pair(numbers: Iterable[Comparison], given: str, wanted: str) -> Comparison | None:
    return next((each for each in numbers if (each.given, each.wanted) == (given, wanted)), None)


def _compared(found: Comparison | None) -> str:
    if found is None:
        return "-"
    return "equal" if not found.largest else "-" if found.sqnr is None else f"{found.sqnr:.1f} dB"


def _same_argmax(found: Comparison | None) -> str:
    return "-" if found is None or found.argmax is None else f"{100 * found.argmax:.1f} %"


def short(operator: str) -> str:
    """An operator's name without its namespace and overload: "conv2d" of aten.conv2d.default."""
    return operator.split(".")[1] if "." in operator else operator


# ------------------------------------------------------------------------------------ modules


@dataclass(frozen=True)
class Module:
    """A module of the model: all operators in it, and its parts in the order of the program."""

    label: str
    operators: tuple[Operator, ...]
    parts: tuple[Module | Operator, ...]

    @property
    def taken(self) -> int:
        """How many of its operators are delegated."""
        return sum(one.delegate is not None for one in self.operators)

    @property
    def whole(self) -> bool:
        """Whether all of them are."""
        return self.taken == len(self.operators)


def module_tree(operators: Sequence[Operator], label: str = MODEL, depth: int = 0) -> Module:
    """The modules that hold these operators, from the one at this depth of their paths."""
    parts: dict[str, list[Operator]] = {}
    for one in operators:
        path = one.module.split(".") if one.module else []
        parts.setdefault(path[depth] if len(path) > depth else "", []).append(one)
    found: list[Module | Operator] = []
    for name, own in parts.items():
        leaf = all(one.module.count(".") == depth for one in own)
        found += [module_tree(own, f"{name} ({own[0].kind})" if leaf else name, depth + 1)] if name else own
    return Module(label, tuple(operators), tuple(found))
