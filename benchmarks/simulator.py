"""The simulated devices beside their peers on the four MLPerf Tiny networks and a MobileNetV2, in one run.

Run from the repository with the extras `bench`, `litert` and `quantize` installed:

    PYTHONPATH=.:tests python benchmarks/simulator.py

Each network is quantised and compiled once; then torch float32 eager, the simulated devices of Neutron
and XNNPACK (static int8), LiteRT's reference kernels and onnx.reference take turns, so that a drift of
the machine's speed hits all of them. Neutron's NPU and LiteRT run the same flatbuffer. Printed: the
median of each, and its ratio to torch's. One thread each: the networks are too small to gain from more.
The MobileNetV2 runs on XNNPACK only.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from networks import (
    LARGE_NETWORKS,
    NETWORKS,
    edge_for_xnnpack,
    for_xnnpack,
    lowered_modules,
    network,
    quantise,
    samples,
)
from onnx.reference import ReferenceEvaluator

from partitioners.exir import to_edge
from partitioners.exir.run import run_delegate
from partitioners.neutron import NeutronRuntime, backend
from partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime

Run = Callable[[], object]

NAMES = (*NETWORKS, *LARGE_NETWORKS)


def contenders(name: str) -> dict[str, Run]:
    """One call per peer; each call is one inference."""
    model, shape = network(name)
    (x,) = samples(shape, 1, seed=5)
    both = {"torch float32 eager": lambda: model(x), "XNNPACK device": _xnnpack(model, shape, x)}
    return both | _neutron(model, shape) | {"onnx.reference": _onnx(model, x)} if name in NETWORKS else both


def _xnnpack(model: torch.nn.Module, shape: tuple[int, ...], x: torch.Tensor) -> Run:
    program = for_xnnpack(model, "static_int8_per_channel", samples(shape, 4))
    (module,) = lowered_modules(edge_for_xnnpack(program).to_backend(XnnpackPartitioner()))
    runtimes = {"XnnpackBackend": XnnpackRuntime()}
    return lambda: run_delegate(module, [x], runtimes)


def _neutron(model: torch.nn.Module, shape: tuple[int, ...]) -> dict[str, Run]:
    edge = to_edge(quantise(model, samples(shape, 4)))
    (module,) = lowered_modules(edge.transform(list(backend.passes)).to_backend(backend.partitioner()))
    codes = torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(5)).to(torch.int8)
    runtimes = {"NeutronBackend": NeutronRuntime()}
    return {
        "Neutron NPU": lambda: run_delegate(module, [codes], runtimes),
        "LiteRT reference": _litert(module.processed_bytes, codes.numpy()),
    }


def _litert(blob: bytes, codes: np.ndarray) -> Run:
    interpreter = Interpreter(
        model_content=blob, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    interpreter.allocate_tensors()
    (entry,) = interpreter.get_input_details()

    def run() -> None:
        interpreter.set_tensor(entry["index"], codes)
        interpreter.invoke()

    return run


def _onnx(model: torch.nn.Module, x: torch.Tensor) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter deprecates its own parts
        exported = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    assert exported is not None
    proto = exported.model_proto
    evaluator = ReferenceEvaluator(proto)
    feed = {proto.graph.input[0].name: x.numpy()}
    return lambda: evaluator.run(None, feed)


def milliseconds(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Median of each contender over `rounds` turns, after one that is not counted."""
    taken: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(rounds + 1):
        for label, run in runs.items():
            start = time.perf_counter()
            run()
            taken[label].append(1e3 * (time.perf_counter() - start))
    return {label: statistics.median(values[1:]) for label, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="The simulated devices beside torch, LiteRT and onnx.reference.")
    parser.add_argument("--rounds", type=int, default=15, help="timed turns of each contender")
    parser.add_argument("networks", nargs="*", default=list(NAMES), help="any of " + ", ".join(NAMES))
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # torch.onnx and torchao log which optional parts are not installed
    torch.set_num_threads(1)
    with torch.no_grad():
        for name in options.networks:
            medians = milliseconds(contenders(name), options.rounds)
            base = medians["torch float32 eager"]
            print(name)
            for label, median in medians.items():
                print(f"  {label:20} {median:9.2f} ms   {median / base:7.2f} x torch")


if __name__ == "__main__":
    main()
