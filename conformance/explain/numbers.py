"""Results of one model side by side: on the device, quantized in torch, in floating point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from npu_assay.conformance.explain.record import Comparison

Outputs = Sequence[Tensor]
INDICES = (torch.int32, torch.int64)


def compared(runs: Mapping[str, Sequence[Outputs]]) -> tuple[Comparison, ...]:
    """Each pair of runs on the same inputs, later ones wanted: device, quantized, float."""
    names = list(runs)
    pairs = ((a, b) for number, a in enumerate(names) for b in names[number + 1 :])
    return tuple(_comparison(a, b, runs[a], runs[b]) for a, b in pairs)


def empty(found: Sequence[Comparison]) -> Comparison | None:
    """The device beside what it was made of, if the difference is as large as the results; None if they say more."""
    first = found[0] if found else None
    return first if first is not None and first.sqnr is not None and first.sqnr <= 0 else None


def _comparison(given: str, wanted: str, a: Sequence[Outputs], b: Sequence[Outputs]) -> Comparison:
    pairs = [(x, y) for xs, ys in zip(a, b, strict=True) for x, y in zip(xs, ys, strict=True)]
    x, y = _flat(x for x, _ in pairs), _flat(y for _, y in pairs)
    return Comparison(given, wanted, sqnr(x, y), cosine(x, y), _largest(x, y), agreement(pairs))


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    found = [each.detach().to(torch.float64).flatten() for each in tensors]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)


def sqnr(given: Tensor, wanted: Tensor) -> float | None:
    """10 * log10 of the power of the wanted numbers over that of the differences, in dB.

    None where one of them is 0, or a number is not finite.
    """
    signal, noise = float((wanted**2).sum()), float(((given - wanted) ** 2).sum())
    if signal <= 0 or noise <= 0 or not math.isfinite(signal) or not math.isfinite(noise):
        return None
    return round(10 * math.log10(signal / noise), 2)


def cosine(given: Tensor, wanted: Tensor) -> float | None:
    """The cosine of the angle between them; None where one of them is 0 or not finite."""
    size = float(given.norm() * wanted.norm())
    if size <= 0 or not math.isfinite(size):
        return None
    return round(float(given @ wanted) / size, 6)


def _largest(given: Tensor, wanted: Tensor) -> float:
    """The largest difference; equal infinities do not differ, and what is not a number on one side alone does."""
    if not given.numel():
        return 0.0
    both = given.isnan() & wanted.isnan()
    away = torch.where((given == wanted) | both, 0.0, (given - wanted).abs())
    largest = float(away.nan_to_num(nan=math.inf, posinf=math.inf).max())
    return largest if math.isfinite(largest) else 1e308


def agreement(pairs: Sequence[tuple[Tensor, Tensor]]) -> float | None:
    """The share of rows whose largest element is at the same index; None where no output has rows of several.

    Whole numbers are indices already, as of an argmax in the model: those that are equal.
    """
    same = list(_same_places(pairs))
    return round(sum(same) / len(same), 4) if same else None


def _same_places(pairs: Sequence[tuple[Tensor, Tensor]]) -> Iterator[bool]:
    for x, y in pairs:
        if x.dtype == y.dtype and x.dtype in INDICES:
            yield from (x == y).flatten().tolist()
        elif x.dim() and x.shape[-1] > 1 and x.numel():
            yield from (x.argmax(-1) == y.argmax(-1)).flatten().tolist()
