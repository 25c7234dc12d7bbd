"""Programs as ExecuTorch runs them: records of one, the `.pte` file it is stored in, and a runtime in Python."""

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.exir.pte.model import (
    Allocation,
    BoolList,
    Chain,
    Delegate,
    DelegateCall,
    DoubleList,
    EValue,
    Frame,
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
from npu_assay.partitioners.exir.pte.reader import read
from npu_assay.partitioners.exir.pte.writer import write

__all__ = [
    "Allocation",
    "BoolList",
    "Chain",
    "Delegate",
    "DelegateCall",
    "DoubleList",
    "EValue",
    "FormatError",
    "Frame",
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
