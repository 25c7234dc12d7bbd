"""The simulated devices beside torch on the models of the zoo: whole programs, in one run, by family.

    pip install -e ".[quantize]" torchvision timm transformers
    python -m benchmarks.devices [--backend "xnnpack fp32"] [-k torch/] [--rounds 7]

Each model is lowered once for each backend ("xnnpack fp32": not quantized); then torch float32 eager and the lowered
programs take turns, so that a drift of the machine's speed hits all of them. Printed: the median processor time of a
run, as a multiple of torch's, and the geometric mean of these for each family. One thread each. A model that is not
lowered is told, and counts nowhere.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.turns import Run, seconds
from benchmarks.zoo import BACKENDS, ZOO, seeded
from npu_assay.conformance.backend.loading import load_whole
from npu_assay.conformance.explain.explaining import How, told
from npu_assay.conformance.explain.lowered import lower
from npu_assay.conformance.explain.models import model_of, quantize
from npu_assay.partitioners.exir import run_program

FP32 = "xnnpack fp32"
RECURRENT = ("torch/lstm", "torch/gru")
TRANSFORMERS = ("swin", "vit", "deit", "mixer", "transformers/", "attention", "encoder")


def family(model: str) -> str:
    """Which geometric mean a model counts in."""
    if model in RECURRENT:
        return "recurrent"
    return "transformers" if any(part in model for part in TRANSFORMERS) else "convolutional"


def contenders(model: str, backends: list[str]) -> Iterator[tuple[str, Run]]:
    """torch, and the lowered program of each backend; each call is one run of the model."""
    module, inputs = seeded(ZOO[model])
    yield "torch", lambda: module(*inputs)
    described = model_of(torch.export.export(module, inputs), [inputs])
    for name in backends:
        backend = load_whole(name.partition(" ")[0])
        try:
            program = described.program
            if name != FP32:
                program = quantize(described, How().quantizer(backend), [inputs]).program
            edge = lower(program, backend).manager.exported_program()
        except Exception as error:  # noqa: BLE001  (a backend may raise anything)
            print(f"{model}: {name}: {told(error)}", flush=True)
            continue
        runtimes = {backend.details.__name__: backend.runtime}
        yield name, lambda edge=edge, runtimes=runtimes: run_program(edge, inputs, runtimes)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", action="append", help=f'any of {", ".join(BACKENDS)}, "{FP32}"')
    parser.add_argument("-k", default="", help="models with this in their names")
    parser.add_argument("--rounds", type=int, default=7, help="timed turns of each contender")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")  # of the quantizer, on random numbers
    torch.set_num_threads(1)
    found: dict[tuple[str, str], list[float]] = {}
    for model in (name for name in ZOO if given.k in name):
        with torch.no_grad():
            taken = seconds(dict(contenders(model, given.backend or [*BACKENDS, FP32])), given.rounds)
        ratios = {name: each / taken["torch"] for name, each in taken.items() if name != "torch"}
        for name, ratio in ratios.items():
            found.setdefault((family(model), name), []).append(ratio)
        cells = ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
        print(f"{model:<44} torch {1e3 * taken['torch']:.2f} ms; x torch: {cells}", flush=True)
    for (kind, name), each in sorted(found.items()):
        print(f"{kind:<14} {name:<14} {statistics.geometric_mean(each):6.1f} x torch, {len(each)} models")


if __name__ == "__main__":
    main()
