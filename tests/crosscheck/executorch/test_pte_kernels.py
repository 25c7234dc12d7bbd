"""Operators that a `.pte` file may call here are those that ExecuTorch's runtime and torch's core operators have."""

from __future__ import annotations

import pytest

pytest.importorskip("executorch", reason="the peer is the extra `executorch`")

import torch
from torch._ops import OpOverload

from npu_assay.partitioners.exir.execution.outs import out_variant
from npu_assay.partitioners.exir.pte.allowed import ALLOWED
from npu_assay.partitioners.exir.pte.primitives import PRIMITIVES

NOT_IN_TORCH = {
    "et_copy::_d2h_copy.out",
    "et_copy::_h2d_copy.out",
    *(f"quantized_decomposed::{name}.out" for name in ("add", "mixed_linear", "mixed_mm")),
    *(
        f"quantized_decomposed::embedding_{width}.{out}"
        for width in ("2bit", "4bit", "byte")
        for out in ("out", "dtype_out")
    ),
}


def _registered() -> set[str]:
    """What the real runtime has kernels for, with overload `default` for none."""
    import executorch.kernels.quantized  # noqa: F401  # registers kernels
    from executorch.extension.pybindings import portable_lib

    return {name if "." in name else f"{name}.default" for name in portable_lib._get_operator_names()}


def _core_outs() -> set[str]:
    """Names of the out variants of torch's core operators."""
    found = set[str]()
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        op = getattr(getattr(torch.ops.aten, base, None), overload or "default", None) if namespace == "aten" else None
        if isinstance(op, OpOverload) and torch.Tag.core in op.tags:
            variant = out_variant(f"aten.{base}.{overload or 'default'}")
            found |= set() if variant is None else {f"{variant.name}.{variant.overload}"}
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what ExecuTorch's modules do when they are imported
def test_a_file_may_call_what_the_runtime_and_core_operators_have() -> None:
    registered = _registered()
    assert registered - NOT_IN_TORCH | _core_outs() == ALLOWED | set(PRIMITIVES)
    assert registered >= NOT_IN_TORCH
