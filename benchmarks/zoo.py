"""Models that others defined, with random weights, each explained on every own backend.

    pip install -e ".[quantize]" torchvision timm transformers
    python -m benchmarks.zoo --out zoo.json [--backend neutron] [-k resnet] [--seconds 300]

A line for each model and backend; an error, a delegate without operators, or an operator that no program of its own
says, makes the exit code 1. With `--table` the file that is there is printed as the rows of docs/lab/zoo.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.asking import NO_PROGRAM
from npu_assay.conformance.explain.confining import Request, found
from npu_assay.conformance.explain.record import nothing
from npu_assay.conformance.isolation.limits import Limits

BACKENDS = ("neutron", "xnnpack", "ethos-u55", "ethos-u85")
Made = tuple[nn.Module, tuple[Tensor, ...]]


class Logits(nn.Module):
    """A model whose result is a record, as its first tensor."""

    def __init__(self, model: nn.Module, **always: Any) -> None:
        super().__init__()
        self.model, self.always = model, always

    def forward(self, *inputs: Tensor) -> Tensor:
        result = self.model(*inputs, **self.always)
        return result if isinstance(result, Tensor) else next(iter(result.values()))


def vision(name: str, size: int = 64, **more: Any) -> Callable[[], Made]:
    """A model of torchvision's, on a small image."""
    return lambda: (torchvision().get_model(name, weights=None, **more), image(size))


def torchvision() -> Any:
    """Its models. A build for another torch lacks its own operators, which none of these models calls."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision.models")


def segmented(name: str, size: int = 64) -> Callable[[], Made]:
    """A model whose result has a map of classes."""

    def make() -> Made:
        return Logits(torchvision().get_model(name, weights=None, weights_backbone=None)), image(size)

    return make


class Boxes(nn.Module):
    """A detector of the transformers library: classes and boxes of every query."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.model(x)
        return found.logits, found.pred_boxes


