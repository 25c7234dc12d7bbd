"""Products with weights, and of two activations: their kernels give accumulators as exact floating-point numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from torch import Tensor

from npu_assay.partitioners.common.int8.buffers import Place
from npu_assay.partitioners.ethosu.device.site import Site, Step
from npu_assay.partitioners.ethosu.kernels import linear
from npu_assay.partitioners.ethosu.kernels.linear import Product, integers

Maker = Callable[[Tensor, Tensor, Place | None], Product]
"""From weights and bias to the kernel of the input, with a place of its own or not."""


def bits(site: Site) -> int:
    """The bits of the accumulators, without their sign."""
    return 31 if site.y.dtype == "INT32" else 47


def _prepared(site: Site, make: Maker) -> Step:
    """Weights and bias may also be computed; then the kernel is made at every run."""
    if site.is_constant(1) and site.is_constant(2):
        product = make(site.data(1), site.data(2), site.place)
        return Step(product.kernel, (0,), product)

    def apply(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        product = make(weights, bias, None)
        return integers(bits(site), product.offset)(product.kernel(x))

    return Step(apply, (0, 1, 2), Product(apply, 1 << bits(site)))


def _windows(site: Site, taps: int) -> None:
    """Windows of the input that are copied before they are multiplied."""
    site.pads()
    site.gathers(*site.y.shape[:-1], taps)


def convolution(site: Site) -> Step:
    """CONV2D and DEPTHWISE_CONV2D."""
    weights = site.tensor(1).shape
    depthwise = site.code == "DEPTHWISE_CONV2D"
    _windows(site, weights[3] if depthwise else prod(weights[1:]))
    make = linear.depthwise_conv2d if depthwise else linear.conv2d
    x, stride, dilation, padding = (
        site.codes(0, 3),
        site.attribute("stride"),
        site.attribute("dilation"),
        site.padding(),
    )
    zero_point = site.number(4)
    return _prepared(site, lambda w, b, place: make(w, b, x, bits(site), stride, dilation, padding, zero_point, place))


def convolution3d(site: Site) -> Step:
    _windows(site, prod(site.tensor(1).shape[1:]))
    pad = site.attribute("pad")
    padding = ((pad[0], pad[1]), (pad[2], pad[3]), (pad[4], pad[5]))
    x, stride, dilation, zero_point = (
        site.codes(0, 3),
        site.attribute("stride"),
        site.attribute("dilation"),
        site.number(4),
    )
    return _prepared(site, lambda w, b, _: linear.conv3d(w, b, x, bits(site), stride, dilation, padding, zero_point))


def transpose_convolution(site: Site) -> Step:
    weights, pad, stride = site.tensor(1).shape, site.attribute("out_pad"), site.attribute("stride")
    site.gathers(*site.x.shape[:3], prod(weights[:3]))
    whole = [(n - 1) * s + k for n, s, k in zip(site.x.shape[1:3], stride, weights[1:3], strict=True)]
    site.gathers(site.x.shape[0], *whole, weights[0])
    size, before = (site.y.shape[1], site.y.shape[2]), (pad[0], pad[2])
    x, zero_point = site.codes(0, 3), site.number(4)
    return _prepared(
        site, lambda w, b, _: linear.transpose_conv2d(w, b, size, x, bits(site), stride, before, zero_point)
    )


def matmul(site: Site) -> Step:
    kernel, bound = linear.matmul(site.codes(0, 2), site.codes(1, 3), site.x.shape[2], bits(site))
    return Step(kernel, (0, 1), Product(kernel, bound))
