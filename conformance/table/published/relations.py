"""Quantities and their values: `kernel <= 3x3`, `height and width in 1-64`, `1x1 kernels`, `stride <= kernel_size`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from npu_assay.conformance.table.published.lexicon import UNITS, Lexicon, Quantity, Token

Tokens = Sequence[Token]
BRACKETS = {"(": ")", "[": "]", "{": "}"}
MIRRORED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
BETWEEN = (",", "or", "/")
PARITIES = {"even": ("multiple", 2), "odd": ("odd", 2), "positive": (">", 0), "nonnegative": (">=", 0)}
Value = Any
"""A number, a tuple of numbers for the directions, a quantity, `range` of two numbers, or a list of these."""


class Unread(Exception):
    """The tokens are no relation of this form."""


def read_relation(lexicon: Lexicon, tokens: Tokens, only: bool) -> str:
    """The predicate of a relation, "" where the tokens are something else. `only`: the phrase says so."""
    for form, choice in itertools.product((_subject_first, _value_first, _between), (0, 1)):
        try:
            return form(_Reader(lexicon, tokens, choice), only)
        except Unread:
            continue
    return ""


def _subject_first(reader: _Reader, only: bool) -> str:
    subject = reader.subject()
    if subject.is_last:
        raise Unread
    parts = [reader.compared(subject)]
    while reader.take("and"):
        parts.append(reader.compared(subject, needs_sign=True))
    reader.end()
    return " and ".join(f"({part})" if " or " in part and len(parts) > 1 else part for part in parts)


def _value_first(reader: _Reader, only: bool) -> str:
    """`at most 4 inputs`, `3x3 kernels only`, `even height`, `max kernel 3x3`."""
    sign = reader.signs()
    if sign and reader.is_quantity():  # max kernel [=] 3x3
        subject = reader.subject()
        reader.signs()
        value = reader.value(subject)
    else:
        parity = reader.parity()
        value = [] if parity else reader.value(None)
        subject = reader.subject()
        if parity is not None:
            reader.end()
            return relation(subject, *parity)
        sign = sign or reader.signs()  # 64 channels max
        if not sign and not only and not isinstance(value, tuple):
            raise Unread
    reader.end()
    return relation(subject, sign or "==", value)


def _between(reader: _Reader, only: bool) -> str:
    """`1 <= kernel <= 8`."""
    low, first = reader.number(), reader.signs()
    subject, second = reader.subject(), reader.signs()
    high = reader.value(subject)
    reader.end()
    if first not in MIRRORED or second not in MIRRORED:
        raise Unread
    return f"{relation(subject, MIRRORED[first], low)} and {relation(subject, second, high)}"


class _Reader:
    """Takes a relation's parts from left to right; raises Unread for anything else."""

    def __init__(self, lexicon: Lexicon, tokens: Tokens, choice: int) -> None:
        """`choice`: which meaning is taken of names that have two."""
        self.lexicon, self.tokens, self.choice, self.at = lexicon, tokens, choice, 0

    def next(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else Token("end", "")

    def take(self, *texts: str) -> bool:
        if self.next().text not in texts or self.next().kind == "end":
            return False
        self.at += 1
        return True

    def end(self) -> None:
        if self.next().kind != "end":
            raise Unread

    def meant(self, kind: str, ahead: int = 0) -> Any:
        token = self.next(ahead)
        found = [each.meaning for each in token.meaning if each.kind == kind] if token.kind == "known" else []
        return found[min(self.choice, len(found) - 1)] if found else None

    def is_quantity(self) -> bool:
        return self.meant("quantity") is not None

    # -------------------------------------------------------------------------------- quantities

    def subject(self) -> Quantity:
        """One quantity, several with "and" between them, a product of two, or elements divided by something."""
        found = self._quantity()
        while self.meant("quantity", 1) is not None and self.next().text in ("and", ",", "&", "*", "x", "/"):
            sign = self.next().text
            self.at += 1
            more = self._quantity()
            found = _combined(found, "*" if sign == "x" else sign, more)
        return found

    def _quantity(self) -> Quantity:
        found: Quantity | None = self.meant("quantity")
        if found is None:
            raise Unread
        self.at += 1
        return found

    # -------------------------------------------------------------------------------- comparisons and values

    def signs(self) -> str:
        """A comparison, in however many words; "" without one."""
        found = ""
        self.take("of")
        while (sign := self.meant("compare")) is not None:
            if found not in ("", "==", sign) and sign != "==":
                raise Unread
            found = sign if found in ("", "==") else found
            self.at += 1
        return found

    def parity(self) -> tuple[str, int] | None:
        """The comparison that an adjective is."""
        return PARITIES[self.tokens[self.at - 1].text] if self.take(*PARITIES) else None

    def compared(self, subject: Quantity, needs_sign: bool = False) -> str:
        """What stands after the quantities."""
        if self.take("%", "mod", "modulo"):
            divisor = self.number()
            if self.signs() != "==" or self.number() != 0:
                raise Unread
            return relation(subject, "multiple", divisor)
        sign = self.signs()
        parity = ("==", 0) if self.take("zero") else self.parity()
        if parity is not None and sign in ("", "=="):
            return relation(subject, *parity)
        if not sign and (needs_sign or self.is_quantity()):  # "channel axis" compares nothing
            raise Unread
        value = self.value(subject, sign == "range")
        if isinstance(value, Quantity) and value.is_axis and not subject.is_axis:
            raise Unread
        if isinstance(value, Quantity) and sign == "==" and self.signs() == "==":  # height = width = 2 or 4
            return f"{relation(subject, sign, value)} and {relation(subject, sign, self.value(subject))}"
        after = self.signs()
        if after and (sign not in ("", "==") or after not in ("<=", ">=")):
            raise Unread
        return relation(subject, after or sign or "==", value)

    def value(self, subject: Quantity | None, is_range: bool = False) -> Value:
        if subject is not None and self.is_quantity():
            return self.subject()
        opened = is_range and self.take("[")
        found = [self._one(subject)]
        if self.take("-", "to", "..", *(("and", ",") if is_range else ())):
            first, last = found[0], self._one(subject)
            if opened != self.take("]"):
                raise Unread
            return range(first, last + 1) if type(first) is type(last) is int and first < last else self._refuse()
        while self.next(1).kind != "end" and self.take(*BETWEEN):
            self.take("or")
            found.append(self._one(subject))
        return found if len(found) > 1 else found[0]

    def _refuse(self) -> Value:
        raise Unread

    def _one(self, subject: Quantity | None) -> Value:
        token = self.next()
        if token.kind == "pair":
            self.at += 1
            return token.meaning
        if token.text in BRACKETS:
            return self._bracketed(subject, BRACKETS[token.text])
        number = self.number()
        unit = UNITS.get(self.next().text)
        if subject is None or subject.needs_unit != (unit is not None):
            if subject is None and unit is None:
                return number
            raise Unread
        self.at += unit is not None
        return number * (unit or 1)

    def _bracketed(self, subject: Quantity | None, end: str) -> Value:
        """A list of axes, a set in braces; two numbers in other brackets may be a set or a range."""
        self.at += 1
        found = [self.number()]
        while self.take(",", "or"):
            found.append(self.number())
        if not self.take(end):
            raise Unread
        if subject is not None and subject.is_axis:
            return tuple(found)
        if end != "}" and len(found) == 2:
            raise Unread
        return found

    def number(self) -> Any:
        sign = -1 if self.take("-") else 1
        if self.next().kind not in ("number", "thousands"):
            raise Unread
        self.at += 1
        return sign * self.tokens[self.at - 1].meaning


def _combined(first: Quantity, sign: str, second: Quantity) -> Quantity:
    if sign in ("and", ",", "&"):
        if first.is_axis or second.is_axis or first.needs_unit != second.needs_unit:
            raise Unread
        return replace(first, features=(*first.features, *second.features), most=max(first.most, second.most))
    if len(first.features) > 1 or len(second.features) > 1 or (sign == "/" and "elements" not in first.features[0]):
        raise Unread  # "height / width" may be both of them
    return Quantity((f"{first.features[0]} {sign} {second.features[0]}",))


# ------------------------------------------------------------------------------------ predicates


def relation(subject: Quantity, sign: str, value: Value) -> str:
    """Quantities compared with a value, as a predicate. Raises Unread for what cannot be compared."""
    if subject.is_axis:
        return _of_axis(subject.features[0], sign, value)
    if (sign == "range" and not isinstance(value, range)) or (sign == "!=" and len(subject.features) > 1):
        raise Unread
    pairs = [isinstance(each, tuple) for each in (value if isinstance(value, list) else [value])]
    if subject.pairs_only and not all(pairs):
        raise Unread
    numbers = list(_numbers(value))
    if any(type(n) is int and not -subject.most <= n <= subject.most for n in numbers):
        raise Unread
    if isinstance(value, list) and any(pairs):
        return _of_pairs(subject, sign, value)
    parts = [_compared(feature, sign, own) for feature, own in _each(subject, value)]
    whole = " and ".join(parts)
    if whole.startswith(("size ", "(size")):
        return f"all({whole} for size in x.shape)"
    return f"all({whole} for t in operands)" if "t." in whole and whole.startswith("t.") else whole


def _numbers(value: Value) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int | float):
        yield value


