"""Our delegate blobs on the real runtime give what the simulated device gives: every accepted case of the table.

Codes, and floats out of codes, to the last bit; float32 and float16 to the last bit, too, but for the operators of
`apart.APART`, which stay within what is stated there. Each blob runs on the
case's own inputs, at a second size where sizes are open, and on random and extreme ones. The real runtime is a child
process: when it dies, the case that it ran fails and the others go on. Where the processor computes in float16,
programs with sums of float16 products stay within a part of their largest output: see `half_arithmetic`.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import build, model_inputs
from npu_assay.conformance.programs.graph import Case, Graph, Value
from npu_assay.conformance.table import Row, load_table
from npu_assay.partitioners.common.machine import InputError
from npu_assay.partitioners.exir import CompileSpec, run_program, to_backend
from npu_assay.partitioners.xnnpack import XnnpackRuntime, backend
from npu_assay.partitioners.xnnpack.runtime import Port, Program
from npu_assay.reference.operators.home import Accuracy
from tests.crosscheck.executorch import half_arithmetic, narrow
from tests.crosscheck.executorch.apart import APART
from tests.crosscheck.executorch.real import Argument, Job, Machine
from tests.crosscheck.executorch.special_values import different

TABLE = load_table("xnnpack@1.5")
ACCEPTED = [case for case in cases_for(TABLE) if case.expect == "accept"]
# torch closes the sizes of these when it works out their shapes, and sizes of 1 always.
CODES = ("static_int8", "static_int8_per_channel", "dynamic_int8", "dynamic_int4")
FLOATS = ("fp32", "fp16")
EXTREMES = {torch.int8: (-128.0, 127.0), torch.float32: (-1e4, 1e4), torch.float16: (-300.0, 300.0)}


class Recording(XnnpackRuntime):
    """The device, noting every run: the blob's handle, the bytes, inputs and outputs."""

    def __init__(self) -> None:
        self.blobs: list[tuple[Program, bytes]] = []
        self.runs: list[tuple[Program, bytes, list[Tensor], list[Tensor]]] = []

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> Program:
        handle = super().load(processed_bytes, compile_specs)
        self.blobs.append((handle, processed_bytes))
        return handle

    def execute(self, handle: Program, inputs: Sequence[Tensor]) -> list[Tensor]:
        outputs = super().execute(handle, inputs)
        blob = next(data for known, data in self.blobs if known is handle)
        self.runs.append((handle, blob, list(inputs), outputs))
        return outputs


Run = tuple[Job, list[Tensor]]
Delegates = list[tuple[Case, Program, bytes, list[Tensor]]]


def runs(case: Case) -> Iterator[Run]:
    """Every delegate of a case with its inputs, and what the device returns for them."""
    device = Recording()
    program = build(case.graph, TABLE.preserve)
    lowered = to_backend(program, backend.partitioner(**dict(case.options)))
    run_program(lowered, model_inputs(case.graph), {"XnnpackBackend": device})
    if has_open_sizes(program):
        assert any(runs_at(graph, lowered, device) for graph in other_sizes(case.graph)), case.id
    for handle, _, inputs, _ in list(device.runs):
        for others in others_like(inputs):
            device.execute(handle, others)
    assert device.runs, case.id
    for handle, blob, inputs, outputs in device.runs:
        arguments, results = places(handle.inputs, inputs), places(handle.outputs, outputs)
        yield Job(blob, tuple(x.contiguous().numpy() for x in inputs), arguments, results), outputs


def places(ports: Sequence[Port], tensors: Sequence[Tensor]) -> tuple[Argument, ...]:
    """What the program says about these arguments."""
    pairs = zip(ports, tensors, strict=True)
    return tuple(Argument(str(x.dtype).split(".")[1], tuple(x.shape), port.channels_last) for port, x in pairs)


def other_sizes(graph: Graph) -> Iterator[Graph]:
    """The graph with other sizes where they are open: one more or less, along all axes or one, everywhere or in x."""
    opened = sorted({axis for value in graph.values for axis in value.dynamic})
    choices = (opened, *([axis] for axis in opened))
    for step, axes, inputs in itertools.product((1, -1), choices, (len(graph.values), 1)):
        changed = tuple(resized(value, axes, step) for value in graph.values[:inputs])
        yield replace(graph, values=(*changed, *graph.values[inputs:]))


def resized(value: Value, axes: Sequence[int], step: int) -> Value:
    changed = set(axes) & set(value.dynamic)
    return replace(value, shape=tuple(max(1, n + step) if a in changed else n for a, n in enumerate(value.shape)))


def has_open_sizes(program: ExportedProgram) -> bool:
    """Whether some size of an input is still open in the program: torch closes sizes that it finds to be fixed."""
    inputs = [n for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]
    sizes = [size for node in inputs for size in node.meta["val"].shape if isinstance(size, torch.SymInt)]
    return any(size.node.shape_env.replace(size.node.expr).free_symbols for size in sizes)


