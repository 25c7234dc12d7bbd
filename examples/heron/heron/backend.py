"""The compiler: one quantized operator to a JSON header and arrays of integers."""

import torch
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.blob import pack
from npu_assay.partitioners.exir.single_op import lookup_table, only_cluster

TABLES = {"aten.relu.default": torch.relu, "aten.sigmoid.default": torch.sigmoid, "aten.tanh.default": torch.tanh}


class HeronBackend(BackendDetails):
    """Its name is the backend id."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The operator's name, quantization and arguments, its constants, and for some a table of its results."""
        cluster = only_cluster(edge_program)
        header, arrays = cluster.describe()
        if cluster.op in TABLES:
            header["operands"].append({"scale": cluster.output.scale32, "zero_point": 0, "constant": len(arrays)})
            header["arguments"] = {"first": -128 - cluster.operands[0].qparams.zero_point}
            arrays.append(lookup_table(TABLES[cluster.op], cluster.operands[0].qparams, cluster.output))
        return PreprocessResult(pack(header, arrays))
