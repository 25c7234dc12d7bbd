"""XNNPACK compilers that write something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import torch

from npu_assay import faults
from npu_assay.faults import Patch
from npu_assay.partitioners.exir import Backend, CompileSpec, PreprocessResult
from npu_assay.partitioners.xnnpack import XnnpackBackend as Correct
from npu_assay.partitioners.xnnpack import backend
from npu_assay.partitioners.xnnpack.xnn_format import read, write
from npu_assay.partitioners.xnnpack.xnn_model import ABSENT, PerChannel, PerGroup, XModel, XNode, XValue


def compiler(change: Callable[[XModel], XModel]) -> Backend:
    """A backend whose compiler changes every subgraph that it writes."""
    return faults.rewriting(backend, lambda blob: write(change(read(blob))))


def compiling_with(patched: Patch) -> Backend:
    """A backend whose compiler runs under a patch."""
    return faults.compiling_with(backend, patched)


def nodes(change: Callable[[XNode], XNode]) -> Callable[[XModel], XModel]:
    """A change of every node."""
    return lambda model: replace(model, nodes=tuple(map(change, model.nodes)))


def values(change: Callable[[XValue], XValue]) -> Callable[[XModel], XModel]:
    """A change of every value."""
    return lambda model: replace(model, values=tuple(map(change, model.values)))


def options(**names: str) -> Callable[[XNode], XNode]:
    """Options of a node that take the values of others."""

    def change(node: XNode) -> XNode:
        swapped = {name: node.options[other] for name, other in names.items() if name in node.options}
        return replace(node, options={**node.options, **swapped})

    return change


PRODUCTS = ("FullyConnected", "Conv2d", "DepthwiseConv2d", "ConvTranspose2d")


def _without_bias(node: XNode) -> XNode:
    return replace(node, inputs=(*node.inputs[:2], ABSENT)) if node.op in PRODUCTS else node


def _reversed_scales(value: XValue) -> XValue:
    quant = value.quant
    if not isinstance(quant, PerChannel):
        return value
    return replace(value, quant=replace(quant, scales=np.ascontiguousarray(quant.scales[::-1])))


def _transposed_groups(value: XValue) -> XValue:
    quant = value.quant
    if not isinstance(quant, PerGroup):
        return value
    scales = np.ascontiguousarray(quant.scales.T).reshape(quant.scales.shape)
    return replace(value, quant=replace(quant, scales=scales))


def _swapped_nibbles(value: XValue) -> XValue:
    if value.dtype not in ("qcint4", "qbint4") or value.data is None:
        return value
    return replace(value, data=(value.data << 4 | value.data >> 4).astype(np.uint8))


def _signed_nibbles(value: XValue) -> XValue:
    """Two's complement instead of codes with 8 added."""
    if value.dtype not in ("qcint4", "qbint4") or value.data is None:
        return value
    return replace(value, data=value.data ^ np.uint8(0x88))


def _without_limits(node: XNode) -> XNode:
    return node if node.op == "Clamp" else replace(node, limits=None)


def _upper_limit_lost(node: XNode) -> XNode:
    return node if node.limits is None else replace(node, limits=(node.limits[0], float("inf")))


def _inverse_permutation(node: XNode) -> XNode:
    if node.op != "StaticTranspose":
        return node
    return replace(node, options={"perm": tuple(np.argsort(node.options["perm"]).tolist())})


def _exchanged_inputs(node: XNode) -> XNode:
    return replace(node, inputs=node.inputs[::-1]) if node.op in ("Subtract", "Div") else node


def _corners_forgotten(node: XNode) -> XNode:
    return replace(node, flags=0) if node.op == "StaticResizeBilinear2D" else node


def _half_precision(value: XValue) -> XValue:
    if value.data is None or value.dtype != "fp32":
        return value
    return replace(value, data=value.data.astype(np.float16).astype(np.float32))


STRIDES = {"subsampling_height": "subsampling_width", "subsampling_width": "subsampling_height"}
PADS = {"pre_paddings": "post_paddings", "post_paddings": "pre_paddings"}

bias_dropped = compiler(nodes(_without_bias))
strides_exchanged = compiler(nodes(options(**STRIDES)))
scales_reversed = compiler(values(_reversed_scales))
groups_transposed = compiler(values(_transposed_groups))
nibbles_swapped = compiler(values(_swapped_nibbles))
nibbles_signed = compiler(values(_signed_nibbles))
clamp_lost = compiler(nodes(_without_limits))
upper_limit_lost = compiler(nodes(_upper_limit_lost))
permutation_inverted = compiler(nodes(_inverse_permutation))
pads_exchanged = compiler(nodes(options(**PADS)))
operands_exchanged = compiler(nodes(_exchanged_inputs))
corners_forgotten = compiler(nodes(_corners_forgotten))
weights_halved = compiler(values(_half_precision))
numbers = count()


class _Dated(Correct):
    """A compiler whose blobs carry a number that grows."""

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        blob = bytearray(Correct.preprocess(edge_program, compile_specs).processed_bytes)
        blob[:4] = next(numbers).to_bytes(4, "little")
        return PreprocessResult(bytes(blob))


dated = replace(backend, details=_Dated)