def yolos() -> Made:
    """A small detector of tokens."""
    torchvision()  # which it imports
    library = importlib.import_module("transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = library.YolosConfig(image_size=[64, 64], num_detection_tokens=10, num_labels=8, **sizes)
    return Boxes(library.YolosForObjectDetection(config)), image(64)


def timm(name: str, size: int = 64, **more: Any) -> Callable[[], Made]:
    """A model of timm's, on a small image."""

    def make() -> Made:
        torchvision()  # which timm imports
        return importlib.import_module("timm").create_model(name, pretrained=False, **more), image(size)

    return make


def image(size: int) -> tuple[Tensor, ...]:
    return (torch.randn(1, 3, size, size),)


def language(kind: str, *, whole: bool = False, **more: Any) -> Callable[[], Made]:
    """A small model of the transformers library, on 16 tokens."""

    def make() -> Made:
        torchvision()  # which it imports
        library = importlib.import_module("transformers")
        config = getattr(library, f"{kind}Config")(**more)
        model = getattr(library, f"{kind}{'ForCausalLM' if whole else 'Model'}")(config)
        return Logits(model, use_cache=False) if whole else Logits(model), (torch.randint(0, 90, (1, 16)),)

    return make


SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
GPT = {"vocab_size": 96, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32}


class Last(nn.Module):
    """The results of a recurrent layer, without its state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0])  # type: ignore[no-any-return]


class Cached(nn.Module):
    """One step of attention with a cache of keys and values that the caller keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, values = torch.cat([keys[:, 1:], self.k(x)], 1), torch.cat([values[:, 1:], self.v(x)], 1)
        scores = self.q(x) @ keys.transpose(1, 2) / 8 + mask
        return self.out(scores.softmax(-1) @ values), keys, values


def audio() -> Made:
    """A classifier of spectrograms over time."""
    return (
        nn.Sequential(
            nn.Conv1d(40, 64, 5), nn.ReLU(), nn.Conv1d(64, 64, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2944, 12)
        ),
        (torch.randn(1, 40, 98),),
    )


ZOO: dict[str, Callable[[], Made]] = {
    **{
        f"torchvision/{name}": vision(name)
        for name in (
            *(
                "mobilenet_v2",
                "mobilenet_v3_small",
                "resnet18",
                "squeezenet1_1",
                "shufflenet_v2_x0_5",
                "efficientnet_b0",
            ),
            *(
                "mnasnet0_5",
                "googlenet",
                "densenet121",
                "regnet_y_400mf",
                "vgg11",
                "alexnet",
                "convnext_tiny",
                "swin_t",
            ),
        )
    },
    "torchvision/vit_b_32": vision("vit_b_32", image_size=64, num_classes=10),
    "torchvision/lraspp_mobilenet_v3_large": segmented("lraspp_mobilenet_v3_large"),
    "torchvision/deeplabv3_mobilenet_v3_large": segmented("deeplabv3_mobilenet_v3_large"),
    **{
        f"timm/{name}": timm(name)
        for name in (
            "ghostnet_100",
            "tinynet_e",
            "repvgg_a0",
            "edgenext_xx_small",
            "mobilevit_xxs",
            "mobilenetv4_conv_small",
        )
    },
    "timm/deit_tiny_patch16_224": timm("deit_tiny_patch16_224", img_size=64),
    "timm/mixer_s32_224": timm("mixer_s32_224", 224),
    "transformers/bert": language("Bert", **SMALL),
    "transformers/distilbert": language("DistilBert", vocab_size=96, dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "transformers/gpt2": language("GPT2", whole=False, **GPT),
    "transformers/llama": language("Llama", whole=True, num_key_value_heads=2, **SMALL),
    "transformers/yolos": yolos,
    "torch/lstm": lambda: (Last(nn.LSTM(16, 32, batch_first=True)), (torch.randn(1, 12, 16),)),
    "torch/gru": lambda: (Last(nn.GRU(16, 32, batch_first=True)), (torch.randn(1, 12, 16),)),
    "torch/attention_with_a_cache": lambda: (
        Cached(),
        (torch.randn(1, 1, 64), torch.randn(1, 8, 64), torch.randn(1, 8, 64), torch.zeros(1, 1, 8)),
    ),
    "torch/encoder": lambda: (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (torch.randn(1, 16, 64),)),
    "torch/spectrogram": audio,
}


def __getattr__(name: str) -> Any:
    """`benchmarks.zoo:resnet18` is the factory of that model: the name behind the slash."""
    for full, make in ZOO.items():
        if full.partition("/")[2] == name:
            return lambda: seeded(make)
    raise AttributeError(name)


def seeded(make: Callable[[], Made]) -> Made:
    """A model with the same random weights every time."""
    torch.manual_seed(0)
    module, inputs = make()
    return module.eval(), inputs


@dataclass(frozen=True)
class Line:
    """What became of one model on one backend; seconds of all of it."""

    model: str
    backend: str
    operators: int
    taken: int
    delegates: int
    macs: float
    causes: int
    sqnr: float | None
    seconds: float
    error: str


def line(model: str, backend: str, seconds: float) -> Line:
    """Explain one model on one backend."""
    began = time.perf_counter()
    request = Request(f"benchmarks.zoo:{model.partition('/')[2]}", (backend,), "random", Limits(seconds, 8192))
    try:
        one = found(request, 1).explanation.backends[0]
    except UsageError as refused:
        one = nothing(backend, str(refused))
    took = time.perf_counter() - began
    sqnr = next((each.sqnr for each in one.numbers if (each.given, each.wanted) == ("device", "quantized")), None)
    delegates = len({each.delegate for each in one.taken})
    error = one.error or ("" if delegates == len(one.delegates) else "delegates without operators")
    error = error or "; ".join(cause.sentence for cause in one.causes if cause.code == NO_PROGRAM)
    return Line(
        model,
        backend,
        len(one.operators),
        len(one.taken),
        len(one.delegates),
        one.share,
        len(one.causes),
        sqnr,
        took,
        error,
    )


def lines(models: list[str], backends: list[str], seconds: float) -> Iterator[Line]:
    """All of them, on all cores."""
    jobs = [(model, backend, seconds) for model in models for backend in backends]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        yield from pool.map(line, *zip(*jobs, strict=True))


def rows(told: Sequence[Line]) -> Iterator[str]:
    """A row for each model: operators delegated, delegates, share of multiply-accumulates on each backend."""
    found = {(each.model, each.backend): each for each in told}
    for model in dict.fromkeys(each.model for each in told):
        cells = (_cell(found.get((model, backend))) for backend in BACKENDS)
        yield f"| {model} | {' | '.join(cells)} |"


def _cell(one: Line | None) -> str:
    if one is None:
        return "-"
    if one.error:
        return "error"
    share = "" if one.macs == 1 else f", {100 * one.macs:.1f} % of MACs"
    return f"{one.taken} of {one.operators} in {one.delegates}{share}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--backend", action="append")
    parser.add_argument("-k", default="")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print("\n".join(rows([Line(**each) for each in json.loads(given.out.read_text())])))
        return
    models = [name for name in ZOO if given.k in name]
    told = []
    for each in lines(models, given.backend or list(BACKENDS), given.seconds):
        told.append(asdict(each))
        print(
            f"{each.model:<44} {each.backend:<10} {each.taken:>4} of {each.operators:<4} {each.delegates:>3} delegates "
            f"{100 * each.macs:5.1f} % {each.seconds:6.1f} s {each.error[:300]}",
            flush=True,
        )
        given.out.write_text(json.dumps(told, indent=1))
    sys.exit(any(each["error"] for each in told))


if __name__ == "__main__":
    main()