def _each(subject: Quantity, value: Value) -> Iterator[tuple[str, Value]]:
    """Each feature and its own value: one for all, or one for each direction."""
    own = value.features if isinstance(value, Quantity) else value
    if not isinstance(own, tuple):
        yield from ((feature, own) for feature in subject.features)
        return
    own = own * len(subject.features) if len(own) == 1 else own
    if len(own) != len(subject.features):
        raise Unread
    yield from zip(subject.features, own, strict=True)


def _compared(feature: str, sign: str, value: Value) -> str:
    if isinstance(value, range):
        if sign not in ("", "==", "range"):
            raise Unread
        return f"{feature} >= {value[0]} and {feature} <= {value[-1]}"
    if sign in ("multiple", "odd"):
        if type(value) is not int or value < 1:
            raise Unread
        base = f"({feature})" if " " in feature else feature
        return f"{base} % {value} == {int(sign == 'odd')}"
    if isinstance(value, list):
        if sign not in ("==", "!="):
            raise Unread
        numbers = sorted(dict.fromkeys(value))
        if len(numbers) == 1:
            return f"{feature} {sign} {numbers[0]}"
        return f"{feature} {'in' if sign == '==' else 'not in'} ({', '.join(map(str, numbers))})"
    return f"{feature} {sign} {value}"


