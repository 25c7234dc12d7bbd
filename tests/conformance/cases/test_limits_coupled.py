"""Limits that couple arguments, on the program around, on dtypes, and lists: what is asked, or said not to be."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.limits import LimitError
from npu_assay.conformance.cli import main
from npu_assay.conformance.programs.build import build, materialise
from npu_assay.conformance.programs.graph import Graph, Ref, Step
from npu_assay.conformance.table import load_table
from tests.conformance.cases.test_asked_limits import TABLE, arguments, generated, in_channels, subject, value, weight

Holds = Callable[[Graph], bool]
CONVOLUTION, POOL, INDICES = "convolution.default", "max_pool2d.default", "max_pool2d_with_indices.default"
KERNELS = {(2, 2, 2, 2), (3, 3, 2, 2), (3, 3, 1, 1)}


def two(listed: Any) -> tuple[int, int]:
    """A list of two, or one number for both."""
    found = tuple(listed) if isinstance(listed, tuple) else (listed,)
    return found * 2 if len(found) == 1 else found


def windows(graph: Graph) -> tuple[int, int, int, int]:
    """Kernel and strides of a pool."""
    given = arguments(graph)
    return (*two(given["kernel_size"]), *two(given.get("stride") or given["kernel_size"]))


def is_image(graph: Graph) -> bool:
    return len(weight(graph).shape) == 4


def from_input(graph: Graph) -> bool:
    """The first operand is one of the model's inputs."""
    first = subject(graph).args[0].name
    return any(v.name == first and not v.constant for v in graph.values)


def after(graph: Graph) -> set[str]:
    """The operators behind a result that has no codes of its own."""
    found, waiting = set[str](), [subject(graph)]
    while waiting:
        step = waiting.pop()
        takers = [s for s in graph.steps if Ref(step.name) in s.args] if step.quant is None else []
        found |= {taker.op for taker in takers}
        waiting += takers
    return found


def joined(graph: Graph) -> int:
    """How many other operators there are, all of which are quantized and make numbers."""
    return len(graph.steps) - 1


def taken(graph: Graph) -> tuple[int, ...]:
    """The results of the subject that the model returns or something takes."""
    refs = [*graph.outputs, *(a for s in graph.steps for a in s.args if isinstance(a, Ref))]
    return tuple(sorted({ref.index for ref in refs if ref.name == subject(graph).name}))


def zeros(graph: Graph) -> bool:
    """A constant operand that is zero everywhere."""
    names = {ref.name for ref in subject(graph).args if isinstance(ref, Ref)}
    constants = [v for v in graph.values if v.constant and v.name in names]
    return any(bool((materialise(v) == (v.quant.zero_point if v.quant else 0)).all()) for v in constants)


def grown(graph: Graph) -> int:
    """The dimensions in which a result is larger than its operand."""
    before = next(v.shape for v in graph.values if v.name == subject(graph).args[0].name)
    node = next(
        n for n in build(graph).graph.nodes if n.meta.get("step") == "subject" and "quantize" not in str(n.target)
    )
    made = tuple(node.meta["val"].shape)
    aligned = (*(1,) * (len(made) - len(before)), *before)
    return sum(a > b for a, b in zip(made, aligned, strict=True))


