"""The precisions of a row, from what a published table says of types and quantization."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npu_assay.conformance.cases import has_cases
from npu_assay.conformance.common.memory import keep, once
from npu_assay.conformance.table.published.vocabulary import american, by_words, longest, words

FLOATS = ("fp32", "fp16")
SAID = "said"
LACKING = "lacking"
"""The kind of all types that the suite has no cases in."""
Kinds = frozenset[str]
_MODES = {"static", "dynamic", "channels", "integer"}
_PAIRS = (("16", "8", "16x8"), ("8", "4", "8x4"))  # activations and weights of other types


@keep(4096)
def read_kinds(text: str) -> tuple[Kinds, tuple[str, ...]]:
    """What a text says of types, as `words.toml` calls it, and the words that say something else."""
    known, integer = _known()
    found = re.findall(r"\w+", _spelled(text))
    kinds, rest, at = set[str](), list[str](), 0
    while at < len(found):
        meant = longest(known, found, at)
        meaning, count = meant or ("", 1)
        if meant is None or meaning == LACKING:
            rest.append(found[at])
        if meaning not in ("", SAID):
            kinds.add(meaning)
        kinds |= {"integer"} if " ".join(found[at : at + count]) in integer else set()
        at += count
    return frozenset(kinds), tuple(rest)


def _spelled(text: str) -> str:
    """A text in one spelling: `int 8` is `int8`, `8 x 8` and `int8x8` are `8x8`, as are activations and weights."""
    text = (
        american(" ".join(text.lower().split()))
        .replace("\N{MULTIPLICATION SIGN}", "x")
        .replace("\\", "")
        .replace("torch.", "")
    )
    text = re.sub(r"\b(fp|bf|float|bfloat|u?int)[ -](4|8|16|32|64)\b", r"\1\2", text)
    text = re.sub(r"\b(?:s?int|s|i)?(4|8|16)\s?x\s?(?:s?int|s|i)?(4|8|16)\b", r"\1x\2", text)
    for activations, weights, pair in _PAIRS:
        bits = r"(?:\bint|\b)({})(?:[ -]?bits?)? {}s?\b"
        first, second = bits.format(activations, "activation"), bits.format(weights, "weight")
        for order in ((first, second), (second, first)):
            text = re.sub(r"\W+(?:and |with )?".join(order), pair, text)
    return re.sub(r"\b8da([48])w\b", r"dynamic int\1", text).replace("-", " ")


@once
def _known() -> tuple[dict[tuple[str, ...], str], frozenset[str]]:
    section = words()["kinds"]
    named = {meaning: names for meaning, names in section.items() if meaning != "integer"}
    known = by_words(named)
    known |= {("static", "integer"): "static", ("quantize_",): SAID}
    return known, frozenset(section["integer"])


def is_of_types(text: str) -> bool:
    """True where a text says types and nothing else: `int8 only`, `INT8/INT16`."""
    _, rest = read_kinds(text)
    return names_types(text) and not rest


def names_types(text: str) -> bool:
    """True where a text names a type of numbers."""
    return bool(read_kinds(text)[0] - _MODES)


@keep(4096)
def precisions(row: str, text: str, beside: Kinds = frozenset()) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The precisions of a row, and the types that the suite has no cases in; None where there is no precision.

    `beside`: what the whole table says of types. () is static int8, of which a row says nothing. Without a type it is
    the first of fp32 and int8 that the suite has cases in.
    """
    kinds, _ = read_kinds(text)
    if not names_types(text):
        found = [each for each in ("fp32", "int8", "", "integers") if has_cases(row, each)][:1]
        return (tuple(filter(None, found)), ()) if found else (None, (text,))
    chosen, lacking = list[str](), [LACKING] if kinds <= {LACKING, *_MODES} else list[str]()
    for kind in sorted(kinds & {"fp32", "fp16", "int8", "int16", "integers", "int4"}, key=_ORDER.index):
        of_kind = [each for each in _wanted(kind, kinds, beside, row) if has_cases(row, each)]
        chosen += [each for each in of_kind if each not in chosen]
        lacking += [] if of_kind else [kind]
    if "" in chosen:
        chosen = [each for each in chosen if each] or [""]
    return (tuple(filter(None, chosen)) if chosen else None), tuple(lacking)


_ORDER = ("fp32", "fp16", "int8", "int16", "int4", "integers")


def _wanted(kind: str, kinds: Kinds, beside: Kinds, row: str) -> Sequence[str]:
    """The precisions that a type stands for, beside the others of its row."""
    if kind == "int4":
        return ("dynamic_int4",) if "dynamic" in kinds else ()
    if kind in (*FLOATS, "integers"):
        return (kind,)
    channels = [f"{kind}_per_channel"] if "channels" in kinds else []
    if kind == "int16":
        return (kind, *channels)
    integer = {"int16", "integer", "integers", "channels"}
    if kinds & {*FLOATS, "dynamic"} or (beside & {*FLOATS} and not (kinds | beside) & integer):
        static = ["static_int8", *(["static_int8_per_channel"] if channels else [])]
        dynamic = ["dynamic_int8"] if "dynamic" in kinds else []
        wanted = [*(static if "static" in kinds or not dynamic else []), *dynamic]
        return wanted if any(has_cases(row, each) for each in wanted) else ["int8"]
    plain = not (kinds | beside) & integer and has_cases(row, "")
    wanted = [""] if plain else ["int8", *channels]
    return wanted if any(has_cases(row, each) for each in wanted) else ["integers"]
