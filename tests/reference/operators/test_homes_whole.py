"""Operators have one home: nothing is left out there without a reason, and no other list of operators is left."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from places import ROOT

from npu_assay.conformance.table import load_table
from npu_assay.reference.onnx_forms.site import FORMS
from npu_assay.reference.operators import FAMILIES, HOMES, WITH_CASES, Operator
from npu_assay.reference.operators.home import (
    BYTES,
    FIRST,
    FLOATING,
    GOLDENS,
    INDICES,
    INTEGERS,
    JOINED,
    REALS,
    SCHEMES,
    TOTAL,
    TRUTHS,
    UNNAMED,
    Codes,
    loaded,
)

ON_CODES = ("int8", "int16", "static_int8", "static_int8_per_channel")


def lacking(own: Operator) -> list[str]:
    """What a home does not say, in words."""
    found = []
    if own.schemes is None:
        found.append("integer goldens, or why there are none")
    else:
        for name in SCHEMES.values():
            golden = getattr(own.schemes, name)
            if isinstance(golden, str) and len(golden.split()) < 4:
                found.append(f"a reason why {name} has no integer golden")
    if bool(own.onnx) == bool(own.without_onnx):
        found.append("an ONNX form, or why there is none; not both")
    if own.onnx_in_part and not own.onnx:
        found.append("the ONNX form that computes a part")
    if own.dtype not in (JOINED, FIRST, TOTAL, FLOATING, BYTES) or own.result not in (REALS, TRUTHS, INDICES):
        found.append("the type of its result")
    return found


def named(own: Operator) -> Iterator[tuple[str, str]]:
    """Every function that a home names, and its package."""
    floats = [own.golden, own.rounding, own.terms, *(each.error_bound for each in on_codes(own))]
    yield from ((name, GOLDENS) for name in floats if isinstance(name, str) and name not in ("", "all"))
    integers = [own.exact_on_reals, own.dynamic, *(each.golden for each in on_codes(own))]
    yield from ((name, INTEGERS) for name in integers if name)
    if ":" in own.onnx:
        yield own.onnx, FORMS


def on_codes(own: Operator) -> list[Codes]:
    return [codes for scheme in SCHEMES if (codes := own.codes(scheme)) is not None]


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_home_is_whole(name: str) -> None:
    assert not lacking(HOMES[name])


def test_what_a_home_lacks_is_named() -> None:
    own = HOMES["aten.relu.default"]
    assert lacking(replace(own, schemes=None)) == ["integer goldens, or why there are none"]
    assert lacking(replace(own, onnx="")) == ["an ONNX form, or why there is none; not both"]
    assert lacking(replace(own, without_onnx="a reason")) == ["an ONNX form, or why there is none; not both"]
    assert lacking(replace(own, dtype="any")) == ["the type of its result"]
    assert own.schemes is not None
    shrugged = replace(own.schemes, tosa="none")
    assert lacking(replace(own, schemes=shrugged)) == ["a reason why tosa has no integer golden"]


@pytest.mark.parametrize("name", sorted(HOMES))
def test_everything_that_a_home_names_is_there(name: str) -> None:
    for function, package in named(HOMES[name]):
        assert callable(loaded(function, package, name)), function


def test_an_operator_is_in_one_family() -> None:
    assert len(HOMES) == sum(map(len, FAMILIES.values()))
    assert set(WITH_CASES) < set(HOMES)


@pytest.mark.parametrize("table", sorted(path.stem for path in (ROOT / "conformance" / "tables").glob("*.toml")))
def test_no_table_names_in_codes_what_a_home_says_that_none_does(table: str) -> None:
    """The reason `UNNAMED` is read from the tables: a new row may not leave its numbers to the float golden unseen."""
    read = load_table(table)
    for row in read.rows:
        own = HOMES.get(row.operator)
        if own is None or own.schemes is None or read.rescale not in SCHEMES:
            continue
        codes = not row.precisions or set(row.precisions) & set(ON_CODES)
        assert not codes or getattr(own.schemes, SCHEMES[read.rescale]) != UNNAMED, row.name


def test_what_stands_before_is_an_operator_with_codes() -> None:
    for own in HOMES.values():
        for scheme in SCHEMES:
            codes = own.codes(scheme)
            for before in codes.after if codes is not None else ():
                assert before == "any operator" or HOMES[before].codes(scheme) is not None, (own.name, before)


# ------------------------------------------------------------------------------------ other lists of operators

NAME = re.compile(r"(aten|dim_order_ops|quantized_decomposed)\.\w+\.\w+")


def tables(source: str) -> list[str]:
    """The module-level names that hold at least two operators, or make their names up."""
    found = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        texts = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
        names = {text for text in texts if isinstance(text, str) and NAME.fullmatch(text)}
        made = any(
            isinstance(each, ast.JoinedStr) and ast.unparse(each)[2:].startswith("aten.") for each in ast.walk(node)
        )
        if len(names) > 1 or made:
            found.append(ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target))
    return found


def listing(package: str) -> dict[str, list[str]]:
    found = {path: tables(path.read_text()) for path in sorted((ROOT / package).rglob("*.py"))}
    return {path.relative_to(ROOT).as_posix(): names for path, names in found.items() if names}


def test_the_walk_finds_lists_of_operators() -> None:
    assert tables('A = ("aten.relu.default", "aten.tanh.default")') == ["A"]
    assert tables('B: dict = {f"aten.{name}.Tensor": 1 for name in "eq ne"}') == ["B"]
    assert tables('C = "aten.relu.default"\ndef f(): return ("aten.relu.default", "aten.tanh.default")') == []


def test_the_reference_lists_operators_in_their_homes_alone() -> None:
    assert {path for path in listing("reference") if not path.startswith("reference/operators/")} == set()


def test_an_operator_stands_in_one_file_of_the_reference() -> None:
    found = [path for path in (ROOT / "reference").rglob("*.py") if "aten.relu.default" in path.read_text()]
    assert [path.relative_to(ROOT).as_posix() for path in found] == ["reference/operators/activation.py"]


def test_the_suite_lists_operators_in_no_more_places() -> None:
    """What is left: hand-written cases, how programs and files spell operators, holes of coverage with reasons."""
    assert sum(map(len, listing("conformance").values())) <= LISTS


LISTS = 56
"""Tables of operators in `conformance`; to be lowered with each that goes."""
