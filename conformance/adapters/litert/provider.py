"""LiteRT's kernels: the part that is not common to all engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npu_assay.conformance.adapters.engine import Engine, kept
from npu_assay.conformance.interchange.tflite_form import tflite_model


@kept
def _interpreter(blob: bytes, resolver: str) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # optional

    kind = getattr(OpResolverType, resolver)
    made = Interpreter(model_content=blob, experimental_op_resolver_type=kind, num_threads=1)
    made.allocate_tensors()
    return made


def _run(interpreter: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    places = interpreter.get_input_details()
    if places and not inputs:
        return []
    for place, x in zip(places, inputs, strict=True):
        interpreter.set_tensor(place["index"], x.numpy())
    interpreter.invoke()
    return [torch.from_numpy(interpreter.get_tensor(place["index"])) for place in interpreter.get_output_details()]


def reference(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of the reference kernels in this process; without inputs memory is planned and nothing is run."""
    return _run(_interpreter(blob, "BUILTIN_REF"), inputs)


def xnnpack(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """As `reference`, by an interpreter with its defaults: XNNPACK, and optimized kernels for all other operators."""
    return _run(_interpreter(blob, "AUTO"), inputs)


ENGINES = {
    name: Engine(
        name=f"litert:{name}",
        table=f"litert_{name}@2.3",
        backend_id=backend_id,
        execute=f"{__name__}:{name}",
        refused="LiteRT must plan the model's memory",
        distributions=("ai-edge-litert",),
        form=tflite_model,
        format="TFLite",
    )
    for name, backend_id in (("reference", "LiteRtReference"), ("xnnpack", "LiteRtXnnpack"))
}
