"""The export API: edge programs, partitioners, delegates."""

from npu_assay.partitioners.exir.backend import (
    Backend,
    BackendDetails,
    CompileSpec,
    PreprocessResult,
    Rejection,
    Runtime,
)
from npu_assay.partitioners.exir.backend.backend_api import LoweredBackendModule, to_backend
from npu_assay.partitioners.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from npu_assay.partitioners.exir.config import EdgeCompileConfig
from npu_assay.partitioners.exir.constants import tag_constant_data, tag_mutated_buffer
from npu_assay.partitioners.exir.edge import to_edge
from npu_assay.partitioners.exir.errors import BackendError, ContractError, EdgeError, ExirError, InputError
from npu_assay.partitioners.exir.execution.config import ExecutorchBackendConfig, MemoryPlanningPass
from npu_assay.partitioners.exir.executorch_manager import ExecutorchProgramManager
from npu_assay.partitioners.exir.lowered import delegates
from npu_assay.partitioners.exir.manager import EdgeProgramManager
from npu_assay.partitioners.exir.program import EdgeProgram, EdgeVerifier, copy_program, edge_program
from npu_assay.partitioners.exir.run import register_runtime, run_program
from npu_assay.partitioners.exir.transform import apply_passes, transform_program
from npu_assay.partitioners.exir.transform_and_lower import to_edge_transform_and_lower
from npu_assay.partitioners.exir.values import fill_values

__all__ = [
    "Backend",
    "BackendDetails",
    "BackendError",
    "CompileSpec",
    "ContractError",
    "DelegationSpec",
    "EdgeCompileConfig",
    "EdgeError",
    "EdgeProgram",
    "EdgeProgramManager",
    "EdgeVerifier",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "ExirError",
    "InputError",
    "LoweredBackendModule",
    "MemoryPlanningPass",
    "PartitionResult",
    "Partitioner",
    "PreprocessResult",
    "Rejection",
    "Runtime",
    "apply_passes",
    "copy_program",
    "delegates",
    "edge_program",
    "fill_values",
    "register_runtime",
    "run_program",
    "tag_constant_data",
    "tag_mutated_buffer",
    "to_backend",
    "to_edge",
    "to_edge_transform_and_lower",
    "transform_program",
]
