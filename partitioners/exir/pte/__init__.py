"""Programs as ExecuTorch runs them: records of one, the `.pte` file it is stored in, and a runtime in Python."""

from partitioners.exir.flatbuffer import FormatError
from partitioners.exir.pte.model import (
    Allocation,
    BoolList,
    Chain,
    Delegate,
    DelegateCall,
    DoubleList,
    EValue,
    FreeCall,
    Instruction,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Operator,
    OptionalTensorList,
    Plan,
    Program,
    Tensor,
    TensorList,
)
from partitioners.exir.pte.reader import read
from partitioners.exir.pte.writer import write

__all__ = [
    "Allocation",
    "BoolList",
    "Chain",
    "Delegate",
    "DelegateCall",
    "DoubleList",
    "EValue",
    "FormatError",
    "FreeCall",
    "Instruction",
    "IntList",
    "JumpFalseCall",
    "KernelCall",
    "MoveCall",
    "Operator",
    "OptionalTensorList",
    "Plan",
    "Program",
    "Tensor",
    "TensorList",
    "read",
    "write",
]
