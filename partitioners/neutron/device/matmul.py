"""FULLY_CONNECTED and BATCH_MATMUL. Shape rules: TFLite kernels/{fully_connected,batch_matmul}.cc."""

from __future__ import annotations

from math import prod

import torch

from npu_assay.partitioners.common.int8 import matmul
from npu_assay.partitioners.common.machine import Step
from npu_assay.partitioners.neutron.device.convolution import bias_codes, weight_scales
from npu_assay.partitioners.neutron.device.elementwise import broadcast, fused_bounds
from npu_assay.partitioners.neutron.device.site import WORK_LIMIT, Shape, Site


def fully_connected(site: Site) -> Step:
    """FULLY_CONNECTED: x [..., I], weights [O, I] constant or computed -> [rows, O], or [..., O]."""
    w = site.input(1)
    site.rank(w, 2)
    out, depth = w.shape
    site.require(site.option("weights_format") == 0, "weights_format", site.option("weights_format"), "0")
    site.output_shape(_rows(site, depth, out))
    site.elements((prod(site.x.shape), out), WORK_LIMIT, "multiplications")
    return _static(site, out) if w.data is not None else _dynamic(site, out)


def _rows(site: Site, depth: int, out: int) -> Shape:
    """Output shape: the input's leading sizes kept, or flattened to rows of `depth`."""
    shape = site.x.shape
    if site.option("keep_num_dims"):
        site.require(shape[-1:] == (depth,), "input shape", list(shape), f"last size {depth} as the weights")
        return (*shape[:-1], out)
    site.require(prod(shape) % depth == 0, "input elements", prod(shape), f"a multiple of the weights' {depth}")
    return (prod(shape) // depth, out)


def _static(site: Site, out: int) -> Step:
    w, x, y = site.input(1), site.affine(site.x), site.affine(site.y)
    scales = weight_scales(site, w, 0)
    site.require(not any(w.zero_points), "zero points of the weights", sorted(set(w.zero_points)), "0")
    site.ratio(x.scale * max(scales) / y.scale)
    bias = bias_codes(site, 2, out, x.scale, scales)
    keep, limits = site.option("keep_num_dims"), fused_bounds(site, y)
    return Step(matmul.fully_connected(site.constant(1, "int8"), bias, x, scales, y, 0, keep, limits))


def _dynamic(site: Site, out: int) -> Step:
    x, w, y = site.affine(site.x), site.affine(site.input(1)), site.affine(site.y)
    site.ratio(x.scale * w.scale / y.scale)
    site.no_fused_activation()
    bias = bias_codes(site, 2, out, x.scale, (w.scale,))
    largest = 0 if bias is None else int(bias.to(torch.int64).abs().max())
    site.accumulator(site.input(1).shape[1], x, w, bias=largest)
    return Step(matmul.fully_connected_dynamic(x, w, y, bias, site.option("keep_num_dims")), (0, 1))


def batch_matmul(site: Site) -> Step:
    """BATCH_MATMUL: a [..., M, K] @ b [..., K, N]; adj_x and adj_y swap the last two axes of a and b."""
    first, second = site.x, site.input(1)
    for tensor in (first, second):
        site.require(len(tensor.shape) >= 2, f"shape of {tensor.name!r}", list(tensor.shape), "rank at least 2")
    adj_x, adj_y = site.option("adj_x"), site.option("adj_y")
    (rows, depth), (same, columns) = _matrix(first.shape, adj_x), _matrix(second.shape, adj_y)
    site.require(depth == same, "inner sizes", f"{depth} and {same}", "equal")
    batch = broadcast(site, first.shape[:-2], second.shape[:-2])
    site.output_shape((*batch, rows, columns))
    site.elements((*batch, rows, columns, depth), WORK_LIMIT, "multiplications")
    a, b, y = site.affine(first), site.affine(second), site.affine(site.y)
    site.accumulator(depth, a, b)
    site.ratio(a.scale * b.scale / y.scale)
    return Step(matmul.batch_matmul(a, b, y, adj_x, adj_y), (0, 1))


def _matrix(shape: Shape, adjoint: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if adjoint else (shape[-2], shape[-1])
