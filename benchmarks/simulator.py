"""The simulated devices beside their peers on the four MLPerf Tiny networks and a MobileNetV2, in one run.

Run from the repository with the extra `quantize` installed; peers take part that are installed, by the
extras `bench`, `litert` and `tosa` (of which the last two need environments of their own):

    PYTHONPATH=tests/shared python benchmarks/simulator.py

Each network is quantized and compiled once; then torch float32 eager, the simulated devices of Neutron,
XNNPACK (static int8) and Ethos-U, LiteRT's reference kernels, Arm's TOSA reference model and
onnx.reference take turns, so that a drift of the machine's speed hits all of them. In its turn each runs
for at least 10 ms, on the processor's time. Neutron's NPU and LiteRT run the same flatbuffer, and so do
Ethos-U and the TOSA reference model. The latter's only way to run a program is to read it in every run;
"TOSA reference reading" reads the same constants and runs an IDENTITY, so that the ratio can be given
without reading, too. Printed: the median of each, its ratio to torch's, and a device's speed by its peer's.
One thread each: the networks are too small to gain from more. The MobileNetV2 runs on XNNPACK only.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Mapping
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from networks import (
    LARGE_NETWORKS,
    NETWORKS,
    edge_for_ethosu,
    edge_for_xnnpack,
    folded,
    for_ethosu,
    for_xnnpack,
    lowered_modules,
    network,
    quantise,
    samples,
)

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.turns import Run, seconds
from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, EthosURuntime, tosa_format
from npu_assay.partitioners.ethosu.tosa_model import TModel, TOperator, TTensor
from npu_assay.partitioners.exir import to_edge
from npu_assay.partitioners.exir.run import run_delegate
from npu_assay.partitioners.neutron import NeutronRuntime, backend
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime

NAMES = (*NETWORKS, *LARGE_NETWORKS)
ETHOSU = "ethos-u85-256"
PEERS = {
    "Neutron NPU": "LiteRT reference",
    "Ethos-U NPU": "TOSA reference model",
    "Ethos-U with reading": "TOSA reference model",
}
"""What runs the same bytes."""
READING = {"TOSA reference model": "TOSA reference reading"}
"""What of a peer's run is no inference."""


def contenders(name: str) -> dict[str, Run]:
    """One call per peer; each call is one inference."""
    model, shape = network(name)
    (x,) = samples(shape, 1, seed=5)
    both = {"torch float32 eager": lambda: model(x), "XNNPACK device": _xnnpack(model, shape, x)}
    if name not in NETWORKS:
        return both
    codes = torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(5)).to(torch.int8)
    return both | _neutron(model, shape, codes) | _ethosu(model, shape, codes) | _onnx(model, x)


def _xnnpack(model: torch.nn.Module, shape: tuple[int, ...], x: torch.Tensor) -> Run:
    program = for_xnnpack(model, "static_int8_per_channel", samples(shape, 4))
    (module,) = lowered_modules(edge_for_xnnpack(program).to_backend(XnnpackPartitioner()))
    runtimes = {"XnnpackBackend": XnnpackRuntime()}
    return lambda: run_delegate(module, [x], runtimes)


def _neutron(model: torch.nn.Module, shape: tuple[int, ...], codes: torch.Tensor) -> dict[str, Run]:
    edge = to_edge(quantise(model, samples(shape, 4)))
    (module,) = lowered_modules(edge.transform(list(backend.passes)).to_backend(backend.partitioner()))
    runtimes = {"NeutronBackend": NeutronRuntime()}
    device: dict[str, Run] = {"Neutron NPU": lambda: run_delegate(module, [codes], runtimes)}
    return device | _litert(module.processed_bytes, codes.numpy())


def _litert(blob: bytes, codes: np.ndarray) -> dict[str, Run]:
    if find_spec("ai_edge_litert") is None:
        return {}
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=blob, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1
    )
    interpreter.allocate_tensors()
    (entry,) = interpreter.get_input_details()

    def run() -> None:
        interpreter.set_tensor(entry["index"], codes)
        interpreter.invoke()

    return {"LiteRT reference": run}


def _ethosu(model: torch.nn.Module, shape: tuple[int, ...], codes: torch.Tensor) -> dict[str, Run]:
    program = for_ethosu(folded(deepcopy(model)), ETHOSU, "int8_per_channel", samples(shape, 2))
    partitioner = EthosUPartitioner(EthosUCompileSpec(ETHOSU))
    (module,) = lowered_modules(edge_for_ethosu(program, ETHOSU).to_backend(partitioner))
    blob, runtime = module.processed_bytes, EthosURuntime()
    handle = runtime.load(blob)
    devices: dict[str, Run] = {
        "Ethos-U NPU": lambda: runtime.execute(handle, [codes]),
        "Ethos-U with reading": lambda: runtime.execute(runtime.load(blob), [codes]),
    }
    if find_spec("tosa_reference_model") is None:
        return devices
    from tests.crosscheck.tosa.model import run_reference

    reading = _reading(tosa_format.read(blob))
    return devices | {
        "TOSA reference model": lambda: run_reference(blob, [codes.numpy()]),
        "TOSA reference reading": lambda: run_reference(reading, [codes.numpy()]),
    }


def _reading(model: TModel) -> bytes:
    """The inputs and the constants of a program, and no operator but an IDENTITY."""
    kept = [tensor for tensor in model.tensors if tensor.data is not None or tensor.name in model.inputs]
    first = next(tensor for tensor in kept if tensor.name == model.inputs[0])
    result = TTensor("result", first.shape, first.dtype, None)
    identity = TOperator("IDENTITY", (first.name,), (result.name,), {})
    return tosa_format.write(TModel((*kept, result), model.shapes, (identity,), model.inputs, (result.name,)))


def _onnx(model: torch.nn.Module, x: torch.Tensor) -> dict[str, Run]:
    if find_spec("onnxscript") is None:
        return {}
    from onnx.reference import ReferenceEvaluator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter deprecates its own parts
        exported = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    assert exported is not None
    proto = exported.model_proto
    evaluator = ReferenceEvaluator(proto)
    feed = {proto.graph.input[0].name: x.numpy()}
    return {"onnx.reference": lambda: evaluator.run(None, feed)}


def print_table(medians: Mapping[str, float]) -> None:
    """A line for each contender."""
    base = medians["torch float32 eager"]
    for label, median in medians.items():
        faster = _faster(median, PEERS.get(label, ""), medians)
        print(f"  {label:22} {median:9.2f} ms   {median / base:7.2f} x torch{faster}")


def _faster(median: float, name: str, medians: Mapping[str, float]) -> str:
    """By how much a device is faster than its peer."""
    peer, reading = medians.get(name), medians.get(READING.get(name, ""))
    if peer is None:
        return ""
    beside = "" if reading is None else f", {(peer - reading) / median:.1f} x without its reading"
    return f"   {peer / median:6.1f} x as fast as the {name}{beside}"


def main() -> None:
    parser = argparse.ArgumentParser(description="The simulated devices beside torch, LiteRT and onnx.reference.")
    parser.add_argument("--rounds", type=int, default=15, help="timed turns of each contender")
    parser.add_argument("networks", nargs="*", default=list(NAMES), help="any of " + ", ".join(NAMES))
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # torch.onnx and torchao log which optional parts are not installed
    torch.set_num_threads(1)
    with torch.no_grad():
        for name in options.networks:
            print(name)
            taken = seconds(contenders(name), options.rounds)
            print_table({label: 1e3 * each for label, each in taken.items()})


if __name__ == "__main__":
    main()
