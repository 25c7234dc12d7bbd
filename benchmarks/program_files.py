"""From the edge dialect to a `.pte` file: time and memory, beside ExecuTorch where that is installed.

Run from the repository:

    PYTHONPATH=tests/shared python benchmarks/program_files.py

One line for a program of three operators and one for each network, in float32 on kernels alone: milliseconds of
processor time for `to_executorch` and for writing the file (the median of several runs), the arena that memory
planning makes, what it would be without reuse, and ExecuTorch's time for both and its arena.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec

import torch
from networks import LARGE_NETWORKS, NETWORKS, folded, network, samples
from torch import nn
from torch.export import ExportedProgram, export

from npu_assay.partitioners.exir import to_edge

RUNS = 5


class Three(nn.Module):
    """An addition, a relu and a product."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + x) * x


def programs(names: Iterable[str]) -> dict[str, ExportedProgram]:
    """What is measured, by name: three operators, and the networks of these names."""
    found = {"three_operators": export(Three(), (torch.randn(2, 3),))}
    for name in names:
        model, shape = network(name)
        with torch.no_grad():
            found[name] = export(folded(model), (samples(shape, 1)[0],))
    return found


def milliseconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median processor time."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1e3


def theirs(program: ExportedProgram) -> tuple[float, int]:
    """ExecuTorch's time, file included, and its arena. It edits its programs, so it runs once."""
    from executorch.exir import to_edge as real_to_edge

    edge = real_to_edge(program)
    start = time.process_time()
    made = edge.to_executorch()
    len(made.buffer)
    spent = time.process_time() - start
    return spent * 1e3, sum(made.executorch_program.execution_plan[0].non_const_buffer_sizes)


def main() -> None:
    """Print one line per program."""
    names = (*NETWORKS, *LARGE_NETWORKS)
    parser = argparse.ArgumentParser(description="From the edge dialect to a .pte file.")
    parser.add_argument("networks", nargs="*", default=list(names), help="any of " + ", ".join(names))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    peer = find_spec("executorch") is not None
    heading = f"{'':18}{'to_executorch':>14}{'write':>8}{'arena':>11}{'no reuse':>11}"
    print(heading + (f"{'ExecuTorch':>13}{'arena':>11}{'time ratio':>12}" if peer else ""))
    for name, program in programs(options.networks).items():
        edge = to_edge(program)
        made = milliseconds(edge.to_executorch)
        written = milliseconds(lambda edge=edge: edge.to_executorch().buffer) - made  # type: ignore[misc]  # bound early
        plan = edge.to_executorch().memory_plan()
        line = f"{name:18}{made:11.1f} ms{max(written, 0):5.1f} ms{plan.arena_bytes:11}{plan.unshared_bytes:11}"
        if peer:
            spent, arena = theirs(program)
            line += f"{spent:10.1f} ms{arena:11}{spent / (made + max(written, 0)):11.1f}x"
        print(line, flush=True)


if __name__ == "__main__":
    main()
