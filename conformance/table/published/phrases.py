"""A phrase of a published table as a predicate: `kernel <= 3x3`, `no broadcasting`, `stride 1 or 2`.

    rule      = simple | rule "and" simple | rule "or" simple
              | simple ["only"] ("if" | "when" | "for" | "between") simple ["only"]
    simple    = relation | state | rank | adjectives operand | operand adjectives | alike
    relation  = quantities [comparison] value | comparison value quantities
              | value comparison quantities comparison value
    value     = number | NxM | list of these | from - to | quantities
    state     = ["no"] name ["only" | "required" | "not supported"]
    rank      = ["input"] [comparison] ND ["tensors" | "convolution" | "reductions"]
    alike     = "same" property ["of" operands], in any order: `inputs share one scale`

`words.toml` has the names. A phrase with one word more than that is not read: what is read must be what is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from npu_assay.conformance.predicates.grammar import PredicateError
from npu_assay.conformance.table.published.lexicon import BOTH, INPUTS, Lexicon, Quantity, State, Token
from npu_assay.conformance.table.published.relations import Unread, read_relation, relation
from npu_assay.conformance.table.published.vocabulary import words

LONGEST = 40  # tokens
NO, NOT = ("no", "without", "never"), ("not", "unsupported", "disallowed", "forbidden")
IF = ("if", "when", "for", "where", "between")
GIVEN = ("specified", "given", "provided", "set", "present")
INSISTING = {"only", "required", "requires", "require"}
ALLOWING = {"supported", "supports", "support", "allowed"}
CONVOLUTIONS = ("convolution", "convolutions", "conv", "convs")
TENSORS = ("tensor", "tensors", "input", "inputs")
ONLY = Token("word", "only")
Tokens = Sequence[Token]


def read_phrase(lexicon: Lexicon, text: str) -> str:
    """The predicate that a phrase says, "" where it is not read."""
    tokens = lexicon.tokens(text)
    if not tokens or len(tokens) > LONGEST:
        return ""
    try:
        found = _rule(lexicon, tokens)
        lexicon.truth(found or "False")
    except (PredicateError, Unread):
        return ""
    return found


def _rule(lexicon: Lexicon, tokens: Tokens) -> str:
    if tokens[-1].text == ")" and tokens[0].text != "(":  # a remark says the same again
        at = max(n for n, token in enumerate(tokens) if token.text == "(") if _has(tokens, "(") else 0
        said, again = (_rule(lexicon, tokens[:at]), _holding(lexicon, tokens[at + 1 : -1])) if at else ("", "")
        if again and again.replace("in_channels", "channels") in said.replace("in_channels", "channels").split(" or "):
            return said
    ways = (_simple, _conditional, _joined("and"), _joined("or"))
    return next(filter(None, (way(lexicon, tokens) for way in ways)), "")


def _has(tokens: Tokens, text: str) -> bool:
    return any(token.text == text for token in tokens)


def _joined(word: str) -> Callable[[Lexicon, Tokens], str]:
    """Simple phrases between which the word stands."""

    def read(lexicon: Lexicon, tokens: Tokens) -> str:
        for at, token in enumerate(tokens):
            if token.text == word and at:
                first, rest = _simple(lexicon, tokens[:at]), tokens[at + 1 :]
                others = _simple(lexicon, rest) or read(lexicon, rest) if first and rest else ""
                if others:
                    return f"{_group(first)} {word} {_group(others)}" if word == "and" else f"{first} or {others}"
        return ""

    return read


def _group(predicate: str) -> str:
    return f"({predicate})" if " or " in predicate else predicate


def _conditional(lexicon: Lexicon, tokens: Tokens) -> str:
    """`batch=1 for 2D conv`, `ceil_mode only for static shapes`, `for depthwise: kernel <= 3`."""
    for at, token in enumerate(tokens):
        if token.text not in IF or at == 0 == len(tokens) - 1:
            continue
        only = at > 0 and tokens[at - 1].text == "only"
        last = not only and at > 0 and tokens[-1].text == "only"  # ceil_mode for static shapes only
        for asked, told in _sides(tokens[: len(tokens) - last], at, only):
            only = only or last
            when, then = _holding(lexicon, asked), _unless(lexicon, told) if only else _simple(lexicon, told)
            if when and then and " and " not in when:  # of two directions one may be enough for a condition
                return f"{then} or {when}" if only else f"not ({when}) or {then}"
    return ""


def _sides(tokens: Tokens, at: int, only: bool) -> Iterator[tuple[Tokens, Tokens]]:
    if at - only > 0:
        yield tokens[at + 1 :], tokens[: at - only]
    elif not only:
        for end in range(at + 2, len(tokens)):
            if tokens[end].text in (",", ":"):
                yield tokens[at + 1 : end], tokens[end + 1 :]


def _holding(lexicon: Lexicon, tokens: Tokens) -> str:
    """A phrase of what is so, or the name of a state alone."""
    return _simple(lexicon, tokens) or _simple(lexicon, [*tokens, ONLY])


def _unless(lexicon: Lexicon, tokens: Tokens) -> str:
    """The contrary of a state, of which a condition follows."""
    state = _meant(tokens[0], "state", "flag") if len(tokens) == 1 else None
    return state.meaning.no if state is not None else ""


def _meant(token: Token, *kinds: str) -> Token | None:
    """The meaning of a kind that a known name has."""
    if token.kind != "known":
        return None
    return next((each for each in token.meaning if each.kind in kinds), None)


# ------------------------------------------------------------------------------------ simple phrases


def _simple(lexicon: Lexicon, tokens: Tokens) -> str:
    ways = (_state, _flag, _of_convolutions, _rank, _counted, _described, _alike)
    return next(filter(None, (way(lexicon, tokens) for way in ways)), "") if tokens else ""


def _bare(tokens: Tokens) -> tuple[Tokens, set[str], bool]:
    """A phrase without "only" and "required" at its ends; these; and whether it says no."""
    modes, said, no = set(words()["said"]["modes"]), set[str](), False
    tokens = list(tokens)
    while tokens and (tokens[0].text in (*modes, *NO) or tokens[-1].text in (*modes, *NOT)):
        token = tokens.pop(0 if tokens[0].text in (*modes, *NO) else -1)
        no = no != (token.text in (*NO, *NOT))
        said.add(token.text)
    if tokens and tokens[0].text == "not":
        tokens, no = tokens[1:], not no
    return ([], said, no) if no and said & INSISTING else (tokens, said, no)  # "not required" forbids nothing


def _state(lexicon: Lexicon, tokens: Tokens) -> str:
    tokens, said, no = _bare(tokens)
    given = len(tokens) == 2 and tokens[1].text in GIVEN
    if len(tokens) != 1 and not given:
        return ""
    argument = _meant(tokens[0], "argument")
    if argument is not None and argument.meaning is None and (no or given):
        return f"{argument.text} is {'' if no else 'not '}None"
    found = _meant(tokens[0], "state", "flag")
    if found is None or (given and not found.meaning.yes.endswith("None")):
        return ""
    state: State = found.meaning
    if no:
        return state.no
    return state.yes if said & INSISTING or given or (state.alone and not said) else ""


def _flag(lexicon: Lexicon, tokens: Tokens) -> str:
    """`keepdim=True`, `divisor_override=None`, `approximate = tanh`, `divisor_override = pooling region`."""
    tokens, said, no = _bare(tokens)
    if len(tokens) == 3 and _is_equal(tokens[1]):
        tokens = [tokens[0], tokens[2]]
    if len(tokens) != 2:
        return ""
    if "only" in said and not no and tokens[0].text in words()["texts"].get(tokens[1].text, ()):  # only reflect mode
        tokens = [tokens[1], tokens[0]]
    flag, argument, text = _meant(tokens[0], "flag"), _meant(tokens[0], "argument"), tokens[1].text
    if flag is not None and text in ("true", "false"):
        return str(flag.meaning.yes if (text == "true") != no else flag.meaning.no)
    if argument is None or no:
        return ""
    if argument.text in lexicon.texts:
        known = words()["texts"].get(argument.text, (text,))
        return f"{argument.text} == {text!r}" if tokens[1].kind == "word" and text in known else ""
    quantity = _meant(tokens[1], "quantity")
    if quantity is not None and quantity.meaning.features == (words()["defaults"].get(argument.text),):
        return f"{argument.text} is None or {argument.text} == {quantity.meaning.features[0]}"
    return f"{argument.text} is None" if text in ("none", "false") else ""


def _is_equal(token: Token) -> bool:
    meant = _meant(token, "compare")
    return meant is not None and meant.meaning == "=="


def _dimensions(tokens: Tokens) -> tuple[list[int], Tokens]:
    """`1D`, `1D or 2D`, `1D/2D` at the beginning, and the rest."""
    found, at = list[int](), 0
    while at < len(tokens) and tokens[at].kind == "nd":
        found.append(tokens[at].meaning)
        if at + 1 < len(tokens) and tokens[at + 1].text in ("or", "and", "/", ",") and tokens[at + 2 :][:1]:
            at += 2
            continue
        return found, tokens[at + 1 :]
    return [], tokens


def _of_convolutions(lexicon: Lexicon, tokens: Tokens) -> str:
    """`1D or 2D convolution`, `no transposed 1D conv`."""
    tokens, said, no = _bare(tokens)
    transposed = bool(tokens) and tokens[0].text == "transposed"
    counts, rest = _dimensions(tokens[1:] if transposed else tokens)
    if not counts or len(rest) != 1 or rest[0].text not in CONVOLUTIONS or (said & ALLOWING and not no):
        return ""
    ranks = _among("weight.rank", [str(count + 2) for count in counts], no)
    if not transposed:
        return ranks
    return f"not transposed or {ranks}" if no else f"transposed and {ranks}"


def _among(feature: str, numbers: Sequence[str], no: bool = False) -> str:
    if len(numbers) == 1:
        return f"{feature} {'!=' if no else '=='} {numbers[0]}"
    return f"{feature} {'not in' if no else 'in'} ({', '.join(numbers)})"


def _rank(lexicon: Lexicon, tokens: Tokens) -> str:
    """`4D tensors only`, `up to 5D`, `max 2D reductions`."""
    tokens, said, no = _bare(tokens)
    owner = _meant(tokens[0], "operand") if len(tokens) > 1 else None
    if owner is not None and owner.meaning == INPUTS:
        tokens, said = tokens[1:], {*said, owner.text}
    sign = _meant(tokens[0], "compare") if tokens else None
    counts, rest = _dimensions(tokens[1:] if sign is not None else tokens)
    noun = rest[0].text if rest else ""
    if (
        not counts
        or len(rest) > 1
        or noun not in ("", "reductions", *TENSORS)
        or (said & ALLOWING and "only" not in said and not no)
    ):
        return ""
    if max(counts) > 8 or (sign is not None and (no or len(counts) > 1)) or not (sign or noun or said):
        return ""
    feature = "len(reduced)" if noun == "reductions" else lexicon.ranks("").features[0]
    return relation(
        Quantity((feature,)), sign.meaning if sign else "!=" if no else "==", counts if len(counts) > 1 else counts[0]
    )


def _counted(lexicon: Lexicon, tokens: Tokens) -> str:
    bare, said, no = _bare(tokens)
    compared = any(_meant(token, "compare") and not _is_equal(token) for token in bare)
    if no or (said & ALLOWING and "only" not in said and not compared):  # others may be supported, too
        return ""
    return read_relation(lexicon, bare, "only" in said)


# ------------------------------------------------------------------------------------ operands


def _described(lexicon: Lexicon, tokens: Tokens) -> str:
    """`constant weights`, `divisor: static tensor or scalar value`, `bias must be constant`."""
    tokens, said, no = _bare(tokens)
    if len(tokens) < 2 or (said & ALLOWING and "only" not in said and not no):
        return ""
    noun = _meant(tokens[0], "operand")
    rest = tokens[1:] if noun is not None else tokens[:-1]
    noun = noun or _meant(tokens[-1], "operand")
    rest = rest[1:] if rest[0].text in ("-", ":") else rest
    found = [_meant(token, "adjective") for token in rest[::2]]
    joined = {token.text for token in rest[1::2]}
    if noun is None or None in found or len(joined) > 1 or joined - {"or", "and"} or len(rest) % 2 == 0:
        return ""
    said_of = [each.meaning[0] for each in found if each is not None]
    implied = {one for one in said_of if any(one.startswith(f"{other} and ") for other in said_of)}
    templates = [one for one in said_of if one not in implied or "or" not in joined]
    holds = f" {''.join(joined)} ".join(f"({each})" if len(templates) > 1 else each for each in templates)
    of_all = all(each.meaning[1] for each in found if each is not None)
    if no and len(templates) > 1:
        return ""
    return lexicon.described(noun.meaning, f"not ({holds})" if no else holds, of_all)


def _alike(lexicon: Lexicon, tokens: Tokens) -> str:
    """`all inputs share quantization parameters`, `input and output of the same shape`, `equal ranks`."""
    tokens, said, no = _bare(tokens)
    words_of: Mapping[str, Sequence[str]] = words()["said"]
    properties = [found for token in tokens if (found := _meant(token, "property")) is not None]
    groups = [found for token in tokens if (found := _meant(token, "operand")) is not None]
    same = [token for token in tokens if token.text in words_of["same"]]
    rest = [token for token in tokens if token.text in words_of["between"]]
    whole = len(properties) == len(same) == 1 and len(groups) <= 1 and len(rest) <= 2
    if not whole or len(tokens) != 2 + len(groups) + len(rest) or no or said & ALLOWING:
        return ""
    group = groups[0].meaning if groups else INPUTS
    return lexicon.alike(properties[0].meaning, group) if group in (INPUTS, BOTH) else ""
