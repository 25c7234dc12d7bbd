"""A backend as an outsider writes one: abs and neg, a JSON blob, and faulty copies of it.

Load it as `fake_backend:backend`, with the table in tests/data.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.faults import Fault
from npu_assay.partitioners.common.int8.elementwise import abs_, sub
from npu_assay.partitioners.exir import (
    Backend,
    BackendDetails,
    CompileSpec,
    DelegationSpec,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    Rejection,
)
from npu_assay.partitioners.exir.backend import BlobCheck
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, edge_op, target_name
from npu_assay.reference.affine import Affine

LIMITS = {"aten.abs.default": 2**23, "aten.neg.default": 2**19}  # output steps per input step
TAG = "delegation_tag"
BACKEND_ID = "FakeBackend"


def _name(node: Any) -> str:
    return target_name(node.target) if isinstance(node, fx.Node) else ""


def _scale(node: fx.Node) -> float:
    scale = node.args[1]
    assert isinstance(scale, float)
    return scale


def _is_supported(node: fx.Node) -> bool:
    before = all(_name(argument) in DEQUANTIZE for argument in node.all_input_nodes)
    return before and all(_name(user) in QUANTIZE for user in node.users)


class FakePartitioner(Partitioner):
    """One partition for each quantized abs or neg."""

    def __init__(self) -> None:
        super().__init__()
        self.rejections: list[Rejection] = []

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        self.rejections = []
        tags: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            if _name(node) in LIMITS and self.takes(node):
                tag = f"fake_{len(tags)}"
                tags[tag] = DelegationSpec(BACKEND_ID, [])
                for member in (node, *node.all_input_nodes, *node.users):
                    member.meta[TAG] = tag
        return PartitionResult(exported_program, tags)

    def takes(self, node: fx.Node) -> bool:
        if not _is_supported(node):
            return self.reject(node, "quantized", "a float operand", "operands and result must be quantized")
        if any(type(size) is not int for size in node.meta["val"].shape):
            return self.reject(node, "static_shape", "a dynamic size", "every dimension must be at least 1")
        if node.meta["val"].numel() == 0:
            return self.reject(node, "static_shape", "no elements", "every dimension must be at least 1")
        if not node.users:
            return self.reject(node, "quantized", "no reader", "operands and result must be quantized")
        x, y = (_scale(n) for n in (node.all_input_nodes[0], next(iter(node.users))))
        ratio = x / y
        if ratio >= LIMITS[_name(node)]:
            return self.reject(node, "rescale", f"{ratio:g}", "too many output steps for each input step")
        return True

    def reject(self, node: fx.Node, code: str, found: str, sentence: str) -> bool:
        self.rejections.append(Rejection(node.name, _name(node), code, found, sentence))
        return False


class FakeBackend(BackendDetails):
    """Writes operator and quantization as JSON."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        nodes = [n for n in edge_program.graph.nodes if n.op == "call_function"]
        (node,) = [n for n in nodes if _name(n) in LIMITS]
        x, y = (n.args[1:3] for n in (node.args[0], *node.users))
        return PreprocessResult(json.dumps({"op": _name(node), "x": x, "y": y}).encode())


class FakeRuntime:
    """Executes the JSON with the reference kernels."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        blob = json.loads(processed_bytes)
        x, y = Affine(*blob["x"]), Affine(*blob["y"])
        if blob["op"] == "aten.abs.default":
            return abs_(x, y)
        zero = torch.tensor(x.zero_point, dtype=torch.int8)
        difference = sub(x, x, y)
        return lambda codes: difference(zero, codes)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [handle(inputs[0])]


TABLE = str(Path(__file__).parent / "data" / "fake@1.0.toml")

backend = Backend("fake", TABLE, FakePartitioner, FakeBackend, FakeRuntime())
without_runtime = Backend("fake", TABLE, FakePartitioner, FakeBackend)
without_compiler = Backend("fake", TABLE, FakePartitioner)

# ------------------------------------------------------------------------------------ faulty copies


class Refuses(FakePartitioner):
    """Rejects neg with a reason that the table does not know."""

    def takes(self, node: fx.Node) -> bool:
        if _name(node) == "aten.neg.default":
            return self.reject(node, "mood", "a bad one", "the mood must be good")
        return super().takes(node)


class Crashes(FakePartitioner):
    """Raises on neg."""

    def takes(self, node: fx.Node) -> bool:
        if _name(node) == "aten.neg.default":
            raise KeyError(f"no rule at {hex(id(node))}")
        return super().takes(node)


class Dies(FakePartitioner):
    """Ends its process on neg."""

    def takes(self, node: fx.Node) -> bool:
        if _name(node) == "aten.neg.default":
            os._exit(3)
        return super().takes(node)


class Hangs(FakePartitioner):
    """Never returns on neg."""

    def takes(self, node: fx.Node) -> bool:
        while _name(node) == "aten.neg.default":
            time.sleep(60)
        return super().takes(node)


class Dawdles(FakePartitioner):
    """Takes its time."""

    def takes(self, node: fx.Node) -> bool:
        time.sleep(0.1)
        return super().takes(node)


class Wavers(FakePartitioner):
    """Takes neg every second time."""

    turns = itertools.count()

    def takes(self, node: fx.Node) -> bool:
        return super().takes(node) and (_name(node) == "aten.abs.default" or next(self.turns) % 2 == 0)


class Drifts(FakeRuntime):
    """Off by one LSB on every output."""

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [torch.where(output < 127, output + 1, output) for output in super().execute(handle, inputs)]


class Scribbles(FakeRuntime):
    """Overwrites its input."""

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        outputs = super().execute(handle, inputs)
        inputs[0].zero_()
        return outputs


class Unsteady(FakeBackend):
    """Never writes the same blob twice."""

    serial = itertools.count()

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        blob = json.loads(FakeBackend.preprocess(edge_program, compile_specs).processed_bytes)
        return PreprocessResult(json.dumps(blob | {"serial": next(Unsteady.serial)}).encode())


class Hollow(FakePartitioner):
    """Tags a dequantize node alone."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        node = next(n for n in exported_program.graph.nodes if _name(n) in DEQUANTIZE)
        node.meta[TAG] = "hollow"
        return PartitionResult(exported_program, {"hollow": DelegationSpec(BACKEND_ID, [])})


