"""`to_edge` and `to_edge_transform_and_lower` beside ExecuTorch's, on single operators and whole networks, in one run.

Run from the repository where the extras `executorch` and `quantize` are installed:

    PYTHONPATH=tests/shared python benchmarks/exir.py

Each program is exported once; then both sides take turns on it, so that a drift of the machine's speed hits both.
Printed: the median processor time of each, and how many times ours goes into ExecuTorch's. Lowering is to XNNPACK,
each side with its own partitioner and compiler.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterator

import torch
from networks import LARGE_NETWORKS, NETWORKS, network, samples
from torch import nn
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import to_edge, to_edge_transform_and_lower
from npu_assay.partitioners.xnnpack import XnnpackPartitioner

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses parts of itself, of torch and of Python that are deprecated
    from executorch import exir as peer
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner as PeerPartitioner

Run = Callable[[ExportedProgram], object]
SINGLE: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "relu": (nn.ReLU(), (2, 3)),
    "softmax": (nn.Softmax(-1), (2, 3)),
    "hardswish": (nn.Hardswish(), (2, 3)),
    "layer_norm": (nn.LayerNorm(3), (2, 3)),
    "linear": (nn.Linear(3, 4), (2, 3)),
    "conv2d": (nn.Conv2d(3, 4, 3), (1, 3, 8, 8)),
    "max_pool2d": (nn.MaxPool2d(2), (1, 3, 8, 8)),
}


def programs(networks: bool) -> Iterator[tuple[str, ExportedProgram]]:
    """The exported programs by name."""
    for name, (model, shape) in SINGLE.items():
        yield name, torch.export.export(model, (torch.ones(shape),))
    for name in (*NETWORKS, *LARGE_NETWORKS) if networks else ():
        model, shape = network(name)
        yield name, torch.export.export(model, tuple(samples(shape, 1)))


def milliseconds(runs: dict[str, Run], program: ExportedProgram, rounds: int) -> dict[str, float]:
    """Median processor time of each over `rounds` turns, after one that is not counted."""
    taken: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(rounds + 1):
        for label, run in runs.items():
            start = time.process_time()
            run(program)
            taken[label].append(1e3 * (time.process_time() - start))
    return {label: statistics.median(values[1:]) for label, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="The way to the edge dialect, beside ExecuTorch's.")
    parser.add_argument("--rounds", type=int, default=5, help="timed turns of each side")
    parser.add_argument("--single", action="store_true", help="only the programs of one operator")
    parser.add_argument("--lower", action="store_true", help="also to_edge_transform_and_lower, to XNNPACK")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    stages: dict[str, dict[str, Run]] = {"to_edge": {"ours": to_edge, "ExecuTorch": peer.to_edge}}
    if options.lower:
        stages["lower"] = {
            "ours": lambda p: to_edge_transform_and_lower(p, partitioner=[XnnpackPartitioner()]),
            "ExecuTorch": lambda p: peer.to_edge_transform_and_lower(p, partitioner=[PeerPartitioner()]),
        }
    print(f"{'stage':8} {'program':28} {'nodes':>6} {'ours':>10} {'ExecuTorch':>12} {'ratio':>7}")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, program in programs(not options.single):
            for stage, runs in stages.items():
                taken = milliseconds(runs, program, options.rounds)
                ours, theirs = taken["ours"], taken["ExecuTorch"]
                count = len(program.graph.nodes)
                print(f"{stage:8} {name:28} {count:6} {ours:7.1f} ms {theirs:9.1f} ms {theirs / ours:6.1f}x")


if __name__ == "__main__":
    main()
