"""The text of an explanation: the answer first, few lines, what a loop or many tensors repeat once, with how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npu_assay.conformance.explain.record import (
    Cause,
    Comparison,
    Explained,
    Explanation,
    Gain,
    Layer,
    Operator,
    Reason,
)
from npu_assay.conformance.explain.summary import summary_rows
from npu_assay.conformance.explain.text import WIDTH, explanation_lines
from npu_assay.conformance.explain.view import answer, cause_lines, worth_a_word

STEPS = 20
WHY = Reason("unsupported", "aten.slice", "the operator is not in the support table")


def unrolled() -> Explanation:
    """An LSTM of 20 steps: each a slice, which is left out, and a product, which is delegated; and one more."""
    slices = [_step(f"slice_{n}", "aten.slice_copy.Tensor", None) for n in range(STEPS)]
    products = [_step(f"mm_{n}", "aten.mm.default", 3 + n) for n in range(STEPS)]
    other = _step("cat", "aten.cat.default", None)
    roots, follows = tuple(one.name for one in slices), ("cat",)
    gain = Gain(STEPS + 1, 0)
    cause = Cause(WHY.code, WHY.found, WHY.sentence, "slice", STEPS, roots, follows, 0, 0, (), gain, gain)
    operators = (*slices, *products, other)
    return Explanation("net.pt2", (Explained("npu", False, operators, (cause,), (), None, None, ()),))


def _step(name: str, operator: str, delegate: int | None) -> Operator:
    reasons, cause = ((WHY,), 0) if delegate is None else ((), None)
    return Operator(
        name, operator, "lstm", "LSTM", "net.py:26", "y", (), (1, 8), "float32", 0, 0, delegate, reasons, cause
    )


def _layer(name: str, own: float) -> Layer:
    return Layer(name, "aten.mul.Tensor", "gru", "GRU", "net.py:5", "y", (), 80.0, own, 0, 0.0, False, ())


def test_layers_that_lose_much_are_worth_a_word_without_a_cure() -> None:
    """Of nine, whose error is hardly seen in the results, the eight below 30 dB; the screen has the first two."""
    poor = [_layer(f"mul_{n}", own=20.0 + n) for n in range(8)]
    assert worth_a_word([*poor, _layer("fine", own=40.0)]) == ([], poor)
    one = replace(unrolled().backends[0], layers=tuple(poor))
    lines = explanation_lines(Explanation("net.pt2", (one,)))
    at = lines.index("  error that is hardly seen in the results (there, and by itself):")
    assert [line.split(" dB  ")[0] for line in lines[at + 1 : at + 3]] == ["    80.0 dB, 20.0", "    80.0 dB, 21.0"]
    assert lines[at + 3] == "    ... and 6 layers more: -v lists all"
    assert len([line for line in explanation_lines(Explanation("net.pt2", (one,)), verbose=True) if "GRU" in line]) == 8


def test_what_is_lost_is_told_of_classes_too() -> None:
    """Two backends: of one 3 of 4 rows have their largest element at the same index; the other has not run."""
    one = unrolled().backends[0]
    heavy = replace(one, operators=(replace(one.operators[0], macs=3000), replace(one.operators[STEPS], macs=1000)))
    ran = replace(heavy, numbers=(Comparison("device", "float", 20.0, 0.9, 1.0, 0.75),))
    rows = list(summary_rows(Explanation("net.pt2", (ran, one))))
    assert ("multiply-accumulates", "25.0 % of 4,000", "none") in rows
    assert rows[-2:] == [("device against float", "20.0 dB", "-"), ("same argmax, device and float", "75.0 %", "-")]
    image = replace(ran, numbers=(replace(ran.numbers[0], argmax=None),))
    assert not any("argmax" in row[0] for row in summary_rows(Explanation("net.pt2", (image,))))


def test_rows_have_names_of_their_own() -> None:
    pairs = (("device", "quantized"), ("device", "float"), ("quantized", "float"))
    numbers = tuple(Comparison(*pair, 20.0, 0.9, 1.0, 0.75) for pair in pairs)
    names = [row[0] for row in summary_rows(Explanation("x", (replace(unrolled().backends[0], numbers=numbers),)))]
    assert len(names) == len(set(names)) == 7 + 2 * len(pairs)


def test_repeated_operators_stand_once() -> None:
    text = "\n".join(explanation_lines(unrolled(), verbose=True))
    lines = [line for line in text.splitlines() if "aten.slice_copy.Tensor" in line]
    assert len(lines) == 2, text  # under its cause, and in its module
    assert all(line.endswith("(20 times)") for line in lines), lines
    assert "aten.mm.default 1x8  delegates 3 to 22 (20 times)" in text
    assert "... and" not in text
    (cat,) = (line for line in text.splitlines() if "aten.cat.default" in line)
    assert "times" not in cat


# ------------------------------------------------------------------------------------ the answer, and its length


def crowded(backends: int, causes: int, warnings: int) -> Explanation:
    """Backends with as many causes, each with everything that can be said of one, and as many warnings."""
    one = unrolled().backends[0]
    (plain,) = one.causes
    also = tuple(Reason(f"code_{n}", "found " * 9, "a rule") for n in range(5))
    full = replace(plain, also=also, hint="do this " * 20, sentence="the rule in words " * 5)
    told = tuple(f"warning {n}: {'words ' * 30}" for n in range(warnings))
    layers = tuple(_layer(f"mul_{n}", own=20.0) for n in range(9))
    numbers = tuple(Comparison(a, b, 9.0, 0.9, 1.0, 0.5) for a, b in (("device", "float"), ("quantized", "float")))
    made = replace(one, causes=(full,) * causes, warnings=told, layers=layers, numbers=numbers)
    return Explanation("net.pt2", tuple(replace(made, backend=f"npu-{n}") for n in range(backends)))


@pytest.mark.parametrize(("backends", "most"), [(1, 60), (2, 60), (3, 60), (5, 79)])
@pytest.mark.parametrize(("causes", "warnings"), [(0, 0), (1, 0), (30, 0), (30, 500)])
def test_it_fits_and_the_answers_come_first(backends: int, most: int, causes: int, warnings: int) -> None:
    found = crowded(backends, causes, warnings)
    lines = explanation_lines(found)
    assert len(lines) <= most and max(map(len, lines)) <= WIDTH
    firsts = [next(n for n, line in enumerate(lines) if line.startswith(f"npu-{k}: ")) for k in range(backends)]
    warned = [n for n, line in enumerate(lines) if "warning" in line]
    blank = lines.index("")
    assert lines[0] == "net.pt2" and firsts[0] == 1 and max(firsts) < blank and all(n > blank for n in warned)
    assert bool(warned) == bool(warnings) and len(explanation_lines(found, verbose=True)) >= len(lines)


def test_a_warning_of_several_backends_stands_once() -> None:
    text = " ".join(explanation_lines(crowded(3, 0, 1)))
    assert text.count("warning 0: ") == 1 and "npu-0, npu-1, npu-2: warning: warning 0: words" in text


def test_what_a_share_costs_is_said() -> None:
    """The answer of a backend that takes all products has its delegates, their bytes, and the operators between."""
    one = replace(unrolled().backends[0], backend="npu")
    line, first = answer(one)
    assert line == "npu: 48.8 % of 41 operators in 0 delegates; 21 of 41 operators on the CPU, 0 bytes over borders"
    assert first.startswith("  first cause: slice (20 times) (lstm): unsupported: ")


def test_gains_stand_alone_and_together() -> None:
    one = unrolled().backends[0]
    (cause,) = one.causes
    nothing = replace(cause, alone=Gain(0, 0), together=Gain(21, 7))
    one = replace(one, causes=(replace(cause, alone=Gain(2, 0)), nothing))
    costs = "costs 21 operators, 0 bytes over borders; mended alone: "
    assert f"{costs}2 operators more" in cause_lines(1, one)
    gained = "21 operators and 7 multiply-accumulates more, so all"
    assert f"{costs}nothing more is delegated, as other reasons stay; with 1: {gained}" in cause_lines(2, one)
