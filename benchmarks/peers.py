"""The same operator cases through ExecuTorch's own backend test suite and through assay, in one run.

Needs the executorch extra. Run from the repository:

    python benchmarks/peers.py --rows 8

ExecuTorch's suite (executorch.backends.test.suite, its four XNNPACK flows) gets the case's model in floats and the
case's inputs, and does what it does for its own tests: quantize, export, lower, serialize, run, compare with a fixed
tolerance. assay gets the case: build, tag, compile, run on the simulated device, judge by all gates, tag and compile
again. Processor time of one process each way, start-up (a first case of each kind) left out.

The two do not do the same work: the suite exports the model and runs the real runtime, but it says nothing about tags,
reasons or exact codes. The ratio says how many cases a developer can ask in the same time, no more.
"""

from __future__ import annotations

import argparse
import io
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from statistics import median

import torch

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.build import model_inputs, module
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table

FLOWS = {
    "fp32": "xnnpack",
    "static_int8": "xnnpack_static_int8_per_tensor",
    "static_int8_per_channel": "xnnpack_static_int8_per_channel",
    "dynamic_int8": "xnnpack_dynamic_int8_per_channel",
}


def in_floats(graph: Graph) -> Graph:
    """The model before quantization, which the suite does itself."""
    values = tuple(replace(value, quant=None) for value in graph.values)
    steps = tuple(replace(step, quant=None, dynamic=None) for step in graph.steps)
    return replace(graph, values=values, steps=steps)


def chosen(table: Table, rows: int) -> list[Case]:
    """The first accepted case of each row and precision that the suite has a flow for, rows taken evenly."""
    computing = [row.name for row in table.rows if not row.name.startswith("quantized_decomposed")]
    names = computing[:: max(1, len(computing) // rows)][:rows] if rows else computing
    names += [name for name in ("aten.conv2d.default", "aten.linear.default") if name not in names]
    found: dict[tuple[str, str | None], Case] = {}
    for case in cases_for(table):
        if case.row in names and case.precision in FLOWS and case.expect == "accept":
            found.setdefault((case.row, case.precision), case)
    return list(found.values())


def peer(case: Case) -> str:
    """Run the case's model in the suite's flow; what the suite says."""
    from executorch.backends.test.suite.flow import all_flows
    from executorch.backends.test.suite.runner import run_test

    flow = all_flows()[FLOWS[case.precision or ""]]
    graph = in_floats(case.graph)
    model, inputs = module(graph).eval(), model_inputs(graph)
    summary = run_test(model, inputs, flow, case.id, case.id, 0, None, generate_random_test_inputs=False)
    return str(summary.result.name)


def ours(case: Case, table: Table) -> str:
    """Run the case here; what assay says."""
    return run_case(case, load_backend("npu_assay.partitioners.xnnpack:backend"), table).status


def timed(run: Callable[..., str], *arguments: object) -> tuple[float, str]:
    """Processor seconds, and what came out. Nothing is printed meanwhile."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        said = run(*arguments)
        return time.process_time() - start, said


def compared(cases: Sequence[Case], table: Table) -> list[float]:
    """Print both times of every case; the ratios of those that both sides ran to the end."""
    ratios = []
    print(f"{'case':58} {'ExecuTorch':>20} {'assay':>14} {'ratio':>7}")
    for case in cases:
        slow, said = timed(peer, case)
        fast, status = min(timed(ours, case, table) for _ in range(3))
        counted = said in ("SUCCESS", "SUCCESS_UNDELEGATED", "OUTPUT_MISMATCH_FAIL")
        if counted:
            ratios.append(slow / fast)
        times = f"{slow:7.2f} s {said[:19]:>19}" if counted else f"{said:>29}"
        print(f"{case.row + '/' + str(case.precision):50} {times} {1e3 * fast:7.1f} ms {status} {slow / fast:7.0f}x")
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description="The same cases through ExecuTorch's test suite and through assay.")
    parser.add_argument("--rows", type=int, default=8, help="rows of the table, taken evenly; 0 means all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    table = load_table("xnnpack@1.5")
    cases = chosen(table, options.rows)
    for precision in FLOWS:  # both load and cache things on first use
        first = next(case for case in cases if case.precision == precision)
        timed(peer, first)
        timed(ours, first, table)
    ratios = compared(cases, table)
    print(f"{len(ratios)} of {len(cases)} cases ran on both sides")
    print(f"processor time, ExecuTorch / assay: median {median(ratios):.0f}x, smallest {min(ratios):.0f}x")


if __name__ == "__main__":
    main()