def runs_at(graph: Graph, lowered: ExportedProgram, device: Recording) -> bool:
    """Run the program on the inputs of a graph of other sizes; whether sizes that belong together still do."""
    try:
        run_program(lowered, model_inputs(graph), {"XnnpackBackend": device})
    except (InputError, RuntimeError, ValueError):
        return False
    return True


def others_like(inputs: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Random numbers over the full range, and extreme ones in turn."""
    generator = torch.Generator().manual_seed(7)
    yield [_random(x, generator) for x in inputs]
    yield [torch.tensor(EXTREMES[x.dtype]).repeat(x.numel())[: x.numel()].reshape(x.shape).to(x.dtype) for x in inputs]


def _random(x: Tensor, generator: torch.Generator) -> Tensor:
    if x.dtype == torch.int8:
        return torch.randint(-128, 128, x.shape, generator=generator).to(torch.int8)
    return (torch.randn(x.shape, generator=generator) * 8).to(x.dtype)


# ------------------------------------------------------------------------------------ comparing


def stated(case: Case) -> Accuracy:
    """How far the results of a case may be apart: what its least exact operator is."""
    dtype = {"fp16": torch.float16}.get(case.precision or "", torch.float32)
    known = APART[dtype] if case.precision in FLOATS else narrow.FUNCTIONS
    found = [known.get(step.op, Accuracy()) for step in case.graph.steps]
    if is_half(case) and any(step.op == "aten.exp.default" for step in case.graph.steps):
        found.append(half_arithmetic.EXP)
    return Accuracy(max(one.ulps for one in found), max(one.absolute for one in found))


def is_half(case: Case) -> bool:
    """Whether the processor of this run computes the case in float16."""
    return half_arithmetic.NATIVE and case.precision == "fp16"


def part_of_largest(case: Case) -> float:
    """How far results may be apart as a part of the largest: not at all, but for sums in float16 or of groups."""
    if case.precision == "dynamic_int4":
        return narrow.OF_LARGEST
    return half_arithmetic.OF_LARGEST if is_half(case) and adds_products(case) else 0.0


def adds_products(case: Case) -> bool:
    return any(step.op in half_arithmetic.OPERATORS for step in case.graph.steps)


def differing(expected: Sequence[Tensor], found: Sequence[Tensor], allowed: Accuracy, part: float = 0) -> int:
    """How many elements differ by more than is allowed; every element of a result of another type or shape."""
    assert len(expected) == len(found)
    limits = [replace(allowed, absolute=allowed.absolute + part * largest(tensor)) for tensor in found]
    return sum(_differing(a, b, limit) for a, b, limit in zip(expected, found, limits, strict=True))


def largest(tensor: Tensor) -> float:
    """The largest size of a finite element."""
    sizes: list[float] = tensor.double().abs().flatten().tolist()
    return max([0.0, *filter(math.isfinite, sizes)])


def _differing(a: Tensor, b: Tensor, allowed: Accuracy) -> int:
    if a.shape != b.shape or a.dtype != b.dtype:
        return a.numel()
    wrong = (a != b) & ~(a.isnan() & b.isnan()) if a.is_floating_point() else a != b
    if a.is_floating_point() and allowed != Accuracy():
        bound = b.double().abs() * allowed.ulps * torch.finfo(a.dtype).eps + allowed.absolute
        wrong &= ~((a.double() - b.double()).abs() <= bound) & ~a.isnan()
    return int(wrong.sum())


def problems(case: Case, machine: Machine) -> list[str]:
    """What the real runtime does differently; empty when nothing."""
    allowed, found = stated(case), []
    for number, (job, expected) in enumerate(runs(case)):
        answer = machine.run(job)
        if isinstance(answer, str):
            found.append(f"run {number}: {answer}")
        elif count := differing(
            expected, [torch.from_numpy(array) for array in answer], allowed, part_of_largest(case)
        ):
            found.append(f"run {number}: {count} differ")
    return found


def accepted(row: Row, precisions: Sequence[str]) -> list[Case]:
    return [case for case in ACCEPTED if case.row == row.name and case.precision in precisions]


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize("row", [row for row in TABLE.rows if accepted(row, CODES)], ids=lambda row: row.name)
def test_no_code_differs(row: Row, machine: Machine) -> None:
    found = {case.id: problems(case, machine) for case in accepted(row, CODES)}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.long
@pytest.mark.sampled(12)
@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.name)
def test_floats_are_as_near_as_stated(row: Row, machine: Machine) -> None:
    """And differ from the device in special values where that is known: see `special_values`."""
    found = {case.id: problems(case, machine) for case in accepted(row, FLOATS)}
    assert found
    assert {name for name, what in found.items() if what} == different(row.name), found


@pytest.mark.long
def test_open_sizes_are_open() -> None:
    """But for operands of size 1, and channels of lines, which weights fix, cases about open sizes run at two sizes."""
    named = {case.id: case for case in ACCEPTED if any(value.dynamic for value in case.graph.values)}
    closed = {name for name, case in named.items() if not has_open_sizes(build(case.graph, TABLE.preserve))}
    assert len(named) > 100
    fixed = re.compile(r"_of_one_operand$|^aten\.conv1d\..*_turned_x_open_1_1$")
    assert closed == {name for name in named if fixed.search(name)}


# ------------------------------------------------------------------------------------ the ends of the range

LARGEST = torch.finfo(torch.float32).max
ENDS = {
    "masked": (-math.inf, 0.5, -0.25, 1.0, -3.0),
    "all_masked": (-math.inf,),
    "infinite": (math.inf, 0.5, -1.0),
    "far": (-LARGEST, -1e30, 0.5, -1e20, -1.0),
    "farthest": (-LARGEST, LARGEST, 0.5),
    "undefined": (math.nan, 1.0, 2.0, -0.5),
}
OTHER_ENDS = {
    **{
        (f"aten.{op}.default", "undefined"): "NaN gives way"
        for op in ("avg_pool2d", "max_pool2d", "maximum", "minimum")
    },
    **{(f"aten.{op}.default", "farthest"): "the estimate is 0 or infinite" for op in ("rsqrt", "sqrt")},
    ("aten.sqrt.default", "infinite"): "infinity times an estimate of 0",
    ("aten.exp.default", "undefined"): "the kernel's lower limit takes the place of NaN",
    ("aten.log.default", "farthest"): "its product with the root of 2 is infinite",
}
"""Where float32 kernels give something else on x86 with AVX-512, with reasons: stated at `apart.APART`."""
if narrow.NARROW:
    OTHER_ENDS |= dict.fromkeys(
        (("aten.log.default", "infinite"), ("aten.log.default", "undefined")), "a finite number"
    )


@pytest.fixture(scope="module")
def delegates() -> Delegates:
    """The first delegate of one float32 case for each row, with the inputs that it runs on."""
    found = []
    for case in (next(iter(accepted(row, ("fp32",))), None) for row in TABLE.rows):
        if case is not None:
            device = Recording()
            lowered = to_backend(build(case.graph, TABLE.preserve), backend.partitioner(**dict(case.options)))
            run_program(lowered, model_inputs(case.graph), {"XnnpackBackend": device})
            found.append((case, *device.runs[0][:3]))
    return found


def at_the_ends(handle: Program, blob: bytes, given: Sequence[Tensor], numbers: tuple[float, ...]) -> Run:
    """A delegate on these numbers; each input begins with another of them."""
    inputs = [repeated(numbers[i % len(numbers) :] + numbers[: i % len(numbers)], x) for i, x in enumerate(given)]
    outputs = XnnpackRuntime().execute(handle, inputs)
    arguments, results = places(handle.inputs, inputs), places(handle.outputs, outputs)
    return Job(blob, tuple(x.contiguous().numpy() for x in inputs), arguments, results), outputs


def repeated(numbers: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(numbers).repeat(like.numel())[: like.numel()].reshape(like.shape).to(like.dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("end", ENDS)
def test_masked_and_huge_numbers(end: str, delegates: Delegates, machine: Machine) -> None:
    found = set()
    for case, handle, blob, given in delegates:
        job, expected = at_the_ends(handle, blob, given, ENDS[end])
        answer = machine.run(job)
        assert not isinstance(answer, str), (case.row, answer)
        if differing(expected, [torch.from_numpy(array) for array in answer], stated(case)):
            found.add((case.row, end))
    assert found == {key for key in OTHER_ENDS if key[1] == end}


# ------------------------------------------------------------------------------------ the comparison itself


def test_one_flipped_code_is_noticed(machine: Machine) -> None:
    case = next(case for case in ACCEPTED if case.id.startswith("aten.add.Tensor/static_int8/operator/accept"))
    job, outputs = next(runs(case))
    answer = machine.run(job)
    assert not isinstance(answer, str)
    flipped = [outputs[0].clone(), *outputs[1:]]
    flipped[0].view(-1)[0] += 1
    results = [torch.from_numpy(array) for array in answer]
    assert differing(outputs, results, Accuracy()) == 0
    assert differing(flipped, results, Accuracy()) == 1


class Lethal(bytes):
    """A blob that ends the process that unpacks it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


def test_a_refusal_is_a_result(machine: Machine) -> None:
    job, _ = next(runs(ACCEPTED[0]))
    assert str(machine.run(replace(job, blob=job.blob[:40]))).startswith("refused")


@pytest.mark.long
def test_a_death_is_a_result_and_the_next_job_runs(machine: Machine) -> None:
    case = next(case for case in ACCEPTED if case.row == "aten.relu.default")
    job, outputs = next(runs(case))
    lethal = replace(job, blob=Lethal(job.blob))
    assert machine.run(lethal) == "died"
    answer = machine.run(job)
    assert not isinstance(answer, str)
    assert differing(outputs, [torch.from_numpy(array) for array in answer], Accuracy()) == 0
