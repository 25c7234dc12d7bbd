"""A backend of one operator, which npu-assay does not know: `assay_glu`, installed beside it, brings that."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import Backend, BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.nodes import argument, shape
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.exir.single_op import Cluster, ClusterPartitioner, only_cluster

TABLE = str(Path(__file__).with_name("glu_npu@1.0.toml"))


@rule("gates_fit")
def gates_fit(node: fx.Node, cluster: Cluster | None) -> str | None:
    """at most 64 gates side by side"""
    found = shape(node.args[0])[argument(node, 1, "dim", -1)] // 2
    return f"{found} gates" if found > 64 else None


class GluPartitioner(ClusterPartitioner):
    """Every quantized glu whose gates fit."""

    backend_id = "GluNpuBackend"
    rules: ClassVar = {"aten.glu.default": (gates_fit,)}


class GluNpuBackend(BackendDetails):
    """Its name is the backend id."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """What the operator is, and the codes of a constant, as JSON."""
        header, constants = only_cluster(edge_program).describe()
        return PreprocessResult(json.dumps(header | {"constants": [codes.tolist() for codes in constants]}).encode())


class GluRuntime:
    """The device: gates from a table of 256, products of integers, one rounding."""

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        """What the compiler wrote, and the gates of every code in steps of 2**-30."""
        header = json.loads(processed_bytes)
        (x,) = header["operands"]
        reals = (torch.arange(-128, 128, dtype=torch.float64) - x["zero_point"]) * x["scale"]
        return header, torch.round(torch.sigmoid(reals) * 2**30).to(torch.int64)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The codes of the result."""
        header, gates = handle
        (x,), y = header["operands"], header["output"]
        codes = inputs[0].to(torch.int64) if "input" in x else torch.tensor(header["constants"][x["constant"]])
        first, second = codes.chunk(2, header["arguments"]["dim"])
        products = (first - x["zero_point"]) * gates[second + 128]
        steps = torch.floor(products * (x["scale"] / y["scale"] / 2**30) + 0.5).to(torch.int64)
        return [(steps + y["zero_point"]).clamp(y["qmin"], y["qmax"]).to(torch.int8).contiguous()]


backend = Backend("glu_npu", TABLE, GluPartitioner, GluNpuBackend, GluRuntime())
