"""The table's section `[constraints]`: the sentence of each id, and perhaps a predicate or why no case tests it.

    lanes = { says = "input channels must be a multiple of {value}", holds = "in_channels % value == 0" }
    fits_sram = { says = "the whole model must fit the memory", unchecked = "the suite's models all do" }

An id with only a sentence has the suite's meaning (docs/constraints.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from npu_assay.conformance.common.schema import TableError, check_keys, check_text, check_type
from npu_assay.conformance.predicates.grammar import Predicate, PredicateError, parse_predicate

KEYS: Mapping[str, type] = {"says": str, "holds": str, "unchecked": str}


@dataclass(frozen=True)
class Definition:
    """A constraint that a table defines: `holds`, and why no case can test it, or not all of it."""

    code: str
    holds: Predicate | None
    unchecked: str = ""


@dataclass(frozen=True)
class Own:
    """The constraints that a table defines, by id."""

    definitions: tuple[Definition, ...] = ()

    def definition(self, code: str) -> Definition | None:
        """The definition of a constraint; None if it has the suite's meaning."""
        return next((each for each in self.definitions if each.code == code), None)


def read_own(data: Mapping[str, Any], file: str) -> tuple[dict[str, str], Own]:
    """The sentences of `[constraints]` by id, and its definitions. Raises TableError."""
    sentences, definitions = dict[str, str](), list[Definition]()
    for code, found in data.items():
        where = f"{file}: constraints: {code}"
        if isinstance(found, str):
            sentences[code] = found
            continue
        if not isinstance(found, dict):
            raise TableError(f"{where}: expected a sentence, or {{ says, holds }}, found {found!r}")
        sentences[code], defined = _defined(code, found, where)
        definitions.append(defined)
    return sentences, Own(tuple(definitions))


def _defined(code: str, data: Mapping[str, Any], where: str) -> tuple[str, Definition]:
    check_keys(data, KEYS, {"says"}, where)
    for key in data:
        check_type(data[key], str, f"{where}: {key}")
        check_text(data[key], f"{where}: {key}")
    if not {"holds", "unchecked"} & {*data}:
        raise TableError(f"{where}: expected 'holds' or 'unchecked' beside 'says'")
    if "holds" not in data:
        return data["says"], Definition(code, None, data["unchecked"])
    try:
        predicate = parse_predicate(data["holds"])
    except PredicateError as error:
        raise TableError(f"{where}: holds: {error}") from error
    if ("value" in predicate.bases) != ("{value}" in data["says"]):
        there, lacking = ("holds", "says") if "value" in predicate.bases else ("says", "holds")
        word = "{value}" if lacking == "says" else "value"
        raise TableError(
            f"{where}: 'holds' and 'says' must both use the value, or neither: found it in {there} = {data[there]!r}, "
            f"expected {word} in {lacking} = {data[lacking]!r}, too"
        )
    return data["says"], Definition(code, predicate, data.get("unchecked", ""))
