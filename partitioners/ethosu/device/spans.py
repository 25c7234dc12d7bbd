"""The numbers that a tensor can hold for any inputs, so that kernels can leave out needless checks and passes.

A span is the least and the largest number. Spans are bounds, found once when a graph is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from npu_assay.partitioners.ethosu.device.site import Site, Span
from npu_assay.partitioners.ethosu.kernels.numbers import INT32, codes
from npu_assay.partitioners.ethosu.tosa_model import TTensor

_TYPES: Final[Mapping[str, Span]] = {
    "BOOL": (0, 1),
    **{name: (codes(name).low, codes(name).high) for name in ("INT8", "INT16", "INT32", "INT48")},
}


def of_tensor(tensor: TTensor) -> Span:
    """The span of a constant's numbers; for other tensors, that of the type."""
    if tensor.data is None or tensor.dtype == "BOOL":
        return _TYPES[tensor.dtype]
    return int(tensor.data.min()), int(tensor.data.max())


def of_type(tensor: TTensor) -> Span:
    """What the tensor's type holds."""
    return _TYPES[tensor.dtype]


def _ends(numbers: Sequence[int]) -> Span:
    return min(numbers), max(numbers)


def total(site: Site) -> Span:
    """The span of ADD's exact sum."""
    (a, b), (c, d) = site.spans[:2]
    return a + c, b + d


def difference(site: Site) -> Span:
    """The span of SUB's exact difference."""
    (a, b), (c, d) = site.spans[:2]
    return a - d, b - c


def summed(site: Site) -> Span:
    """The span of REDUCE_SUM's exact sum."""
    (low, high), count = site.spans[0], site.x.shape[site.attribute("axis")]
    return low * count, high * count


def multiplied(site: Site) -> Span:
    return _TYPES["INT32"] if site.number(2) else _ends([p * q for p, q in product(*site.spans[:2])])


def magnitude(site: Site) -> Span:
    low, high = site.spans[0]
    return max(low, -high, 0), max(-low, high)


def larger(site: Site) -> Span:
    (a, b), (c, d) = site.spans[:2]
    return max(a, c), max(b, d)


def smaller(site: Site) -> Span:
    (a, b), (c, d) = site.spans[:2]
    return min(a, c), min(b, d)


def limited(site: Site) -> Span:
    low, high = site.attribute("min_val"), site.attribute("max_val")
    a, b = site.spans[0]
    return min(max(a, low), high), min(max(b, low), high)


def rescaled(site: Site) -> Span:
    """The ends of the operand by every multiplier, which are not negative."""
    if site.attribute("input_unsigned") or site.attribute("output_unsigned"):
        return _TYPES[site.y.dtype]
    low, high = _TYPES[site.y.dtype]
    zero_points = site.number(3), site.number(4)
    pairs = set(zip(site.data(1).tolist(), site.data(2).tolist(), strict=True))
    ends = [
        (((v - zero_points[0]) * m + (1 << (s - 1))) >> s) + zero_points[1] for v in site.spans[0] for m, s in pairs
    ]
    return _ends([min(max(end, low), high) for end in ends])


def looked_up(site: Site) -> Span:
    """Entries, or numbers between two neighbors with 7 more bits."""
    low, high = site.spans[1]
    return (low, high) if site.y.dtype == "INT8" else (low << 7, high << 7)


def moved(site: Site) -> Span:
    return site.spans[0]


def joined(site: Site) -> Span:
    return _ends([end for span in site.spans for end in span])


def fits(span: Span) -> bool:
    """Whether exact results stay within INT32."""
    return INT32[0] <= span[0] and span[1] <= INT32[1]