def _of_pairs(subject: Quantity, sign: str, value: Sequence[Value]) -> str:
    """`3x3 or 5x5`; a number beside them stands for all directions."""
    count = len(subject.features)
    pairs = [each if isinstance(each, tuple) else (each,) * count for each in value]
    if sign not in ("==", "!=") or count < 2 or any(len(each) != count for each in pairs):
        raise Unread
    return f"({', '.join(subject.features)}) {'in' if sign == '==' else 'not in'} ({', '.join(map(str, pairs))})"


def _of_axis(feature: str, sign: str, value: Value) -> str:
    """An axis counts from the front where it is not negative, else from the back."""
    values = value if isinstance(value, list) else [value]
    if not list(_numbers(values)):
        raise Unread
    if sign != "==" or any(type(n) is not int or not -8 <= n <= 8 for n in _numbers(values)):
        raise Unread
    if feature == "dim":
        axes = [_axis(n) for n in _numbers(values)]
        return f"dim == {axes[0]}" if len(axes) == 1 else f"dim in ({', '.join(axes)})"
    listed = {tuple(sorted(each if isinstance(each, tuple) else (each,))) for each in values}
    if any(min(each) < 0 <= max(each) for each in listed):
        raise Unread
    return " or ".join(map(_reduced, sorted(listed)))


def _reduced(axes: Sequence[int]) -> str:
    """Neighboring axes, which the first and the last of them tell."""
    if list(axes) != list(range(axes[0], axes[-1] + 1)):
        raise Unread
    first, last = f"min(reduced) == {_axis(axes[0])}", f"max(reduced) == {_axis(axes[-1])}"
    return first if axes[0] == -1 else last if axes[-1] == 0 else f"{first} and {last}"


def _axis(number: int) -> str:
    return f"x.rank - {-number}" if number < 0 else str(number)