COUPLED: dict[str, tuple[str, str, Holds]] = {
    "a stride that one kernel alone has": (
        CONVOLUTION, "x.rank != 4 or stride_h != 4 or (kernel_h, kernel_w) == (11, 11)",
        lambda g: not is_image(g) or two(arguments(g)["stride"])[0] != 4 or weight(g).shape[2:] == (11, 11),
    ),
    "a list of windows and strides": (
        POOL, "(kernel_h, kernel_w, stride_h, stride_w) in ((2, 2, 2, 2), (3, 3, 2, 2), (3, 3, 1, 1))",
        lambda g: windows(g) in KERNELS,
    ),
    "no bias where the convolution is transposed": (
        CONVOLUTION, "not transposed or bias is None",
        lambda g: not arguments(g)["transposed"] or arguments(g)["bias"] is None,
    ),
    "channels of the first layer": (
        CONVOLUTION, "not x.is_input or in_channels in (1, 3, 4)",
        lambda g: not from_input(g) or in_channels(g) in (1, 3, 4),
    ),
    "no first layer": ("tanh.default", "not x.is_input", lambda g: not from_input(g)),
    "no activation that is fused": (
        CONVOLUTION, "'aten.relu.default' not in downstream", lambda g: "aten.relu.default" not in after(g),
    ),
    "nothing unquantized before it": (
        "tanh.default", "len(upstream) == 0",
        lambda g: all(s.quant is not None for s in g.steps if s.name != "subject"),
    ),
    "few operators in a chain": ("tanh.default", "companions <= 3", lambda g: joined(g) <= 3),
    "indices that nothing reads": (INDICES, "used == (0,)", lambda g: taken(g) == (0,)),
    "a window of 2**18": (
        "avg_pool2d.default", "kernel_h * kernel_w <= 262144",
        lambda g: math.prod(two(arguments(g)["kernel_size"])) <= 2**18,
    ),
    "no constant of zeros": (
        "maximum.default", "(not x.is_constant or x.only_number != 0) and (not y.is_constant or y.only_number != 0)",
        lambda g: not zeros(g),
    ),
    "one axis at most is expanded": ("expand_copy.default", "len(expanded) <= 1", lambda g: grown(g) <= 1),
    "one constant at most among several": (
        "cat.default", "count(t.is_constant for t in tensors) <= 1",
        lambda g: sum(value(g, ref.name).constant for ref in arguments(g)["tensors"]) <= 1,
    ),
    "two axes that are reduced together": (
        "mean.dim", "reduced == (2, 3) and keepdim",
        lambda g: {dim % 4 for dim in arguments(g)["dim"]} == {2, 3} and bool(arguments(g).get("keepdim")),
    ),
    "a number that is filled in": (
        "constant_pad_nd.default", "fill_value == 0", lambda g: arguments(g).get("value", 0) == 0,
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", COUPLED)
def test_both_sides_of_what_is_coupled_or_around(name: str, tmp_path: Path) -> None:
    op, text, holds = COUPLED[name]
    found = [case for case in generated(op, text, tmp_path) if case.constraint == "asked"]
    accepted = [case for case in found if case.expect == "accept"]
    refused = [case for case in found if case.expect == "reject"]
    assert accepted and refused
    assert [case.id for case in accepted if not holds(case.graph)] == []
    assert [case.id for case in refused if holds(case.graph)] == []


# ------------------------------------------------------------------------------------ dtypes


TYPED = "x.dtype == '{}' and x.shape[-1] <= {} or x.dtype == '{}' and x.shape[-1] <= {}"


def kind(graph: Graph) -> tuple[str, int]:
    """The dtype of the first operand's codes or numbers, and its last size."""
    x = value(graph, subject(graph).args[0].name)
    return (x.dtype if x.quant is None else x.quant.dtype), x.shape[-1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "limits", "precisions"),
    [
        ("linear.default", {"int8": 300, "int16": 100}, ("int8", "int16")),
        ("tanh.default", {"int8": 40, "int16": 20}, ("int8", "int16")),
        ("add.Tensor", {"float32": 40, "float16": 20}, ("fp32", "fp16")),
        ("add.Tensor", {"int8": 40, "float32": 20}, ("int8", "fp32")),
    ],
)
def test_a_limit_of_each_dtype_has_both_sides_in_it(
    op: str, limits: dict[str, int], precisions: tuple[str, ...], tmp_path: Path
) -> None:
    """It was a KeyError: a number was tried where a dtype stands."""
    holds = TYPED.format(*(part for item in limits.items() for part in item))
    common = '"quantized @document", '
    text = TABLE.format(op=op, holds=holds).replace('["int8"]', str([*precisions]).replace("'", '"'))
    sentence = 'quantized = "the operator must stand between dequantize and quantize nodes"\n'
    path = tmp_path / "acme@1.0.toml"
    path.write_text(text.replace(common, "").replace(sentence, ""))
    found = [case for case in cases_for(load_table(str(path))) if case.constraint == "asked"]
    sides = {(kind(case.graph)[0], case.expect) for case in found}
    assert sides >= {(dtype, side) for dtype in limits for side in ("accept", "reject")}
    for case in found:
        dtype, size = kind(case.graph)
        assert (case.expect == "accept") == (dtype in limits and size <= limits[dtype]), case.id


# ------------------------------------------------------------------------------------ beside the members of lists

BESIDE: dict[str, tuple[str, str, Callable[[Graph], object], set[object], set[object]]] = {
    "parts of members": (
        POOL, "(stride_h, stride_w) in ((1, 1), (2, 1), (2, 2))",
        lambda g: windows(g)[2:], {(1, 1), (2, 1), (2, 2)}, {(1, 2), (3, 2), (2, 3), (4, 2), (2, 4), (4, 1)},
    ),
    "one number": (
        "pixel_shuffle.default", "upscale_factor == 2", lambda g: arguments(g)["upscale_factor"], {2}, {1, 3, 4},
    ),
    "bounds": (
        "clamp.default", "bounds in ((-1, 1), (0, 6))",
        lambda g: (arguments(g).get("min"), arguments(g).get("max")), {(-1, 1), (0, 6)},
        {(-1, 6), (0, 1), (0, 3), (0, 12)},
    ),
    "a list of one": (
        "clamp.default", "bounds in ((-1, 1),)",
        lambda g: (arguments(g).get("min"), arguments(g).get("max")), {(-1, 1)}, {(-2, 1), (-1, 2), (0, 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_neighbors_of_every_member_are_asked(name: str, tmp_path: Path) -> None:
    op, text, made, inside, outside = BESIDE[name]
    found = [case for case in generated(op, text, tmp_path) if case.constraint == "asked"]
    assert {made(case.graph) for case in found if case.expect == "accept"} == inside
    assert {made(case.graph) for case in found if case.expect == "reject"} >= outside


@pytest.mark.parametrize(
    ("op", "left", "listed", "of_row"),
    [
        (POOL, "(stride_h, stride_w)", "((1, 1), (2, 1), (2, 2))", "[[1, 1], [2, 1], [2, 2]]"),
        ("clamp.default", "bounds", "((-1, 1), (0, 6))", "[[-1, 1], [0, 6]]"),
    ],
)
def test_a_list_of_lists_may_stand_in_the_row(op: str, left: str, listed: str, of_row: str, tmp_path: Path) -> None:
    """What is asked of it is what is asked of the list that is written out, or more."""
    path = tmp_path / "acme@1.0.toml"
    text = TABLE.format(op=op, holds=f"{left} in value").replace("as asked", "as asked: {value}")
    path.write_text(text.replace("asked @document", f"asked = {of_row} @document"))
    found = [case for case in cases_for(load_table(str(path))) if case.constraint == "asked"]
    step = {(case.expect, str(subject(case.graph).args[1:])) for case in found}
    written = [case for case in generated(op, f"{left} in {listed}", tmp_path) if case.constraint == "asked"]
    accepted = {str(subject(case.graph).args[1:]) for case in written if case.expect == "accept"}
    assert {args for side, args in step if side == "accept"} >= accepted or len(accepted) > 3
    assert {side for side, _ in step} == {"accept", "reject"}


# ------------------------------------------------------------------------------------ what is not asked


UNASKED = {
    "a window whose sums need more than 32 bits": (CONVOLUTION, "kernel_h * kernel_w * in_channels <= 2 ** 18"),
    "what no program breaks": ("tanh.default", "len(used) >= 1"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", UNASKED)
def test_what_is_not_found_is_an_error_that_says_what_was_tried(name: str, tmp_path: Path) -> None:
    op, holds = UNASKED[name]
    with pytest.raises(LimitError) as caught:
        generated(op, holds, tmp_path)
    said = str(caught.value)
    assert said.startswith(f"acme@1.0: aten.{op} (int8): asked: no two programs were found of which ")
    assert "none that breaks it alone" in said and "tried " in said and "\n" not in said


@pytest.mark.slow
def test_every_part_that_is_not_asked_is_listed(tmp_path: Path) -> None:
    with pytest.raises(LimitError) as caught:
        generated("tanh.default", "len(used) >= 1 and len(results) == 1 and x.rank <= 4", tmp_path)
    assert "'len(used) >= 1'" in str(caught.value) and "'len(results) == 1'" in str(caught.value)
    assert "x.rank" not in str(caught.value)


def invoked(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(args))
    return result.exit_code, result.output


@pytest.mark.long
def test_lint_and_certify_say_it_and_a_reason_beside_the_predicate_lets_the_rest_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "acme@1.0.toml"
    plain = TABLE.format(op="tanh.default", holds="len(used) >= 1 and x.rank <= 4")
    path.write_text(plain)
    code, output = invoked("table", "lint", str(path))
    assert code == 1 and "'len(used) >= 1'" in output and "tried" in output
    asked = ("certify", "npu_assay.partitioners.neutron:backend", "--table", str(path), "--out", str(tmp_path / "out"))
    code, output = invoked(*asked)
    assert code == 2 and "'len(used) >= 1'" in output and not (tmp_path / "out").exists()
    path.write_text(plain.replace('" }\n\n[op', '", unchecked = "what nothing takes is no program" }\n\n[op'))
    code, output = invoked("table", "lint", str(path))
    assert code == 1 and "asked: cases do not ask all of it in aten.tanh.default: what nothing takes" in output
    found = [case for case in cases_for(load_table(str(path))) if case.constraint == "asked"]
    assert {case.expect for case in found} == {"accept", "reject"}
    code, output = invoked("show", "npu_assay.partitioners.neutron:backend", "tanh", "--table", str(path))
    assert "not asked in full: what nothing takes is no program" in output


def test_a_step_of_a_generated_program_can_be_written(tmp_path: Path) -> None:
    """`dim_order` was turned to orders that no edge program says, and the backend got the blame."""
    text = TABLE.format(op="tanh.default", holds="dim_order == (0, 1, 2, 3)").replace('"int8"', '"fp32"')
    text = text.replace("aten.tanh.default", "dim_order_ops._to_dim_order_copy.default")
    text = text.replace('"quantized @document", ', "").replace(
        'quantized = "the operator must stand between dequantize and quantize nodes"\n', ""
    )
    path = tmp_path / "acme@1.0.toml"
    path.write_text(text)
    found = [case for case in cases_for(load_table(str(path))) if case.constraint == "asked"]
    assert {case.expect for case in found} == {"accept", "reject"}
    steps: list[Step] = [subject(case.graph) for case in found if build(case.graph)]
    assert {dict(step.kwargs).get("dim_order") for step in steps} == {(0, 1, 2, 3), (0, 2, 3, 1)}