class Copies(FakeBackend):
    """Compiles anything to nothing."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult(b"")


class Misfiles(FakeBackend):
    """Cannot compile what its partitioner takes."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        raise ValueError("cannot compile")


class Rewrites(FakePartitioner):
    """Halves every scale that it sees."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        result = super().partition(exported_program)
        for node in result.tagged_exported_program.graph.nodes:
            if _name(node) in QUANTIZE:
                node.args = (node.args[0], node.args[1] / 2, *node.args[2:])
        return result


def flatten(module: fx.GraphModule) -> None:
    """A pass that makes every output of the model a line."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    with module.graph.inserting_before(output):
        lines = []
        for node in output.args[0]:
            line = module.graph.call_function(edge_op("aten.view_copy.default"), (node, [-1]))
            line.meta = node.meta | {"val": node.meta["val"].reshape(-1)}
            lines.append(line)
    output.args = (tuple(lines),)


class Garbles(FakeRuntime):
    """Returns a tensor of another shape."""

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [output.flatten()[:1] for output in super().execute(handle, inputs)]


class Dequantises:
    """Runs what `Hollow` tags, with made-up numbers."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        return None

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [inputs[0].to(torch.float32)]


def refusal(blob: bytes, compile_specs: Sequence[CompileSpec]) -> str:
    """What a further compiler has against every neg."""
    return "found neg, expected abs" if b"neg" in blob else ""


refuses = replace(backend, partitioner=Refuses)
crashes = replace(backend, partitioner=Crashes)
dies = replace(backend, partitioner=Dies)
slow = replace(backend, partitioner=Dawdles)
wavers = replace(backend, partitioner=Wavers)
drifts = replace(backend, runtime=Drifts())
scribbles = replace(backend, runtime=Scribbles())
unsteady = replace(backend, details=Unsteady)
hollow = replace(backend, partitioner=Hollow, details=Copies, runtime=Dequantises())
misfiles = replace(backend, details=Misfiles)
garbles = replace(backend, runtime=Garbles())
rewrites = replace(backend, partitioner=Rewrites)
flattens = replace(backend, passes=(flatten,))
checked = replace(backend, blob_checks={"vela": BlobCheck("pytest", refusal)})
uncheckable = replace(backend, blob_checks={"vela": BlobCheck("no-such-compiler", refusal)})


def catalogue(right: Backend) -> tuple[Fault, ...]:
    """Faults of every kind of end."""
    neg = ("aten.neg.default/",)
    return (
        Fault("one_off", "device", "rounding", replace(right, runtime=Drifts()), neg, frozenset({"gate1"})),
        Fault("ends", "partitioner", "other", replace(right, partitioner=Dies), neg),
        Fault("hangs", "partitioner", "other", replace(right, partitioner=Hangs), neg),
        Fault("none", "compiler", "other", right, neg),
    )


class Strays(FakePartitioner):
    """Fails on nothing's absolute value, leaves neg of rank 1, takes abs at any ratio."""

    def takes(self, node: fx.Node) -> bool:
        if node.meta["val"].numel() == 0:
            raise ValueError("nothing to compute")
        if _name(node) == "aten.neg.default" and node.meta["val"].dim() == 1:
            return self.reject(node, "mood", "a bad one", "the mood must be good")
        taken = super().takes(node)
        if not taken and self.rejections[-1].code == "rescale" and _name(node) == "aten.abs.default":
            self.rejections.pop()
            return True
        return taken


class MisfilesSome(FakeBackend):
    """Cannot compile neg of rank 3."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        for node in edge_program.graph.nodes:
            if _name(node) == "aten.neg.default" and node.meta["val"].dim() == 3:
                raise ValueError("cannot compile")
        return FakeBackend.preprocess(edge_program, compile_specs)


class DriftsOnImages(Drifts):
    """Off by one LSB on outputs of rank 2."""

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        return super().execute(handle, inputs) if inputs[0].dim() == 2 else FakeRuntime.execute(self, handle, inputs)


strays = replace(backend, partitioner=Strays, details=MisfilesSome, runtime=DriftsOnImages())
