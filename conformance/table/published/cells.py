"""The cell of a published table that says limits: its parts, each read as a predicate or marked as not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from npu_assay.conformance.cases import drafts_of, every_operator
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.common.memory import keep, once
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.table.published.kinds import is_of_types
from npu_assay.conformance.table.published.lexicon import Lexicon
from npu_assay.conformance.table.published.names import meant_by
from npu_assay.conformance.table.published.phrases import read_phrase
from npu_assay.conformance.table.published.vocabulary import words
from npu_assay.reference.golden.aten import aten, canonical, parameters

LONGEST, LONGEST_PART = 60, 1000  # characters of a code, and of a part that is read
AHEAD = 80  # characters after a comma, which tell whether it parts
CONDITIONS = frozenset(
    ("if", "when", "for", "where", "unless", "except", "otherwise", "but", "provided", "depending", "while", "case")
)
"""Words by which a part that is not read may be about the others of its sentence."""
FIXED = {
    "aten.mm.default": ("x.rank == 2",),
    "aten.addmm.default": ("mat1.rank == 2",),
    "aten.bmm.default": ("x.rank == 3",),
}
"""What torch itself asks of an operator, so that no program says otherwise."""
ALWAYS = "the operator takes nothing else"
UNREAD = "not read from the published table"
ALIKE = "x.shape == y.shape"
_EVERY_RANK = re.compile(r"all\(t\.rank ([^()]+|in \([^()]+\)) for t in operands\)")
NO_ARGUMENT = "the operator has no such argument"
_LIMIT = r"(-?(?:\d+(?:\.\d+)?|inf)|none|null)"
_BOUND = rf"[(<]\s*{_LIMIT}\s*,\s*{_LIMIT}\s*[)>]"
_BOUNDS = re.compile(
    rf"(?:bounds?\s*(?:=|:|in|are|is)?|(?:supported\s+)?ranges:)\s*({_BOUND}(?:\s*(?:or|,|/)\s*{_BOUND})*)",
    re.IGNORECASE,
)
_OFF = re.compile(r"([a-z_]\w*)\s*(?:=|is|must be)\s*(?:false|none)", re.IGNORECASE)
_OF_ITSELF = re.compile(r"\s+(?:for|of|in|by)\s+((?:\w+\.)+\w+)$")
REFERENCE = re.compile(r"(?:see|refer to|same (?:\w+ )?as|as for|like)\s+`?([\w.:]+)`?", re.IGNORECASE)
"""A sentence that takes the constraints of another row."""


@dataclass(frozen=True)
class Read:
    """A constraint that a text was read as: its code, the sentence, and a predicate ("" where it was not read).

    `value`: what stands beside the code, as a table writes it. `why`: the reason where no case checks it.
    """

    code: str
    says: str
    holds: str = ""
    value: str = ""
    why: str = ""

    @property
    def is_unread(self) -> bool:
        return self.why == UNREAD


def read_constraints(row: str, text: str, precision: str = "") -> Iterator[Read]:
    """What a cell says of an operator, part by part: `keepdim=True`, `4D tensor only`; the rest is marked."""
    found = list(_read(row, text, precision))
    alike = any(read.holds == ALIKE for read in found)  # then the first operand tells, and is enough to look for
    for read in found:
        yield replace(read, holds=_EVERY_RANK.sub(r"x.rank \1", read.holds)) if alike else read


def _read(row: str, text: str, precision: str) -> Iterator[Read]:
    lexicon = lexicon_of(row, precision)
    for sentence in _sentences(text):
        parts = list(_parts(sentence))
        found = [read_part(lexicon, row, part) for part in parts]
        if len(parts) > 1 and any(map(_is_conditional, parts)):  # which parts it is about is not known
            found = [unread(part) for part in parts]
        yield from found


def _is_conditional(text: str) -> bool:
    """True for what may be about the other parts of its sentence: a condition, or a label such as `int16:`."""
    text = re.sub(r"\bonly (?:for|if|when)\b", "", text.lower())
    return bool(CONDITIONS & set(re.findall(r"[a-z]+", text))) or re.match(r"[\w .-]+:(?!\s*[\d(\[])", text) is not None


@keep(1024)
def read_part(lexicon: Lexicon | None, row: str, part: str) -> Read:
    """One part as a constraint."""
    said = " ".join(part.split()).rstrip(".")
    if len(said) > LONGEST_PART:
        return unread(part)
    bounds = _BOUNDS.fullmatch(said)
    if bounds is not None and lexicon is not None and lexicon.has_bounds:
        return Read(
            code_of(part),
            "the bounds are {value}",
            "bounds in value",
            _listed(bounds[1], "min" in lexicon.use.arguments),
        )
    holds = read_phrase(lexicon, _without_own_name(row, said)) if lexicon is not None else ""
    if holds in FIXED.get(row, ()):
        return Read(code_of(part), part, why=ALWAYS)
    if holds:
        return Read(code_of(part), part, holds)
    off = _OFF.fullmatch(said)
    if off is not None and lexicon is not None and off[1] in _arguments() - {*lexicon.use.arguments}:
        return Read(code_of(part), part, why=NO_ARGUMENT)
    return unread(part)


def _listed(text: str, may_lack: bool) -> str:
    """Bounds as a table writes them. may_lack: a bound that is left out is as good as an infinite one."""
    pairs = [[limit.lower() for limit in found] for found in re.findall(_BOUND, text, re.IGNORECASE)]
    infinite = ("-inf", "inf")
    spelled = [[infinite[at] if n in ("none", "null") else n for at, n in enumerate(pair)] for pair in pairs]
    lacking = [["null" if n == infinite[at] else n for at, n in enumerate(pair)] for pair in spelled]
    every = [*lacking, *(pair for pair in spelled if pair not in lacking)] if may_lack else spelled
    return f"[{', '.join(f'[{low}, {high}]' for low, high in every)}]"


def _without_own_name(row: str, part: str) -> str:
    """`only reflect mode for torch.nn.functional.pad`, in the row of that."""
    found = _OF_ITSELF.search(part)
    return part[: found.start()] if found is not None and row in meant_by(found[1])[0] else part


@once
def _arguments() -> frozenset[str]:
    """The arguments of all operators that may be off or left out."""
    found = (each for operator in every_operator() for each in parameters(canonical(operator)))
    return frozenset(name for name, _, default in found if default is None or isinstance(default, bool))


def unread(part: str) -> Read:
    """A part as a constraint that no case checks."""
    return Read(f"unread_{code_of(part)}"[:LONGEST].rstrip("_"), part, why=UNREAD)


def types_in(text: str) -> tuple[list[str], str]:
    """The parts of a cell that say types and nothing else, and the rest of the cell."""
    parts = [part for sentence in _sentences(text) for part in _parts(sentence)]
    types = [part for part in parts if is_of_types(part)]
    return types, "; ".join(part for part in parts if part not in types) if types else text


@keep(512)
def lexicon_of(row: str, precision: str) -> Lexicon | None:
    """The words that mean something of an operator; None where it has no plain program."""
    try:
        plain = next(d for d in drafts_of(row, precision) if d.variant == "baseline" and d.expect == "accept")
        return Lexicon(application(plain.graph, SUBJECT), _texts(application(plain.graph, SUBJECT)))
    except (NoProgram, StopIteration):
        return None


def _texts(use: Application) -> frozenset[str]:
    """The arguments that are texts, which are None where they are left out."""
    function = aten(canonical(use.op))
    schema = getattr(function, "_schema", None)
    return frozenset(each.name for each in (schema.arguments if schema else ()) if "str" in str(each.type))


# ------------------------------------------------------------------------------------ parts


def _sentences(text: str) -> Iterator[str]:
    """Lines, bullets, and what full stops and semicolons part."""
    for line in re.split(r"\n+|;|(?<=[a-z0-9)])\.\s+(?=[A-Z])", text):
        line = re.sub(r"^\s*[-*•·]\s+", "", line).strip()
        if line.lower() not in words()["answers"]["nothing"]:
            yield line


def _parts(text: str) -> Iterator[str]:
    """Parts between commas that are neither in parentheses nor before a further number or a word that goes on."""
    depth, part = 0, ""
    angled = {at for found in re.finditer(_BOUND, text, re.IGNORECASE) for at in range(*found.span())}
    for place, letter in enumerate(f"{text},"):
        depth += (letter in "([{") - (letter in ")]}")
        if place in angled:
            part += letter
            continue
        if letter == "," and depth <= 0 and not _goes_on(part, text[place + 1 : place + AHEAD]):
            if part.strip():
                yield part.strip()
            part = ""
        else:
            part += letter


def _goes_on(part: str, rest: str) -> bool:
    """Whether a comma is inside of a part: before a number, before "or", and after a condition that stands first."""
    words_after = re.match(r"\s*(\w+)", rest)
    following = words_after[1].lower() if words_after else ""
    if re.match(rf"\s*{_BOUND}", rest, re.IGNORECASE) and re.search(rf"{_BOUND}\s*$", part, re.IGNORECASE):
        return True
    if re.match(r"\s*-?\d+(?:x\d+)?(?:\s*(?:,|or\b|and\b|$|;))", rest) or following in ("or", *CONDITIONS):
        return True
    first = re.match(r"\s*(\w+)", part)
    return first is not None and first[1].lower() in CONDITIONS and "," not in part and bool(rest.strip())


def code_of(text: str) -> str:
    """A text as a code: letters, digits and underscores, its comparisons in words."""
    for sign, word in (("<=", " at most "), (">=", " at least "), ("<", " below "), (">", " above "), ("%", " mod ")):
        text = text.replace(sign, word)
    found = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:LONGEST].strip("_")
    return found if found[:1].isalpha() else f"c_{found}".rstrip("_")
