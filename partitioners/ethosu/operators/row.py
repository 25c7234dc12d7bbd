"""What the Ethos-U backend knows about one operator, in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, Flag, auto

from torch import fx

from npu_assay.partitioners.ethosu.lowering.operation import Lower
from npu_assay.partitioners.ethosu.rewriting.writer import Rewrite
from npu_assay.partitioners.ethosu.support.rescale import Scalings, moved
from npu_assay.partitioners.ethosu.support.rule import Rule
from npu_assay.partitioners.ethosu.traits import Traits


class Annotation(Enum):
    """How the quantizer treats an operator of an exported program."""

    SHARED = auto()
    """It picks, moves, clamps or compares: connected ones have one set of parameters."""
    FREE = auto()
    """Operands and result have parameters of their own."""
    FILLED = auto()
    """The same, where its number is none that observers fail at."""
    ARITHMETIC = auto()
    """The same, where all operands are real numbers."""
    COMPARISON = auto()
    """The second operand has the parameters of the first."""
    PRODUCT = auto()
    """It has stored weights and biases, and takes a norm and an activation along."""
    NORM = auto()
    """It can be part of a product; only its first operand is quantized."""
    POOL = auto()
    """The result has the parameters of the first operand."""
    CAST = auto()
    """The same, between integers, or to real numbers."""


class Kept(Flag):
    """When an operator is not decomposed on the way to the edge dialect."""

    NEVER = 0
    """It is requested, as 1.5.1 does, and decomposed all the same."""
    QUANTIZED = auto()
    """Between dequantize and quantize nodes."""
    INTEGER = auto()
    """Where it gives integers, or is turned into some."""
    ALWAYS = auto()


@dataclass(frozen=True)
class Row(Traits):
    """One operator, by its name in the edge dialect, or in exported programs if it does not reach that.

    rules: the NPU's limits on one node, in order; None for an operator that it does not have. first: rules that must
    hold before the others can be checked. on_u55: whether Ethos-U55 and Ethos-U65 have it. scalings: the values that it
    rescales. lower: writes it to the graph.
    annotation: what the quantizer does with it, and with `others`, its other names in exported programs.
    rewrite: replaces it before it is observed; without an annotation, whether or not it is quantized.
    is_harmless: whether it can be removed if its result is not read, although torch counts it as impure. domain: the
    largest operand in 8 and in 16 bits. kept: when it is not decomposed on the way to the edge dialect; None if that is
    not requested, as for Ethos-U55 without kept_on_u55. vanishes: whether it compiles to nothing.
    The kernels of the device are rows of the TOSA operators that `lower` writes, see `device/operators.py`.
    """

    rules: tuple[Rule, ...] | None = None
    scalings: Scalings | None = None
    lower: Lower | None = None
    annotation: Annotation | None = None
    others: str = ""
    rewrite: Rewrite | None = None
    on_u55: bool = True
    kept: Kept | None = None
    kept_on_u55: bool = True
    first: tuple[Rule, ...] = ()
    domain: tuple[float, float] | None = None
    is_harmless: bool = False
    vanishes: Callable[[fx.Node], bool] | None = None


def named(text: str) -> tuple[str, ...]:
    """ATen operators of a text of `name` (overload `default`) and `name.overload`."""
    return tuple(f"aten.{word}" if "." in word else f"aten.{word}.default" for word in text.split())


def rows(text: str, row: Row) -> Mapping[str, Row]:
    """The same row for several operators of a text as `named` reads it."""
    return dict.fromkeys(named(text), row)


def picking(
    lower: Lower,
    *rules: Rule,
    others: str = "",
    annotation: Annotation | None = Annotation.SHARED,
    rewrite: Rewrite | None = None,
    on_u55: bool = True,
    kept: Kept | None = None,
) -> Row:
    """An operator whose result holds nothing but codes of its operands, rescaled where the result has others."""
    return Row(rules, moved, lower, annotation, others, rewrite, on_u55=on_u55, kept=kept)


def moving(
    lower: Lower,
    *rules: Rule,
    others: str = "",
    annotation: Annotation | None = Annotation.SHARED,
    vanishes: Callable[[fx.Node], bool] | None = None,
) -> Row:
    """An operator that moves the elements of one tensor."""
    return replace(picking(lower, *rules, others=others, annotation=annotation), moves=True, vanishes=vanishes)
