"""The zoo lowered by ExecuTorch's own XNNPACK partitioner and by ours, and both programs run, in one run.

    pip install -e ".[executorch]" torchvision timm transformers
    python -m benchmarks.zoo_executorch --out zoo-executorch.json [-k resnet] [--float] [--rounds 3] [--seconds 600]

Each model is quantized as `assay explain --calibrate random` does it (`--float`: not at all) and exported once; then
both sides lower that program in turns. Printed: the delegates of each and the operators that it leaves, the median
processor time of lowering and how often ours goes into theirs, and how far the outputs of ExecuTorch's program, on its
own runtime, are from those of ours on the simulated device. Each model has a process of its own, which may crash or
hang. With `--table` the file that is there is printed as the rows of docs/lab/zoo.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.turns import seconds
from benchmarks.zoo import ZOO, seeded
from npu_assay.conformance.backend.loading import load_whole
from npu_assay.conformance.common.escaped import counted
from npu_assay.conformance.explain.explaining import How
from npu_assay.conformance.explain.models import Model, model_of, quantize
from npu_assay.conformance.reach.flow import operators_of
from npu_assay.partitioners.exir import run_program, to_edge_transform_and_lower
from npu_assay.partitioners.xnnpack import XnnpackBackend, XnnpackPartitioner, XnnpackRuntime

FREE = ("getitem", "dim_order", "quantize", "alloc", "view")
"""Parts of the names of what is not counted: what converts, picks a result or gives a tensor another shape."""


@dataclass(frozen=True)
class Side:
    """A model as one side lowers it. left: operators outside the delegates; seconds: processor time of lowering."""

    delegates: int
    left: int
    seconds: float


@dataclass(frozen=True)
class Line:
    """One model. difference: see `distance`, -1 without outputs of both; error: what was raised, "" for nothing."""

    model: str
    ours: Side | None
    theirs: Side | None
    difference: float
    error: str


def side_of(program: ExportedProgram, taken: float) -> Side:
    """What is in a lowered program of either side. taken: seconds of lowering."""
    names, delegates = operators_of(program)
    return Side(delegates, sum(not any(part in name for part in FREE) for name in names), taken)


def compared(name: str, whole: bool, rounds: int) -> Line:
    """Lower one model by both sides, and run both programs. whole: float32, as it is."""
    from npu_assay.conformance.adapters.executorch.silence import quiet
    from npu_assay.conformance.adapters.executorch.xnn import execute, partitioner

    with quiet():
        from executorch import exir as peer
    described, inputs = prepared(name, whole)

    def ours() -> Any:
        return to_edge_transform_and_lower(described.program, partitioner=[XnnpackPartitioner()])

    def theirs() -> Any:
        return peer.to_edge_transform_and_lower(described.program, partitioner=[partitioner()])

    sides: dict[str, Side] = {}
    errors: list[str] = []
    made: dict[str, Any] = {}
    for label, lower in (("ours", ours), ("theirs", theirs)):
        try:
            made[label] = lower()
        except Exception as error:  # noqa: BLE001  (a model may be anything to either)
            errors.append(f"{label}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    if not errors:
        taken = seconds({"ours": ours, "theirs": theirs}, rounds)
        sides = {label: side_of(each.exported_program(), taken[label]) for label, each in made.items()}
    difference = -1.0
    if not errors:
        runtimes = {XnnpackBackend.__name__: XnnpackRuntime()}
        expected = run_program(made["ours"].exported_program(), inputs, runtimes)
        try:
            difference = distance(expected, execute(bytes(made["theirs"].to_executorch().buffer), inputs))
        except RuntimeError as error:
            errors.append(f"runtime: {str(error).splitlines()[0]}")
    return Line(name, sides.get("ours"), sides.get("theirs"), difference, "; ".join(errors))


def prepared(name: str, whole: bool) -> tuple[Model, tuple[Tensor, ...]]:
    module, inputs = seeded(ZOO[name])
    described = model_of(torch.export.export(module, inputs), [inputs])
    if not whole:
        quantized = quantize(described, How().quantizer(load_whole("xnnpack")), [inputs])
        described = model_of(quantized.program, [inputs])
    return described, inputs


def distance(expected: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    """The largest distance of the outputs, as a share of their largest number; infinite between unequal shapes."""
    if [each.shape for each in expected] != [each.shape for each in found]:
        return math.inf
    pairs = [(a.double(), b.double()) for a, b in zip(expected, found, strict=True)]
    return max(float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)) for a, b in pairs)


def alone(name: str, given: argparse.Namespace) -> Line:
    """One model in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.zoo_executorch", "--one", name, "--rounds", str(given.rounds)]
    try:
        done = subprocess.run(
            [*command, *(["--float"] if given.float else [])],
            capture_output=True,
            text=True,
            check=False,
            timeout=given.seconds,
            cwd=Path(__file__).parent.parent,
        )
    except subprocess.TimeoutExpired:
        return Line(name, None, None, -1.0, f"more than {given.seconds:g} s")
    if done.returncode:
        said = done.stderr.splitlines()
        return Line(name, None, None, -1.0, f"exit code {done.returncode}: {said[-1] if said else ''}")
    return line_of(json.loads(done.stdout.splitlines()[-1]))


def line_of(stored: dict[str, Any]) -> Line:
    sides = {side: Side(**stored[side]) if stored[side] else None for side in ("ours", "theirs")}
    return Line(**{**stored, **sides})


def rows(told: Sequence[Line]) -> Iterator[str]:
    """A row for each model, and the geometric mean of what lowering costs ExecuTorch."""
    ratios = []
    for each in told:
        cells = [each.model, *map(cell, (each.ours, each.theirs))]
        ratio, output = "-", each.error or outputs(each.difference)
        if each.ours and each.theirs:
            ratios.append(each.theirs.seconds / each.ours.seconds)
            ratio = f"{ratios[-1]:.0f}"
        yield f"| {' | '.join([*cells, ratio, output])} |"
    if ratios:
        yield f"| geometric mean of {len(ratios)} | | | {statistics.geometric_mean(ratios):.1f} | |"


def cell(side: Side | None) -> str:
    if side is None:
        return "-"
    return f"{side.left} left, {counted(side.delegates, 'delegate')}, {1e3 * side.seconds:.0f} ms"


def outputs(difference: float) -> str:
    return "equal" if difference == 0 else f"{difference:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("-k", default="")
    parser.add_argument("--float", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.one:
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        with torch.no_grad():
            print(json.dumps(asdict(compared(given.one, given.float, given.rounds))))
        return
    if given.out is None:
        parser.error("--out: none given, expected a file")
    if given.table:
        print("\n".join(rows([line_of(each) for each in json.loads(given.out.read_text())])))
        return
    told = []
    for name in (name for name in ZOO if given.k in name):
        told.append(alone(name, given))
        print(next(rows(told[-1:])), flush=True)
        given.out.write_text(json.dumps([asdict(each) for each in told], indent=1))


if __name__ == "__main__":
    main()
