"""The text of an explanation: what a loop repeats stands once, with how often."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from npu_assay.conformance.explain.record import Cause, Comparison, Explained, Explanation, Layer, Operator, Reason
from npu_assay.conformance.explain.summary import summary_rows
from npu_assay.conformance.explain.text import layer_lines, print_explanation

STEPS = 20
WHY = Reason("unsupported", "aten.slice", "the operator is not in the support table")


def unrolled() -> Explanation:
    """An LSTM of 20 steps: each a slice, which is left out, and a product, which is delegated; and one more."""
    slices = [_step(f"slice_{n}", "aten.slice_copy.Tensor", None) for n in range(STEPS)]
    products = [_step(f"mm_{n}", "aten.mm.default", 3 + n) for n in range(STEPS)]
    other = _step("cat", "aten.cat.default", None)
    roots, follows = tuple(one.name for one in slices), ("cat",)
    cause = Cause(WHY.code, WHY.found, WHY.sentence, roots, follows, 0, 0)
    operators = (*slices, *products, other)
    return Explanation("net.pt2", (Explained("npu", False, operators, (cause,), (), None, None, ()),))


def _step(name: str, operator: str, delegate: int | None) -> Operator:
    reasons, cause = ((WHY,), 0) if delegate is None else ((), None)
    return Operator(
        name, operator, "lstm", "LSTM", "net.py:26", "y", (), (1, 8), "float32", 0, 0, delegate, reasons, cause
    )


def test_layers_that_lose_much_are_listed_without_a_cure() -> None:
    """The first five of eight below 30 dB, whose error is hardly seen in the results; one above is not among them."""
    poor = [_layer(f"mul_{n}", own=20.0 + n) for n in range(8)]
    found = list(layer_lines([*poor, _layer("fine", own=40.0)]))
    assert found[0] == "error that is hardly seen in the results (there, and by itself):"
    assert [line.split(" dB  ")[0] for line in found[1:6]] == [f"  80.0 dB, {20 + n}.0" for n in range(5)]
    assert found[6:] == ["  ... and 3 layers more, see explain.html or explain.json"]
    assert len(list(layer_lines(poor[:5]))) == 6


def _layer(name: str, own: float) -> Layer:
    return Layer(name, "aten.mul.Tensor", "gru", "GRU", "net.py:5", "y", (), 80.0, own, 0, 0.0, False, ())


def test_what_is_lost_is_told_of_classes_too() -> None:
    """Two backends: of one 3 of 4 rows have their largest element at the same index; the other has not run."""
    one = unrolled().backends[0]
    heavy = replace(one, operators=(replace(one.operators[0], macs=3000), replace(one.operators[STEPS], macs=1000)))
    ran = replace(heavy, numbers=(Comparison("device", "float", 20.0, 0.9, 1.0, 0.75),))
    rows = list(summary_rows(Explanation("net.pt2", (ran, one))))
    assert ("multiply-accumulates", "25.0 % of 4,000", "none") in rows
    assert rows[-2:] == [("device against float", "20.0 dB", "-"), ("same argmax", "75.0 %", "-")]
    image = replace(ran, numbers=(replace(ran.numbers[0], argmax=None),))
    assert "same argmax" not in {row[0] for row in summary_rows(Explanation("net.pt2", (image,)))}


def test_repeated_operators_stand_once() -> None:
    console = Console(file=StringIO(), width=200)
    print_explanation(console, unrolled())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [line for line in text.splitlines() if "aten.slice_copy.Tensor" in line]
    assert len(lines) == 2, text  # under its cause, and in its module
    assert all(line.endswith("(20 times)") for line in lines), lines
    assert "aten.mm.default 1x8  delegates 3 to 22 (20 times)" in text
    assert "... and" not in text
    (cat,) = (line for line in text.splitlines() if "aten.cat.default" in line)
    assert "times" not in cat
