"""The suite's operators that a published name means, in whichever of the usual vocabularies it is written."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from npu_assay.conformance.cases import every_operator
from npu_assay.conformance.common.memory import keep, once
from npu_assay.conformance.table.operator_names import called
from npu_assay.conformance.table.published.tracing import functional_of, traced
from npu_assay.conformance.table.published.vocabulary import words

_SPACES = re.compile(
    r"(?:torch\.ops\.|exir_ops\.edge\.)?(?:torch\.nn\.functional|torch\.nn|torch\.Tensor|torch|Tensor|nn\.functional|nn|F|aten|"
    r"tosa|tfl|onnx|ai\.onnx)(?:\.|::)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s+/\s+|\s*[,;\n]\s*|\s+(?:or|and)\s+|/")
LONGEST = 200  # letters of a name
Meant = dict[str, str]
"""Operators of the suite, each with a predicate that says what the name means of it; "" where it means all of it."""


def meant_by(name: str) -> tuple[Meant, tuple[str, ...]]:
    """The operators of a cell, and the names in it that no operator has."""
    whole = _one(name)
    if whole:
        return whole, ()
    found, unknown = Meant(), list[str]()
    parts = [part.strip() for part in _BETWEEN.split(name) if part.strip()]
    for part in parts if len(parts) > 1 else ():
        of_part = _one(part)
        found |= of_part
        if not of_part and re.search(r"\w", part):  # `+` stands beside the name that it means
            unknown.append(part)
    return found, tuple(unknown) if found else (name,)


def without_remark(name: str) -> tuple[str, str]:
    """A name, and what stands in parentheses after it: `conv2d (depthwise)`."""
    found = re.fullmatch(r"(.*\w)\s+\(([^()]+)\)", name, re.DOTALL)
    return (found[1], found[2]) if found else (name, "")


@keep(4096)
def _one(name: str) -> Meant:
    """An operator by its full name, then as ONNX, TFLite, TOSA or torch call it, then what torch makes of a call."""
    plain = re.sub(r"\(\s*\)$", "", name.strip().strip("`"))
    plain = functional_of(plain) or plain
    found = _listed(plain)
    if found or len(plain) > LONGEST:
        return found
    calls = (plain,) if "." in plain else (f"torch.{plain}", f"torch.nn.functional.{plain}", f"torch.nn.{plain}")
    made = [each for call in calls for each in traced(call)]
    known = every_operator()
    return dict.fromkeys((form for each in made for form in (each, _copy_of(each)) if form in known), "")


def _copy_of(operator: str) -> str:
    """The name of a view as edge programs have it."""
    name, _, overload = operator.rpartition(".")
    return f"{name}_copy.{overload}"


def _listed(plain: str) -> Meant:
    """As the suite and the vocabulary call it: every overload of a name without one."""
    known = every_operator()
    for exact in (plain, f"aten.{plain}"):
        if exact in known:
            return {exact: ""}
    short = _SPACES.sub("", plain, count=1) if _SPACES.match(plain) else plain
    if "." in short and short not in known:
        return dict.fromkeys(_called(plain) or _called(short), "")
    aliases: Mapping[str, list[str]] = words()["operators"]
    squashed = _squashed(short)
    if squashed in aliases:
        return dict(_of_alias(aliases[squashed]))
    return dict.fromkeys(_called(plain) or _called(short) or _index().get(squashed, ()), "")


def _called(name: str) -> tuple[str, ...]:
    known = every_operator()
    return tuple(sorted(called(name, known) or called(name.removesuffix(".default"), known)))


def _of_alias(meanings: list[str]) -> Iterator[tuple[str, str]]:
    for meaning in meanings:
        base, _, condition = meaning.partition(": ")
        for operator in sorted(every_operator()):
            _, name, overload = operator.rsplit(".", 2)
            if base in (name, f"{name}.{overload}"):
                yield operator, condition


@once
def _index() -> Mapping[str, tuple[str, ...]]:
    """Operators by their names without signs, with and without the overload: `meandim`, `avgpool2d`."""
    found = defaultdict[str, list[str]](list)
    for operator in sorted(every_operator()):
        _, name, overload = operator.rsplit(".", 2)
        bare = name.strip("_").removesuffix("_copy").removeprefix("native_")
        for each in {_squashed(n) for base in (name, bare) for n in (base, base + overload)}:
            found[each].append(operator)
    return {name: tuple(operators) for name, operators in found.items()}


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
