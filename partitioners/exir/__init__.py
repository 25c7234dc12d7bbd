"""The export API: edge programs, partitioners, delegates."""

from partitioners.exir.backend import Backend, BackendDetails, CompileSpec, PreprocessResult, Rejection, Runtime
from partitioners.exir.errors import BackendError, ContractError, EdgeError, ExirError, InputError
from partitioners.exir.lowered import LoweredBackendModule
from partitioners.exir.program import EdgeProgram, EdgeVerifier, edge_program, fill_values
from partitioners.exir.run import register_runtime, run_program

__all__ = [
    "Backend",
    "BackendDetails",
    "BackendError",
    "CompileSpec",
    "ContractError",
    "EdgeError",
    "EdgeProgram",
    "EdgeVerifier",
    "ExirError",
    "InputError",
    "LoweredBackendModule",
    "PreprocessResult",
    "Rejection",
    "Runtime",
    "edge_program",
    "fill_values",
    "register_runtime",
    "run_program",
]
