"""Operators that `.pt2` files may call.

Torch would call any callable below the module torch, and any of its operators, such as those that read and write files.
A file gets functions of tensors and numbers that come with torch, in a namespace that is named here.
"""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from typing import Final

import torch
from torch._ops import OpOverload

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.memory import keep

TARGET = re.compile(r"torch\.ops\.(?P<space>\w+)\.(?P<name>\w+)\.(?P<overload>\w+)", re.ASCII)
OURS: Final = {
    "aten": "torch",
    "prims": "torch",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torchao": "torchao.quantization.quant_primitives",
}
"""The namespaces of operators, and what defines them."""
CONTROL: Final = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in (
        *("cond", "while_loop", "scan", "associative_scan", "map_impl"),
        *("wrap_with_set_grad_enabled", "wrap_with_autocast"),
    )
)
"""Control flow: what takes graphs of the program, and calls nothing else."""
_OPERATORS: Final = "add and_ eq floordiv ge gt le lshift lt mod mul ne neg or_ pos pow rshift sub truediv"
_SIZES: Final = "_sym_sqrt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt"
SYMBOLIC: Final = frozenset(
    ("math.trunc", *(f"_operator.{name}" for name in _OPERATORS.split()), *(f"torch.{name}" for name in _SIZES.split()))
)
"""Arithmetic on sizes."""
TYPES: Final = frozenset(
    (
        *("Tensor", "int", "SymInt", "float", "bool", "number", "complex", "Device", "Generator"),
        *("List[Tensor]", "List[Optional[Tensor]]", "List[int]", "List[SymInt]", "List[float]", "List[bool]"),
        "List[number]",
    )
)
"""Types of arguments: no file, object of Python, storage or stream."""
_TEXTS: Final = """
    _assert_async _assert_scalar _convolution_mode _functional_assert_async _functional_assert_scalar _linalg_eigh
    _linalg_svd __interpolate __upsample conv1d conv2d conv3d div div_ divide divide_ einsum gelu gelu_
    index_reduce index_reduce_ linalg_cond linalg_eigh linalg_eigvalsh linalg_lstsq linalg_matrix_norm
    linalg_norm linalg_qr linalg_svd linalg_svdvals meshgrid nanquantile pad pad_sequence quantile scatter scatter_
    scatter_reduce scatter_reduce_ searchsorted stft fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2
    fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft
    fft_rfft2 fft_rfftn
"""
TEXTS: Final = frozenset(_TEXTS.split())
"""Operators whose texts are modes and messages."""
_INNER: Final = """
    __and__ __iand__ __or__ __ior__ __xor__ __ixor__ __lshift__ __ilshift__ __rshift__ __irshift__ __interpolate
    __upsample _add_relu _add_relu_ _addmm_activation _aminmax _assert_async _assert_scalar _assert_tensor_metadata
    _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _chunk_cat _conj
    _conj_copy _conj_physical _convolution _convolution_mode _euclidean_dist
    _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fft_c2c _functional_assert_async
    _functional_assert_scalar _functional_sym_constrain_range _functional_sym_constrain_range_for_size
    _fused_rms_norm _int_mm _is_all_true _is_any_true _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex
    _linalg_svd _logcumsumexp _masked_softmax _native_multi_head_attention
    _neg_view _neg_view_copy _pack_padded_sequence _pad_circular _pad_enum _pad_packed_sequence _prelu_kernel
    _reshape_copy _reshape_from_tensor _safe_softmax
    _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu _scaled_mm _shape_as_tensor
    _stack _transformer_encoder_layer_fwd _trilinear _unique _unique2 _unsafe_index _unsafe_index_put
    _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa
    _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    _weight_int8pack_mm _weight_norm _weight_norm_interface
"""
INNER: Final = frozenset(_INNER.split())
"""Operators for torch's own use, besides its core ones, that exported programs have."""
AO: Final = frozenset(("choose_qparams_affine", "quantize_affine", "dequantize_affine"))
"""Operators of torchao."""
WRAPPED, UNWRAP = "torch.ops.export.access_subclass_inner_tensor.default", "torchao.utils.unwrap_tensor_subclass(model)"
OTHER: Final = re.compile(
    r"sparse|_coo|coo_|cs[rc]_|bs[rc]_|nested|jagged|mkldnn|cudnn|miopen|cufft|fbgemm|inductor|resize|set_data|^set_?$"
    r"|^quantized_|^quantize_per|^q_|from_file|record_stream|requires_grad|^retains?_"
)
"""Operators of other layouts and libraries, and those that change what a tensor lies in: not a model's arithmetic."""
UNCHECKED: Final = re.compile(
    r"backward|_reshape_alias|segment_reduce|ctc_loss|batch_norm_update|native_batch_norm(_legit(_functional)?)?\.default"
)
"""Operators that write, or read anywhere, outside of their tensors: they believe strides, indices and sizes.

The batch norms are those of training; `batch_norm` checks its sizes.
"""


def check_target(target: str) -> str:
    """The name of an operator that a file may call. Raises UsageError for any other."""
    if target == WRAPPED:
        raise UsageError(f"found weights in classes of torchao, which are pickled, expected {UNWRAP} before the export")
    if target in CONTROL or target in SYMBOLIC or _is_function(target):
        return target
    raise UsageError(f"found the operator {target[:80]!r}, expected one of aten's functions of tensors and numbers")


@keep(4096)
def _is_function(target: str) -> bool:
    match = TARGET.fullmatch(target)
    if match is None or match["space"] not in OURS or (match["space"] == "torchao" and match["name"] not in AO):
        return False
    with suppress(ImportError):  # then it is not registered
        import_module(OURS[match["space"]])
    name, overload = match["name"], match["overload"]
    registered = f"{match['space']}::{name}" + (f".{overload}" if overload != "default" else "")
    if (
        registered not in torch._C._dispatch_get_all_op_names()
    ):  # aten.save, which only scripts call, is in no such list
        return False
    op = getattr(getattr(getattr(torch.ops, match["space"]), name), overload)
    return isinstance(op, OpOverload) and _is_named(name, op) and _takes_plain(name, op)


def _is_named(name: str, op: OpOverload) -> bool:
    """True for a function that exported programs have."""
    if op.namespace in ("aten", "prims") and (OTHER.search(name) or UNCHECKED.search(f"{name}.{op._overloadname}")):
        return False
    return not name.startswith("_") or name in INNER or torch.Tag.core in op.tags


def _takes_plain(name: str, op: OpOverload) -> bool:
    """True where its arguments are tensors, numbers, and texts that name no file."""
    found = [(_kind(str(each.type)), each.is_out) for each in op._schema.arguments]
    allowed = TYPES | {"str"} if name in TEXTS | AO else TYPES
    return all(kind in allowed and not is_out for kind, is_out in found)


def _kind(text: str) -> str:
    """A type without the Optional around it."""
    return text.removeprefix("Optional[").removesuffix("]") if text.startswith("Optional[") else text
