"""What a backend and a partitioner are. `to_backend` is in `backend_api`, which needs the rest of the export API."""

from npu_assay.partitioners.exir.backend.backend import (
    Backend,
    BlobCheck,
    ConstantPass,
    NamedDataRuntime,
    NoRuntime,
    Pass,
    Rejection,
    Runtime,
)
from npu_assay.partitioners.exir.backend.backend_details import BackendDetails, NoCompiler, PreprocessResult
from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec

__all__ = [
    "Backend",
    "BackendDetails",
    "BlobCheck",
    "CompileSpec",
    "ConstantPass",
    "NamedDataRuntime",
    "NoCompiler",
    "NoRuntime",
    "Pass",
    "PreprocessResult",
    "Rejection",
    "Runtime",
]
