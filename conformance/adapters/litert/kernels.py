"""LiteRT's interpreter as a device program: numpy and ai-edge-litert, nothing of the suite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType


@lru_cache(2)  # as many models as one case runs in turn
def _interpreter(model: bytes, resolver: str) -> Any:
    kind = getattr(OpResolverType, resolver)
    made = Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
    made.allocate_tensors()
    return made


def _run(interpreter: Any, inputs: Sequence[Any]) -> list[Any]:
    places = interpreter.get_input_details()
    if places and not inputs:
        return []
    for place, x in zip(places, inputs, strict=True):
        interpreter.set_tensor(place["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(place["index"]) for place in interpreter.get_output_details()]


def reference(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of the reference kernels; without inputs memory is planned and nothing is run."""
    return _run(_interpreter(model, "BUILTIN_REF"), inputs)


def xnnpack(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """As `reference`, by an interpreter with its defaults: XNNPACK, and optimized kernels for all other operators."""
    return _run(_interpreter(model, "AUTO"), inputs)
