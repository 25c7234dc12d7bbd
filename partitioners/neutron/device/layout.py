"""Data movement: codes are copied, so inputs and output have one quantization.

Shape rules: TFLite kernels/{pad,concatenation,slice,transpose,reshape}.cc.
"""

from __future__ import annotations

from math import prod

from npu_assay.partitioners.common.int8 import layout
from npu_assay.partitioners.common.machine import Step
from npu_assay.partitioners.neutron.device.site import Shape, Site


def pad(site: Site) -> Step:
    """PAD with the zero point, which means 0."""
    return _padded(site, site.affine(site.x).zero_point)


def padv2(site: Site) -> Step:
    """PADV2 with a constant int8 code in the input's quantization."""
    value = site.input(2)
    site.same_quantisation(site.x, value)
    codes = site.constant(2, "int8")
    site.require(codes.numel() == 1, "pad values", codes.numel(), "1")
    return _padded(site, int(codes.reshape(-1)[0]))


def _padded(site: Site, code: int) -> Step:
    shape = site.x.shape
    amounts = site.constant(1, "int32")
    site.require(amounts.shape == (len(shape), 2), "shape of paddings", list(amounts.shape), f"[{len(shape)}, 2]")
    pairs = [(before, after) for before, after in amounts.tolist()]
    site.require(bool((amounts >= 0).all()), "paddings", pairs, "not negative")
    site.output_shape([before + size + after for size, (before, after) in zip(shape, pairs, strict=True)])
    site.same_quantisation(site.x, site.y)
    return Step(layout.pad(pairs, code))


def concatenation(site: Site) -> Step:
    """CONCATENATION along one axis of inputs that agree in every other size."""
    shape = site.x.shape
    axis = site.axis(site.option("axis"), len(shape))
    site.no_fused_activation()
    tensors = [site.input(position) for position in range(len(site.inputs))]
    for tensor in tensors:
        fits = _without(tensor.shape, axis) == _without(shape, axis)
        site.require(fits, f"shape of {tensor.name!r}", list(tensor.shape), f"{list(shape)} except at axis {axis}")
        site.same_quantisation(site.y, tensor)
    total = sum(tensor.shape[axis] for tensor in tensors)
    site.output_shape((*shape[:axis], total, *shape[axis + 1 :]))
    join = layout.concat(axis)
    return Step(lambda *parts: join(parts), tuple(range(len(tensors))))


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def slice_(site: Site) -> Step:
    """SLICE from `begin`, of `size` cells; size -1 takes all that is left."""
    shape = site.x.shape
    begin, wanted = site.integers(1, len(shape)), site.integers(2, len(shape))
    size = tuple(n - b if s == -1 else s for n, b, s in zip(shape, begin, wanted, strict=True))
    inside = all(b >= 0 and s >= 1 and b + s <= n for n, b, s in zip(shape, begin, size, strict=True))
    site.require(inside, "begin and size", f"{list(begin)}, {list(wanted)}", f"a part of {list(shape)}")
    site.output_shape(size)
    site.same_quantisation(site.x, site.y)
    return Step(layout.slice_(begin, size))


def transpose(site: Site) -> Step:
    """TRANSPOSE: axis i of the output is axis perm[i] of the input."""
    shape = site.x.shape
    perm = site.integers(1, len(shape))
    site.require(sorted(perm) == list(range(len(shape))), "perm", list(perm), f"each axis below {len(shape)} once")
    site.output_shape([shape[axis] for axis in perm])
    site.same_quantisation(site.x, site.y)
    return Step(layout.transpose(perm))


def reshape(site: Site) -> Step:
    """RESHAPE to the constant shape input, or to `new_shape` without one; one size may be -1."""
    shape = tuple(_new_shape(site))
    site.require(shape.count(-1) <= 1, "new shape", list(shape), "at most one -1")
    known = prod(size for size in shape if size != -1)
    left = prod(site.x.shape) // max(known, 1)
    site.output_shape([left if size == -1 else size for size in shape])
    site.require(prod(site.y.shape) == prod(site.x.shape), "elements", prod(site.y.shape), f"{prod(site.x.shape)}")
    site.same_quantisation(site.x, site.y)
    return Step(layout.reshape(site.y.shape))


def _new_shape(site: Site) -> Shape:
    if len(site.inputs) > 1:
        values = site.constant(1, "int32")
        site.require(values.dim() == 1, "rank of the new shape", values.dim(), "1")
        return tuple(values.tolist())
    new_shape = site.option("new_shape")
    site.require(new_shape is not None, "new_shape", "absent", "a shape")
    return tuple(new_shape)
