"""Questions, inputs and answers as bytes: a line of JSON, and of answers the bytes of blobs and tensors after it.

A question comes from the judge and is believed. An answer comes from a process in which a backend may have written what
it likes: it is read by its shape, never unpickled, and what does not fit is an AnswerError.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from torch import Tensor

from npu_assay.conformance.common.describing import FRAMES, WIDTH
from npu_assay.conformance.common.shapes import OF_ANY_KEY, check_shape
from npu_assay.conformance.programs.build import REALS
from npu_assay.conformance.programs.checks import Refuses
from npu_assay.conformance.programs.graph import ChannelsLast, Fill, Graph, LayerInParts, Quant, Ref, Step, Value
from npu_assay.conformance.record.results import Failure, failure_of
from npu_assay.conformance.record.tensor_text import pack, unpack
from npu_assay.conformance.run.outline import Node
from npu_assay.conformance.run.question import Answer, Handed, Inputs, Question


class AnswerError(ValueError):
    """What came is no answer to what was asked."""


# ------------------------------------------------------------------------------------ questions


def question_bytes(question: Question) -> bytes:
    """A question as `read_question` takes it."""
    data = vars(question) | {"graph": _graph(question.graph), "options": _written(question.options)}
    if question.beside is not None:
        data["beside"] = _graph(question.beside)
    return json.dumps(data).encode()


def read_question(text: bytes) -> Question:
    """The question that `question_bytes` wrote."""
    data = json.loads(text)
    data |= {"graph": _read_graph(data["graph"]), "options": _read(data["options"])}
    data |= {key: tuple(data[key]) for key in ("preserve", "tools")}
    if data["beside"] is not None:
        data["beside"] = _read_graph(data["beside"])
    return Question(**data)


def inputs_bytes(inputs: Inputs) -> bytes:
    """A program's inputs as `read_inputs` takes them."""
    runs = [list(map(vars, fills)) for fills in (*inputs.runs, inputs.beside)]
    return json.dumps([*runs, inputs.sizes]).encode()


def read_inputs(text: bytes) -> Inputs:
    """The inputs that `inputs_bytes` wrote."""
    *written, sizes = json.loads(text)
    *runs, beside = (tuple(map(_read_fill, fills)) for fills in written)
    return Inputs(tuple(runs), _read(sizes), beside)


def _graph(graph: Graph) -> dict[str, Any]:
    """JSON of a graph: tuples become lists, references objects."""
    steps = [vars(step) | {key: _written(getattr(step, key)) for key in ("args", "kwargs")} for step in graph.steps]
    steps = [step | {"quant": _quant(step["quant"])} for step in steps]
    steps = [
        s | ({"parts": True} if isinstance(of, LayerInParts) else {}) for s, of in zip(steps, graph.steps, strict=True)
    ]
    values = [_value(value) for value in graph.values]
    return {"values": values, "steps": steps, "outputs": _written(graph.outputs)}


def _value(value: Value) -> dict[str, Any]:
    last = {"channels_last": True} if isinstance(value, ChannelsLast) else {}
    return vars(value) | {"quant": _quant(value.quant), "fill": vars(value.fill)} | last


def _quant(quant: Quant | None) -> dict[str, Any] | None:
    return None if quant is None else vars(quant)


def _written(argument: Any) -> Any:
    if isinstance(argument, Ref | Refuses):
        return vars(argument)
    return [_written(item) for item in argument] if isinstance(argument, tuple) else argument


def _read(argument: Any) -> Any:
    if isinstance(argument, dict):
        return Refuses(**argument) if "step" in argument else Ref(**argument)
    return tuple(map(_read, argument)) if isinstance(argument, list) else argument


def _read_graph(data: dict[str, Any]) -> Graph:
    return Graph(tuple(map(_read_value, data["values"])), tuple(map(_read_step, data["steps"])), _read(data["outputs"]))


