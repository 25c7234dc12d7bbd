"""Every refusal of the Ethos-U compiler: one error that names node, operator, found and expected.

The refusals are read from the source, so that a new one without a program fails.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from delegated import delegated
from ethosu_refused import PROGRAMS, SAYS, blob
from ethosu_runs import blob_of, compiled
from tosa_graph_families import unary
from tosa_graphs import widened

from npu_assay.conformance.programs.build import build
from npu_assay.partitioners import ethosu
from npu_assay.partitioners.ethosu.backend import EthosUBackend
from npu_assay.partitioners.exir import CompileSpec
from npu_assay.partitioners.exir.compiling import CompileError

LOWERING = Path(ethosu.__file__).resolve().parent / "lowering"
Line = tuple[str, int]


def refused(name: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        blob(name)
    return caught.value


@pytest.mark.parametrize("name", PROGRAMS)
def test_refused(name: str) -> None:
    error = refused(name)
    assert str(error) == f"{error.node} ({error.operator}): {SAYS[name]}"
    assert error.found != error.expected


def refusals() -> Iterator[tuple[Line, ...]]:
    """The lines of each call that refuses; the method that only hands a refusal on is none."""
    for file in sorted(LOWERING.glob("*.py")):
        for call in (each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            handed_on = bool(call.args) and ast.unparse(call.args[0]) == "holds"
            if name in ("require", "refusal") and not handed_on:
                yield tuple((file.name, line) for line in range(call.lineno, (call.end_lineno or 0) + 1))


def test_every_refusal_has_a_program() -> None:
    found: set[Line] = set()
    for name in PROGRAMS:
        frames = traceback.extract_tb(refused(name).__traceback__)
        found |= {(Path(frame.filename).name, frame.lineno or 0) for frame in frames}
    every = list(refusals())
    assert len(every) > 50
    assert [lines[0] for lines in every if found.isdisjoint(lines)] == []


def test_windows_apart_fit_the_other_device() -> None:
    pool = unary("max_pool2d", (1, 3, 9, 9), (5, 4), (4, 4)).graph()
    compiled(pool, "u85")


def test_16_bit_codes_without_a_zero_point() -> None:
    compiled(widened(unary("neg").graph()), "u85")


def test_no_outputs() -> None:
    program = delegated(build(unary("abs", (2, 3)).graph()))
    program.graph.output_node().args = ((),)
    with pytest.raises(CompileError, match="outputs"):
        blob_of(program, "u85")


@pytest.mark.parametrize(
    "specs",
    [
        [],
        [CompileSpec("tosa_spec", b"TOSA-1.0+FP")],
        [CompileSpec("tosa_spec", b"TOSA-0.80+INT")],
        [CompileSpec("tosa_spec", b"TOSA-1.0+INT")] * 2,
        [CompileSpec("tosa_spec", b"\xff")],
    ],
)
def test_compile_specs(specs: list[CompileSpec]) -> None:
    part = delegated(build(unary("abs").graph()))
    with pytest.raises(CompileError, match="specification of TOSA"):
        EthosUBackend.preprocess(part, specs)
