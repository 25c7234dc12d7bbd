"""Operators element by element, tables and rescales."""

from __future__ import annotations

from collections.abc import Callable

from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.ethosu.device import spans
from npu_assay.partitioners.ethosu.device.site import Site, Span, Step
from npu_assay.partitioners.ethosu.kernels import elementwise, placed
from npu_assay.partitioners.ethosu.kernels.linear import Product
from npu_assay.partitioners.ethosu.kernels.numbers import DTYPES, Codes, codes
from npu_assay.partitioners.ethosu.kernels.rescale import of_product
from npu_assay.partitioners.ethosu.kernels.rescale import rescale as rescale_kernel


def checked(span: Callable[[Site], Span], unchecked: Kernel, kernel: Kernel) -> Callable[[Site], Step]:
    """A kernel that sees overflows, or one that does not where there can be none. span: of the exact results."""
    return lambda site: Step(unchecked if spans.fits(span(site)) else kernel, (0, 1))


def arithmetic_right_shift(site: Site) -> Step:
    return Step(elementwise.arithmetic_right_shift(site.attribute("round")), (0, 1))


def multiply(site: Site) -> Step:
    return Step(elementwise.mul(site.number(2)), (0, 1))


def negate(site: Site) -> Step:
    return Step(elementwise.negate(site.codes(0, 1), site.codes(0, 2)))


def clamp(site: Site) -> Step:
    return Step(placed.clamp(site.attribute("min_val"), site.attribute("max_val"), DTYPES[site.y.dtype], site.place))


def cast(site: Site) -> Step:
    return Step(elementwise.cast(DTYPES[site.y.dtype]))


def table(site: Site) -> Step:
    values = site.data(1)
    return Step(elementwise.table8(values, site.place) if site.x.dtype == "INT8" else elementwise.table16(values))


def rescale(site: Site) -> Step:
    x, y = site.codes(0, 3, site.attribute("input_unsigned")), _rescaled(site)
    return Step(rescale_kernel(*_factors(site), x, y, site.attribute("scale32"), _largest(site), site.place))


def rescaled_product(site: Site, product: Product) -> Kernel:
    """The kernel of a RESCALE that takes what the product's kernel gives."""
    return of_product(product, *_factors(site), _rescaled(site), site.attribute("scale32"))


def _factors(site: Site) -> tuple[list[int], list[int]]:
    """Multipliers and shifts."""
    return site.data(1).tolist(), site.data(2).tolist()


def _rescaled(site: Site) -> Codes:
    return codes(site.y.dtype, site.number(4), site.attribute("output_unsigned"))


def _largest(site: Site) -> int | None:
    """The largest magnitude of the operand less its zero point; None for unsigned codes."""
    if site.attribute("input_unsigned"):
        return None
    (low, high), zero_point = site.spans[0], site.number(3)
    return max(zero_point - low, high - zero_point)