def _read_value(data: dict[str, Any]) -> Value:
    fill = _read_fill(data["fill"])
    lists = {key: tuple(data[key]) for key in ("shape", "dynamic")}
    made = ChannelsLast if data.pop("channels_last", False) else Value
    return made(**data | lists | {"quant": _read_quant(data["quant"]), "fill": fill})


def _read_fill(data: dict[str, Any]) -> Fill:
    return Fill(**{key: _read(item) for key, item in data.items()})


def _read_step(data: dict[str, Any]) -> Step:
    quant = _read_quant(data["quant"])
    made = LayerInParts if data.pop("parts", False) else Step
    return made(**{key: _read(item) for key, item in data.items() if key != "quant"}, quant=quant)


def _read_quant(data: dict[str, Any] | None) -> Quant | None:
    return None if data is None else Quant(**{key: _read(item) for key, item in data.items()})


# ------------------------------------------------------------------------------------ answers

_TENSOR = {"dtype": str, "shape": [int], "at": int}
_FAILURES = [{"check": str, "message": str, "trace": [str]}]
_SHAPE = {
    "question": str,
    "nodes": [{"name": str, "target": str, "step": str, "inputs": [str], "grid": [(float, str)]}],
    "tags": ({OF_ANY_KEY: str}, None),
    "tags_again": ({OF_ANY_KEY: str}, None),
    "rejections": ([[str]], None),
    "blobs": ([int], None),
    "blobs_again": [int],
    "handed": [{"blob": int, "specs": [[(str, int)]], "inputs": [_TENSOR], "outputs": [_TENSOR]}],
    "runs": {OF_ANY_KEY: [_TENSOR]},
    "expected": ([_TENSOR], None),
    "early": _FAILURES,
    "ran": _FAILURES,
    "late": _FAILURES,
    "behind": _FAILURES,
    "error": (_FAILURES[0], None),
    "finished": bool,
    "buffers": [int],
}


@dataclass
class _Writer:
    """The bytes that go after the line."""

    buffers: list[bytes] = field(default_factory=list)

    def data(self, item: bytes) -> int:
        """Where bytes stand."""
        self.buffers.append(item)
        return len(self.buffers) - 1

    def tensors(self, items: Sequence[Tensor]) -> list[dict[str, Any]]:
        """Raises TypeError for anything else."""
        return [self._tensor(item) for item in items]

    def _tensor(self, item: Tensor) -> dict[str, Any]:
        if not isinstance(item, Tensor):
            raise TypeError(f"output: found a {type(item).__name__}, expected a tensor")
        dtype, shape, numbers = pack(item)
        return {"dtype": dtype, "shape": list(shape), "at": self.data(numbers)}

    def handed(self, each: Handed) -> dict[str, Any]:
        specs = [[key, self.data(value)] for key, value in each.specs]
        tensors = {"inputs": self.tensors(each.inputs), "outputs": self.tensors(each.outputs)}
        return {"blob": self.data(each.blob), "specs": specs, **tensors}


def answer_bytes(question: str, answer: Answer) -> bytes:
    """An answer to the question of this name, as `read_answer` takes it."""
    writer = _Writer()
    data = vars(answer) | {
        "question": question,
        "nodes": [vars(node) for node in answer.nodes],
        "blobs": None if answer.blobs is None else [writer.data(blob) for blob in answer.blobs],
        "blobs_again": [writer.data(blob) for blob in answer.blobs_again],
        "handed": [writer.handed(each) for each in answer.handed],
        "runs": {name: writer.tensors(outputs) for name, outputs in answer.runs.items()},
        "expected": None if answer.expected is None else writer.tensors(answer.expected),
        **{key: [vars(each) for each in getattr(answer, key)] for key in ("early", "ran", "late", "behind")},
        "error": None if answer.error is None else vars(answer.error),
        "buffers": [len(each) for each in writer.buffers],
    }
    return b"\n".join([json.dumps(data).encode(), b"".join(writer.buffers)])


