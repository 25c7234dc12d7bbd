"""The words of a phrase as tokens: numbers, comparisons, and what the operator at hand has, by name."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from npu_assay.conformance.common.memory import once
from npu_assay.conformance.predicates.derived import DERIVED
from npu_assay.conformance.predicates.evaluation import Undefined, truth, value
from npu_assay.conformance.predicates.features import DIMENSIONS, Application, check_names
from npu_assay.conformance.predicates.grammar import PredicateError, parse_predicate
from npu_assay.conformance.predicates.left_out import silent_without
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.table.published.vocabulary import words
from npu_assay.reference.golden.aten import canonical, optional_parameters

INPUTS, BOTH = "inputs", "both"
"""The nouns of several operands, in addition to the names of single ones."""
_PIECES = re.compile(
    r"(?P<pair>\d+(?:\s*[x*]\s*\d+)+(?![\w.]))|(?P<nd>\d+d\b)|(?P<power>2\s*(?:\^|\*\*)\s*\d{1,2}(?![\w.]))"
    r"|(?P<thousands>\d{1,3}(?:,\d{3})+(?![\w.,]))|(?P<number>\d+(?:\.\d+)?(?![\w.]*\w))"
    r"|(?P<word>[a-z_]\w*)|(?P<sign><=|>=|==|!=|=<|=>|\.\.|[<>=%*/:(){}\[\],≤≥≠-])",
    re.ASCII,
)
_SIGNS = {0xD7: "x", 0x2013: "-", 0x2014: "-", 0x2212: "-"}  # the sign of products, dashes and minus
_COUNTS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "eight": "8"}
OF_IMAGES = {"batch", "channels", "height", "width", "x", "out"}
"""What programs of other ranks have."""
UNITS = {"byte": 1, "bytes": 1, "kib": 2**10, "mib": 2**20}


@dataclass(frozen=True)
class Token:
    """A piece of a phrase.

    `kind`: number, pair, nd, word, sign or known; of a known name's meanings compare, quantity, state, flag, argument,
    operand, adjective or property.
    """

    kind: str
    text: str
    meaning: Any = None


@dataclass(frozen=True)
class Quantity:
    """The features of a name, one for each direction, as predicates write them."""

    features: tuple[str, ...]
    most: int = 2**40
    is_axis: bool = False
    needs_unit: bool = False
    pairs_only: bool = False
    is_last: bool = False
    """Only after its value: "up to 4 dimensions" is about a rank, "dimensions <= 64" about nothing that is known."""


@dataclass(frozen=True)
class State:
    """A property: predicates for it and for its contrary, "" where it has no such predicate."""

    yes: str
    no: str
    alone: bool


class Lexicon:
    """The words that are known of one operator, as its plain program has it."""

    def __init__(self, use: Application, text_arguments: frozenset[str]) -> None:
        self.use = use
        self.texts = text_arguments
        self.known: dict[tuple[str, ...], list[Token]] = {}
        for text, token in (*_plain_words(), *self._states(), *self._quantities(), *self._arguments(), *self._nouns()):
            for spelled in {text, text.replace(" ", "_")}:
                self.known.setdefault(_texts(_pieces(spelled) or ()), []).append(token)
        self.most = max(map(len, self.known))

    def tokens(self, text: str) -> list[Token] | None:
        """The tokens of a phrase without the words that change nothing; None where a sign is not known."""
        found = _pieces(text)
        tokens, at = list[Token](), 0
        while found is not None and at < len(found):
            count = next((n for n in range(self.most, 0, -1) if _texts(found[at : at + n]) in self.known), 0)
            run = _texts(found[at : at + count])
            if run not in _nothing():
                tokens.append(Token("known", " ".join(run), tuple(self.known[run])) if count else found[at])
            at += count or 1
        return None if found is None else tokens

    # -------------------------------------------------------------------------------- what the operator has

    def truth(self, predicate: str) -> bool | None:
        """The value of a predicate for the plain program, None if undefined. Raises PredicateError."""
        parsed = parse_predicate(predicate)
        check_names(parsed, self.use)
        if "value" in parsed.bases:  # the number beside a constraint, which an argument may be called, too
            raise PredicateError("'value' is no argument here")
        if any(silent_without(self.use.op, parsed)):
            raise PredicateError("undefined where an argument is left out")
        try:
            return truth(parsed.tree, self.use.find)
        except IndexError as error:  # of an operator without operands
            raise PredicateError(str(error)) from error

    def _first(self, choices: Sequence[str]) -> str:
        """The first predicate that the plain program decides, else the first that can be asked; "" for none."""
        usable = list[str]()
        reduces = "dim" in self.use.arguments
        for choice in (each for each in choices if reduces or "reduced" not in each):
            try:
                if self.truth(choice) is not None:
                    return choice
                usable.append(choice)
            except PredicateError:
                continue
        return "" if not usable or "y." in usable[0] else usable[0]  # without a second operand it is never decided

    def _states(self) -> Iterator[tuple[str, Token]]:
        for each in words()["states"]:
            state = State(self._first(each.get("yes", ())), self._first(each.get("no", ())), each.get("alone", False))
            if state.yes or state.no:
                yield from ((name, Token("state", name, state)) for name in each["names"])

    def _quantities(self) -> Iterator[tuple[str, Token]]:
        for each in words()["quantities"]:
            if "of" in each and not any(name in self.use.op for name in each["of"]):
                continue
            if "alone" in each and len(self.use.operands) != 1:  # of which operand is not said
                continue
            features = self._features(each["is"])
            if features:
                quantity = Quantity(
                    features,
                    most=each.get("most", 2**40),
                    is_axis=each.get("axis", False),
                    needs_unit=each.get("unit", False),
                    pairs_only=each.get("pairs", False),
                    is_last=each.get("last", False),
                )
                yield from ((name, Token("quantity", name, quantity)) for name in each["names"])

    def _features(self, choices: Sequence[Sequence[str]]) -> tuple[str, ...]:
        usable = list[tuple[str, ...]]()
        for choice in choices:
            features = tuple(self.main(feature) for feature in choice)
            states = [self._state_of(feature) for feature in features]
            if all(states):
                return features
            if None not in states:
                usable.append(features)
        return usable[-1] if usable else ()

    def _state_of(self, feature: str) -> bool | None:
        """True where the plain program has a number there, or a list of axes; None where the operator never has it."""
        own = re.sub(r"^t\.", "x.", "x.rank" if feature == "size" else feature)
        predicate = parse_predicate(f"{own} == 0")
        tree = predicate.tree
        assert isinstance(tree, ast.Compare)
        try:
            check_names(predicate, self.use)
            found = value(tree.left, self.use.find)
        except Undefined:
            return None if set(predicate.bases) - OF_IMAGES else False
        except (PredicateError, TypeError, IndexError):
            return None
        is_number = isinstance(found, int | float | Fraction) and not isinstance(found, bool)
        return True if is_number or (feature == "reduced" and "dim" in self.use.arguments) else None

    @property
    def has_bounds(self) -> bool:
        """Whether its bounds are numbers."""
        bounds = DERIVED["bounds"](self.use)
        return bounds is not None and all(each is None or isinstance(each, int | float) for each in bounds)

    def main(self, feature: str) -> str:
        """A feature of the operand that is computed with, which is the second of addmm."""
        return re.sub(r"\bx\.", "mat1.", feature) if "mat1" in self.use.arguments else feature

    def ranks(self, count: str) -> Quantity:
        """How many dimensions operands have: of operators of two operands alike, both."""
        alike = {"self", "other"} <= set(self.use.arguments) and len(self.use.operands) > 1
        return Quantity((f"t.rank{count}" if alike else self.main(f"x.rank{count}"),), most=8)

    def _arguments(self) -> Iterator[tuple[str, Token]]:
        for name, found in self.use.arguments.items():
            if isinstance(found, bool):
                state = State(name, f"not {name}", True)
                yield from ((each, Token("flag", name, state)) for each in {name, name.replace("_", " ")})
            elif type(found) in (int, float) and name not in (*DIMENSIONS, "value"):
                yield name, Token("quantity", name, Quantity((name,)))
            elif name in self.texts or found is None:
                also = ["approximation"] if name == "approximate" else []
                yield from ((each, Token("argument", name, found)) for each in (name, *also))

    # -------------------------------------------------------------------------------- operands

    def _nouns(self) -> Iterator[tuple[str, Token]]:
        for each in words()["operands"]:
            if "of" not in each or any(name in self.use.op for name in each["of"]):
                for operand in itertools.islice(filter(self._has, each["is"]), 1):
                    yield from ((name, Token("operand", name, operand)) for name in each["names"])
        for each in words()["adjectives"]:
            yield from ((name, Token("adjective", name, (each["is"], "of_all" in each))) for name in each["names"])
        for each in words()["properties"]:
            yield from ((name, Token("property", name, each["is"])) for name in each["names"])

    def _has(self, operand: str) -> bool:
        """True for an operand of this operator; its second may be a number in the plain program."""
        second = operand == "y" and "other" in self.use.arguments
        if operand in self.use.arguments and operand in optional_parameters(canonical(self.use.op)):
            return True
        return second or operand in (INPUTS, BOTH) or self._first([f"{operand}.rank == 0"]) != ""

    def described(self, operand: str, holds: str, of_all: bool) -> str:
        """A predicate of an operand, `{}`: of each where all of them are meant. "" where it is not for all."""
        if operand in (INPUTS, BOTH):
            whole = f"all({holds.replace('{}', 't')} for t in {'operands' if operand == INPUTS else 'all_tensors'})"
            return whole if of_all else ""
        said = holds.replace("{}", operand)
        if operand == "y" and len(self.use.operands) == 1:  # a number is constant
            return "" if said.startswith("not ") else f"len(operands) == 1 or {said}"
        return f"{operand} is None or {said}" if operand in optional_parameters(canonical(self.use.op)) else said

    def alike(self, features: Sequence[str], group: str) -> str:
        """The predicate that operands share features: the inputs of an operator, or its inputs and results."""
        count, lists = len(self.use.operands), [each for each in self.use.arguments.values() if isinstance(each, tuple)]
        listed = any(isinstance(item, Operand) for each in lists for item in each)
        inputs = count > 1 and (listed or (count, "weight" in self.use.arguments) == (2, False))
        if group == INPUTS and not inputs:
            return ""
        other = "out" if group == BOTH else "x" if listed else "y"
        each = "t" if inputs and other != "y" else "x"
        same = " and ".join(f"{each}.{feature} == {other}.{feature}" for feature in features)
        return f"all({same} for t in operands)" if each == "t" else same


@once
def _nothing() -> frozenset[tuple[str, ...]]:
    return frozenset(_texts(_pieces(name) or ()) for name in words()["said"]["nothing"])


@once
def _plain_words() -> tuple[tuple[str, Token], ...]:
    section: Mapping[str, Sequence[str]] = words()["comparisons"]
    found = [(name, Token("compare", name, sign)) for sign, names in section.items() for name in names]
    return (*found, *((name, Token("nothing", name)) for name in words()["said"]["nothing"]))


def _texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.text for token in tokens)


def _pieces(text: str) -> list[Token] | None:
    """The words that count, the numbers and the signs of a text; None where it has something else."""
    text = _normal(text)
    said, found, at = set(words()["said"]["words"]), list[Token](), 0
    while at < len(text):
        if text[at] in " \t\n'\"`":
            at += 1
            continue
        piece = _PIECES.match(text, at)
        if piece is None:
            return None
        word = _COUNTS.get(piece[0], piece[0])
        if word not in said:
            found.append(_token("number" if word != piece[0] else str(piece.lastgroup), word))
        at = piece.end()
    return found


def _token(kind: str, text: str) -> Token:
    if kind == "pair":
        return Token(kind, text, tuple(map(int, re.split(r"\s*[x*]\s*", text))))
    if kind == "power":
        return Token("number", text, 2 ** int(re.split(r"\^|\*\*", text)[1]))
    if kind in ("number", "thousands"):
        digits = text.replace(",", "")
        return Token(kind, text, float(digits) if "." in digits else int(digits))
    return Token(kind, text, int(text[:-1]) if kind == "nd" else None)


def _normal(text: str) -> str:
    text = text.lower().translate(_SIGNS)
    text = re.sub(r"(?<=[a-z])-(?=[a-z])|\bnumber of\b", " ", text).strip().rstrip(".;!")
    text = text.replace("non negative", "nonnegative").replace("non zero", "nonzero")
    text = re.sub(r"\brank[ -](\d)(?=[ -](?:tensor|input))", r"\1d", text)
    return re.sub(r"\b(\d+)[ -]?(?:d|dimensional|dim)\b", r"\1d", text)