def read_answer(question: str, text: bytes) -> Answer:
    """The answer to a question. Raises AnswerError for anything else than `answer_bytes` writes."""
    line, _, rest = text.partition(b"\n")
    try:
        data = json.loads(line)
        check_shape(data, _SHAPE)
        if data.pop("question") != question:
            raise ValueError("question: found the answer to another program, expected that to the program asked about")
        return _read_answer(data, _buffers(data.pop("buffers"), rest))
    except (ValueError, RecursionError, IndexError) as error:
        raise AnswerError(str(error)) from error


def _buffers(sizes: Sequence[int], rest: bytes) -> list[bytes]:
    """Raises ValueError when there is more, or less, than these."""
    if sum(sizes) != len(rest) or any(size < 0 for size in sizes):
        raise ValueError(f"found {len(rest)} bytes, expected {sum(sizes)}")
    return [rest[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


def _read_answer(data: dict[str, Any], buffers: Sequence[bytes]) -> Answer:
    def tensors(items: Any) -> list[Tensor]:
        return [_tensor(item, buffers) for item in items]

    def failures(key: str) -> list[Failure]:
        return list(map(_read_failure, data[key]))

    return Answer(
        nodes=tuple(map(_read_node, data["nodes"])),
        tags=data["tags"],
        tags_again=data["tags_again"],
        rejections=None if data["rejections"] is None else tuple(map(_rejection, data["rejections"])),
        blobs=None if data["blobs"] is None else [_at(index, buffers) for index in data["blobs"]],
        blobs_again=[_at(index, buffers) for index in data["blobs_again"]],
        handed=[_read_handed(each, buffers) for each in data["handed"]],
        runs={name: tensors(items) for name, items in data["runs"].items()},
        expected=None if data["expected"] is None else tensors(data["expected"]),
        early=failures("early"),
        ran=failures("ran"),
        late=failures("late"),
        behind=failures("behind"),
        error=None if data["error"] is None else _read_failure(data["error"]),
        finished=data["finished"],
    )


def _read_failure(data: dict[str, Any]) -> Failure:
    """A failure whose trace is no longer than one that `frames` makes."""
    failure = failure_of(data)
    return replace(failure, trace=tuple(frame[:WIDTH] for frame in failure.trace[-FRAMES:]))


def _read_node(data: dict[str, Any]) -> Node:
    return Node(**data | {"inputs": tuple(data["inputs"]), "grid": tuple(data["grid"])})


def _rejection(texts: Sequence[str]) -> tuple[str, str, str, str]:
    node, code, found, sentence = texts
    return node, code, found, sentence


def _read_handed(data: dict[str, Any], buffers: Sequence[bytes]) -> Handed:
    specs = tuple((str(key), _at(int(index), buffers)) for key, index in data["specs"])
    inputs, outputs = (tuple(_tensor(item, buffers) for item in data[key]) for key in ("inputs", "outputs"))
    return Handed(_at(data["blob"], buffers), specs, inputs, outputs)


def _at(index: int, buffers: Sequence[bytes]) -> bytes:
    if index < 0:
        raise IndexError(f"buffer {index}")
    return buffers[index]


def _tensor(data: dict[str, Any], buffers: Sequence[bytes]) -> Tensor:
    """Raises ValueError for bytes that are not those of such a tensor."""
    dtype, shape, numbers = data["dtype"], tuple(data["shape"]), _at(data["at"], buffers)
    if dtype not in REALS:
        raise ValueError(f"tensor: found type {dtype!r}, expected one of {sorted(REALS)}")
    size = math.prod(shape) * REALS[dtype].itemsize
    if any(n < 0 for n in shape) or len(shape) > RANK or size != len(numbers):
        raise ValueError(f"tensor: found {len(numbers)} bytes, expected those of {dtype}{list(shape)}")
    return unpack((dtype, shape, numbers))


RANK = 64
"""torch's tensors have at most so many axes."""
